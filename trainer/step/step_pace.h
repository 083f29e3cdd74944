#pragma once

namespace regatta::trainer::step {

// How long a step took all ranks together; every rank has the same figures.
struct StepPace {
  double seconds = 0;      // of the rank that took longest
  double flops = 0;        // of the rank with most to compute
  bool disturbed = false;  // some rank waited for its samples, or wrote a checkpoint
};

}  // namespace regatta::trainer::step
