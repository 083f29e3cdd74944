// Any bytes are a shard's sidecar: one clear error, or exactly what a writer would have written.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/manifest.h"

using regatta::base::check;
using namespace regatta::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const WrittenShard shard = parse_sidecar(text, "f");
    check(to_json(shard) == text, "nothing was lost");
    check(shard.file.digest.size() == 32, "the digest is whole");
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
