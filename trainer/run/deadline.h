// When an attempt whose time is limited has to save and end.
#pragma once

#include <array>
#include <cstddef>
#include <limits>

namespace regatta::trainer::run {

// Seconds of one monotonic clock throughout.
class Deadline {
 public:
  // `at`: when the time is over; `first_save`: what a checkpoint may take, until one was seen.
  Deadline(double at, double first_save) : at_(at), save_(first_save) {}
  // There is all the time in the world.
  Deadline() : Deadline(std::numeric_limits<double>::infinity(), 0) {}

  void saved(double seconds) { save_ = seconds; }
  // Once a step, always at the same place in it: whether what is left would not do for twice a
  // checkpoint and the longest of the last steps, with whatever happened between them.
  [[nodiscard]] bool is_due(double now);

 private:
  double at_;
  double save_;
  double before_ = -1;              // when it was asked last; -1: never
  std::array<double, 16> steps_{};  // the last intervals, in turn
  std::size_t next_ = 0;
};

}  // namespace regatta::trainer::run
