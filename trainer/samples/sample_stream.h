// The samples of a run by number, whoever makes them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trainer/samples/batch.h"

namespace regatta::trainer::samples {

// Pure functions of the number (0 is the run's first sample); thread-safe.
struct SampleStream {
  std::function<Sample(std::int64_t number)> at;
  // at(number).ids.size(), much faster.
  std::function<std::int32_t(std::int64_t number)> length;
  // Which sample of the data that is, whatever its masks and its number: the dataset's place in the
  // run file, the pass over it, and of a pair its document and first sentence ("0:2:57:3"), of a
  // task the window or example ("0:2:57"); all from 0. Empty: a stream whose samples have none.
  std::function<std::string(std::int64_t number)> id{};
};

}  // namespace regatta::trainer::samples
