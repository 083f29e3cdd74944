// Any bytes are a safetensors header: parsed, or one clear error. Names of its tensors that say a
// range are written again unchanged.
#include "checkpoint/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/shards.h"

using regatta::base::check;
using regatta::base::Error;
using namespace regatta::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(text, "f");
  } catch (const Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
    return 0;
  }
  std::uint64_t end = 0;
  for (const TensorInfo& tensor : header.tensors) {
    check(tensor.begin == end && tensor.end >= end, "tensors lie one after another");
    end = tensor.end;
    check(dtype_bytes(tensor.dtype).has_value(), "the type is a known one");
    for (const std::int64_t dimension : tensor.shape) check(dimension >= 0, "sizes are sizes");
    if (const auto range = parse_range_name(tensor.name)) {
      check(range_name(*range) == tensor.name, "a range is written as it is read");
    }
    if (const auto shard = parse_shard_file(tensor.name)) {
      check(shard_file(shard->kind, shard->shard, shard->shards) == tensor.name,
            "so is a shard's name");
    }
  }
  check(end == header.data_bytes, "the data ends with the last tensor");
  return 0;
}
