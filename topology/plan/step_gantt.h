// A timeline as people look at it. Times go from left to right; of each bucket the wait between
// ready and start, and the sum.
#pragma once

#include <string>

#include "topology/plan/step_timeline.h"

namespace regatta::topology::plan {

// Lines of at most `columns` characters (60 at least), a line for each of the first 40 buckets.
[[nodiscard]] std::string gantt_text(const StepTimeline& timeline, int columns = 100);

// A picture that stands alone, without scripts, fonts or styles from elsewhere; a row for each of
// the first 200 buckets. What does not fit is said in both.
[[nodiscard]] std::string gantt_svg(const StepTimeline& timeline);

}  // namespace regatta::topology::plan
