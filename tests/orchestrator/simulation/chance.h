// All chance of a simulated world, from one seed; and the life of the controller in it.
#pragma once

#include <cstdint>
#include <exception>
#include <random>
#include <string>

#include "base/error.h"

namespace regatta::tests::simulation {

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] bool one_in(int count) { return below(count) == 0; }
  // 0 … count-1. By remainder, which is the same with every library.
  [[nodiscard]] int below(int count) {
    return static_cast<int>(random_() % static_cast<std::uint64_t>(count));
  }
  [[nodiscard]] double between(double least, double most) {
    return least + (most - least) * static_cast<double>(random_() >> 11U) * 0x1p-53;
  }
  [[nodiscard]] std::string hex(int bytes) {
    std::string text;
    for (int i = 0; i < 2 * bytes; ++i) text += "0123456789abcdef"[random_() & 15U];
    return text;
  }

 private:
  std::mt19937_64 random_;
};

// Thrown where the controller is killed. Nothing of the product catches it.
struct Killed {};

// Counts what a controller does to the world: each is where it may be killed. A dead one changes
// nothing any more.
class Life {
 public:
  // Killed by the n-th step from now; 0: not.
  void end_at(std::int64_t step) { left_ = step; }
  void begin() {
    dead_ = false;
    left_ = 0;
  }
  [[nodiscard]] bool dead() const { return dead_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  // True when it is dead now. For those who cannot throw.
  [[nodiscard]] bool step() {
    ++steps_;
    if (!dead_ && left_ > 0 && --left_ == 0) dead_ = true;
    return dead_;
  }
  void step_or_die() {
    if (step()) die();
  }

 private:
  [[noreturn]] static void die() {
    // While objects are destroyed nothing may be thrown that they do not expect.
    if (std::uncaught_exceptions() > 0) throw base::Error(base::Code::Operator, "killed");
    throw Killed{};
  }

  bool dead_ = false;
  std::int64_t left_ = 0, steps_ = 0;
};

}  // namespace regatta::tests::simulation
