// How many threads make samples, and how many steps ahead, found by trying while the run trains: no
// bit of it depends on either.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/contract/input_config.h"
#include "trainer/contract/journal.h"

namespace regatta::trainer::samples {

struct InputChoice {
  int workers = 1;
  int prefetch = 1;  // steps ahead

  bool operator==(const InputChoice&) const = default;
};

// Of a step, on this rank.
struct InputLook {
  double step_seconds = 0;    // all of it
  double waited_seconds = 0;  // of these, for its samples
  double making_seconds = 0;  // that a thread took for its samples
  std::int64_t samples = 0;   // that it had
  std::int64_t bytes = 0;     // that these take on the host

  bool operator==(const InputLook&) const = default;
};

// A step that waits for more than kGain of its time is one that waits. While none does, one thread
// makes the next step's samples. Where more than an eighth of a window's steps do, more steps ahead
// and more threads are tried: ways(), from the least to the most, each for a window of kWindow
// steps, until none waits or all were tried; the fastest of them stays, and of those as fast within
// kGain the least. Later a window is of kLongWindow steps, and more than kMostStalled of it is too
// much. What the run file sets is not tried.
class InputTuner {
 public:
  static constexpr int kPassedOver = 2;  // steps of the attempt, and behind each change
  static constexpr int kWindow = 8, kLongWindow = 50;
  static constexpr double kMostStalled = 0.02;
  static constexpr double kGain = 0.02;
  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 20U;  // of steps ahead
  static constexpr int kMostWorkers = 16, kMostAhead = 16;

  // most_workers: not more is tried, where the run file does not say; at least 1. may_be_ahead:
  // else the next step alone is made, as with samples that ranks exchange, and batches that grow.
  InputTuner(const contract::InputConfig& config, int most_workers, bool may_be_ahead);

  // What the next step is to be made with.
  [[nodiscard]] const InputChoice& choice() const { return ways_[way_]; }
  // All that is tried, in that order.
  [[nodiscard]] const std::vector<InputChoice>& ways() const { return ways_; }

  // After each step, in their order. What was found, once it is, and when it has changed.
  [[nodiscard]] std::optional<contract::InputRecord> observe(std::int64_t step,
                                                             const InputLook& look);

 private:
  struct Seen {
    double step_seconds = 0;        // mean
    double samples_per_second = 0;  // that so many workers make
    double demand_per_second = 0;   // that steps would take that wait for none
    bool is_enough = false;         // hardly a step waited
  };
  [[nodiscard]] Seen seen() const;
  [[nodiscard]] std::optional<contract::InputRecord> settle(std::int64_t step, std::size_t way);
  [[nodiscard]] contract::InputRecord record(std::int64_t step) const;
  void go_to(std::size_t way);

  contract::InputConfig config_;
  std::vector<InputChoice> ways_;
  std::size_t way_ = 0;
  std::map<std::size_t, Seen> tried_;  // by way
  std::vector<InputLook> window_;
  int pass_over_ = kPassedOver;
  bool settled_ = false;
  bool is_best_ = false;  // all were tried: what it is it stays
};

}  // namespace regatta::trainer::samples
