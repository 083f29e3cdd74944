// With how many ranks and what global batch a run reaches its target soonest, or with the fewest
// GPU-hours: from what a step takes there, and from the gradient noise scale.
//
// A target that batches of B₀ reach after S₀ samples takes S₀ · (φ + B) / (φ + B₀) samples with
// batches of B: samples to a loss grow with the batch as 1 + B/φ (McCandlish et al., arXiv
// 1812.06162, section 2.2), which is Pollux's statistical efficiency (OSDI 2021), turned round.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace regatta::orchestrator::advise {

// A gradient noise scale φ in samples, with 95 % confidence. No `high`: it may be endless, so that
// batches of any size need the same samples.
struct Noise {
  double scale = 0, low = 0;
  std::optional<double> high;
};

struct Target {
  double samples = 0;  // that it takes
  int batch = 1;       // with batches of this size
};

struct Range {
  double value = 0, low = 0, high = 0;
};

// One way to train, and what a step takes there.
struct Candidate {
  int nodes = 1, ranks = 1, batch = 1;
  Range step_seconds;
  double evaluation_seconds = 0;
  std::int64_t evaluate_every = 0;  // steps; 0: never
};

struct Row {
  Candidate of;
  Range samples;           // to the target
  std::int64_t steps = 0;  // for `samples`, whole ones
  double efficiency = 1;   // (φ + M₀) / (φ + B)
  double samples_per_second = 0;
  Range goodput;          // samples/s × efficiency
  Range seconds;          // to the target, evaluations included; not queue, start and checkpoints
  Range gpu_hours;        // of all ranks
  bool on_front = false;  // no other row takes both less time and fewer GPU-hours
};

enum class Objective { TimeToAccuracy, GpuHours, Goodput };
// "tta", "gpu-hours", "goodput".
[[nodiscard]] const std::vector<std::string>& objective_names();

// What is best, an index into the rows, as it is with φ and, all at once, with either end of it.
struct Best {
  std::size_t expected = 0, noise_low = 0, noise_high = 0;
  [[nodiscard]] bool is_sure() const { return expected == noise_low && expected == noise_high; }
};

struct Advice {
  Noise noise;
  Target target;
  int base_batch = 1;              // M₀ of `efficiency`
  std::vector<Row> rows;           // in the order of the candidates
  std::array<Best, 3> best;        // of each objective, in their order
  std::vector<std::size_t> front;  // rows on it, the fastest first
  [[nodiscard]] const Best& best_for(Objective objective) const {
    return best.at(static_cast<std::size_t>(objective));
  }
};

// S(B), for a noise scale φ; endless: nothing.
[[nodiscard]] double samples_to_target(const Target& target, double batch,
                                       const std::optional<double>& noise_scale);

// Code::User for no candidate, and for figures that are not above 0.
[[nodiscard]] Advice advise(const std::vector<Candidate>& candidates, const Noise& noise,
                            const Target& target, int base_batch);

}  // namespace regatta::orchestrator::advise
