// A layout of ranks: how many have the same layers, and into how many stages the layers are cut.
#pragma once

#include <string>

#include "trainer/contract/parallel_config.h"

namespace regatta::orchestrator::experiments {

struct Layout {
  std::string
      name;      // of a column, of runs and of their tags: at most kLongestName of a-z 0-9 . _ -
  int data = 1;  // ranks that have the same layers
  int pipeline = 1;  // stages; 1: every rank has all layers
  trainer::contract::PipelineOrder schedule =
      trainer::contract::PipelineOrder::OneForwardOneBackward;

  [[nodiscard]] int ranks() const { return data * pipeline; }
};
inline constexpr std::size_t kLongestName = 24;

// Whether they are the same but for the name. Without stages there is nothing to schedule.
[[nodiscard]] bool is_same(const Layout& a, const Layout& b);

// "data4", "stages4", "data2-stages2-gpipe".
[[nodiscard]] std::string default_name(const Layout& layout);

// "1f1b", as run files have it.
[[nodiscard]] std::string schedule_name(const Layout& layout);

}  // namespace regatta::orchestrator::experiments
