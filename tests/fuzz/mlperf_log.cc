// A log of MLPerf, and the body of a reference, may be any bytes: refused in one line, or a curve
// that is complete and comes back from its own body.
#include "orchestrator/simulate/mlperf_log.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

using regatta::base::check;
using namespace regatta::orchestrator;

namespace {

void check_error(const regatta::base::Error& error) {
  check(error.code() == regatta::base::Code::User, "the user's");
  check(std::string_view(error.what()).find_first_of("\n\x1b") == std::string_view::npos,
        "one line");
}

void check_curve(runs::ReferenceCurve curve) {
  curve.about.name = "fuzzed";
  try {
    runs::complete(&curve);
  } catch (const regatta::base::Error& error) {
    check_error(error);  // a text that is too long, or a threshold that is none
    return;
  }
  const std::string body = regatta::base::json_text(runs::reference_body(curve));
  const auto json = regatta::base::parse_json<nlohmann::ordered_json>(body);
  const runs::ReferenceCurve again = runs::parse_reference(json);
  check(again.seconds == curve.seconds && again.values == curve.values &&
            again.samples == curve.samples &&
            again.about.time_to_accuracy_seconds == curve.about.time_to_accuracy_seconds,
        "the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    check_curve(simulate::read_mlperf_log(bytes, "log"));
  } catch (const regatta::base::Error& error) {
    check_error(error);
  }
  try {
    check_curve(runs::parse_reference(regatta::base::json_depth_at_most(bytes, 8)
                                          ? regatta::base::parse_json<nlohmann::ordered_json>(bytes)
                                          : nlohmann::ordered_json()));
  } catch (const regatta::base::Error& error) {
    check_error(error);
  }
  return 0;
}
