// Any bytes are a safetensors header or a manifest: parsed, or one clear error.
#include "checkpoint/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "checkpoint/manifest.h"

using regatta::base::check;
using regatta::base::Error;
using namespace regatta::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const SafetensorsHeader header = parse_safetensors_header(text, "f");
    std::uint64_t end = 0;
    for (const TensorInfo& tensor : header.tensors) {
      check(tensor.begin == end && tensor.end >= end, "tensors lie one after another");
      end = tensor.end;
    }
    check(end == header.data_bytes, "the data ends with the last tensor");
  } catch (const Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
  }
  try {
    const std::string canonical = to_json(parse_manifest(text, "f"));
    check(to_json(parse_manifest(canonical, "f")) == canonical, "canonical text is stable");
  } catch (const Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
  }
  return 0;
}
