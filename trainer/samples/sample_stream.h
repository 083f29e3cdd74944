// The samples of a run by number, whoever makes them.
#pragma once

#include <cstdint>
#include <functional>

#include "trainer/samples/batch.h"

namespace regatta::trainer::samples {

// Pure functions of the number (0 is the run's first sample); thread-safe.
struct SampleStream {
  std::function<Sample(std::int64_t number)> at;
  // at(number).ids.size(), much faster.
  std::function<std::int32_t(std::int64_t number)> length;
};

}  // namespace regatta::trainer::samples
