// Any bytes are a plan whose text is a plan again, or one clear error.
#include "topology/plan/plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "topology/plan/step_gantt.h"

using regatta::base::check;
using namespace regatta::topology;

namespace {

constexpr std::size_t kMostGanttBytes = 64U << 10U;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const plan::Plan plan = plan::parse_plan(text, "plan.json", std::nullopt);
    check(!plan.timeline || plan.timeline->buckets.size() == plan.buckets.size(),
          "a timeline has a span for each bucket");
    const std::string written = plan::to_json(plan);
    check(plan::to_json(plan::parse_plan(written, "plan.json", std::nullopt)) == written,
          "what was written reads back");
    if (plan.timeline) {
      check(plan::gantt_text(*plan.timeline).size() < kMostGanttBytes,
            "the chart in text is bounded");
      check(plan::gantt_svg(*plan.timeline).size() < 16 * kMostGanttBytes,
            "the picture is bounded");
    }
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad plan is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
