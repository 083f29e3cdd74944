// Any bytes are a run file: a configuration or one clear error; a configuration's canonical text
// gives the same configuration.
#include "trainer/contract/run_config.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

using regatta::base::check;
using regatta::trainer::contract::parse_run_config;
using regatta::trainer::contract::RunConfig;
using regatta::trainer::contract::to_json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  RunConfig config;
  try {
    config = parse_run_config(std::string_view(reinterpret_cast<const char*>(data), size), "f");
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad run file is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
    return 0;
  }
  const std::string text = to_json(config);
  check(to_json(parse_run_config(text, "canonical")) == text, "canonical text is stable");
  return 0;
}
