// Where a step's samples lie in the run's stream.
#pragma once

#include <cstdint>

namespace regatta::trainer::samples {

struct StepPlace {
  std::int64_t step = 1;   // of the optimizer; 1 is the first
  std::int64_t batch = 0;  // samples of it
  std::int64_t first = 0;  // the number of the first of them, which follow one another

  bool operator==(const StepPlace&) const = default;
};

}  // namespace regatta::trainer::samples
