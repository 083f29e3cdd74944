// What a positive figure usually is in a run, by its own last values: the median of their
// logarithms, and how far they lie from it. One bad value among them moves neither.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace regatta::trainer::numerics {

class UsualRange {
 public:
  // So many values are remembered; below kLeast of them nothing is judged, so that the first steps
  // of an attempt, whose figures move most, raise no alarm.
  static constexpr std::size_t kMost = 64, kLeast = 48;
  // A value is unusual from so many spreads above the median on, if it is as many times the median,
  // too: a figure that hardly ever moves may move a little. The spread is 1.4826 times the median
  // distance from the median (a normal distribution's σ), and at least kLeastSpread.
  static constexpr double kManySpreads = 8, kManyTimes = 3, kLeastSpread = 0.05;

  struct Judged {
    double usual = 0;      // the median
    double deviation = 0;  // in spreads; negative below the median
    bool unusual = false;
  };
  // Of a value against those before it, which it then joins. Nothing: they are too few, or it is
  // not a positive number, which joins nothing.
  [[nodiscard]] std::optional<Judged> judge(double value);

 private:
  std::deque<double> logarithms_;
};

}  // namespace regatta::trainer::numerics
