// Any bytes are a .index file, a block of one, or a block of blocks' places: parsed, or one clear
// error. Random bytes never have the right checksums, so all but a few inputs get them here.
#include "checkpoint/tensorflow_index.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tests/checkpoint/tensorflow_samples.h"

using regatta::base::check;
using namespace regatta::checkpoint;
using namespace regatta::tests;

namespace {

enum class Input : std::uint8_t { File, Block, PackedBlock, Entries, Message, Places };

// Meta block, the given block, an index that points to it, footer.
std::string file_of_block(const std::string& stored, int compression) {
  const std::string meta = sealed(block_of({}), 0);
  const std::string index = block_of({{"\xff", varint(meta.size()) + varint(stored.size())}});
  const std::string front = meta + sealed(stored, compression);
  return front + sealed(index, 0) +
         footer_of(varint(0) + varint(8) + varint(front.size()) + varint(index.size()));
}

std::string file_of(Input input, const std::string& bytes) {
  switch (input) {
    case Input::File:
      return bytes;
    case Input::Block:
      return file_of_block(bytes, 0);
    case Input::PackedBlock:
      return file_of_block(bytes, 1);
    case Input::Entries:  // behind a good header, one restart point
      return file_of_block(raw_block(raw_entry(0, "", header_message(3)) + bytes, {0}), 0);
    case Input::Message:
      return table_of_entries({{"", header_message(3)}, {"t", bytes}});
    case Input::Places: {
      const std::string meta = sealed(block_of({{"", header_message()}}), 0);
      return meta + sealed(bytes, 0) +
             footer_of(varint(0) + varint(meta.size() - 5) + varint(meta.size()) +
                       varint(bytes.size()));
    }
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto input = static_cast<Input>(data[0] % 6);
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    const TensorflowIndex index = parse_tensorflow_index(file_of(input, bytes), "f");
    check(index.shards >= 1, "a checkpoint has a data file");
    std::string_view last;
    for (const TensorflowTensor& tensor : index.tensors) {
      check(tensor.name > last, "names ascend");
      last = tensor.name;
      check(tensor.shard >= 0 && tensor.shard < index.shards, "the data file is one of them");
      check(tensor.offset + tensor.size >= tensor.offset, "the end is not before the begin");
      for (const std::int64_t dimension : tensor.shape) check(dimension >= 0, "sizes are sizes");
    }
  } catch (const regatta::base::Error& error) {
    const std::string_view message = error.what();
    check(
        error.code() == regatta::base::Code::User || message.find("libsnappy-dev") != message.npos,
        "a bad file is the user's to change");
    check(message.find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
