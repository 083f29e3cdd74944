// What a sample costs a run, part by part, from the journal of an attempt. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/contract/journal.h"

namespace regatta::orchestrator::compare {

// In the order in which they are shown.
enum class Part {
  Compute,        // forward and backward, of the mean rank
  Optimizer,      // norm, clipping and update
  Imbalance,      // the rank with most to compute, beyond the mean rank
  Bubble,         // pipeline stages that wait for each other
  Communication,  // sums and gathers that nothing hides, and waiting for other ranks
  Input,          // waiting for samples
  Statistics,     // looking at the gradient's noise
  Evaluation,
  Checkpoints,  // training stood still
  Other         // what is left of the wall time
};
inline constexpr std::size_t kParts = 10;
inline constexpr std::array<std::string_view, kParts> kPartNames = {
    "compute", "optimizer",  "imbalance",  "bubble",      "communication",
    "input",   "statistics", "evaluation", "checkpoints", "other"};

struct SpeedAccount {
  std::int64_t first_step = 0, last_step = 0;  // what it is of; repeated ones count again
  std::int64_t steps = 0, samples = 0, tokens = 0;
  double flops = 0;                    // of the model, by training_flops
  double seconds = 0;                  // wall time
  std::array<double, kParts> parts{};  // of it; none is negative, and their sum is `seconds`
  double error = 0;                    // standard error of the seconds of a sample
  std::int64_t stalled = 0;            // steps that waited for their samples
  double making_seconds = 0;           // of threads of rank 0, for its part of the samples
  int ranks = 1;                       // that share them
  std::int64_t evaluations = 0, checkpoints = 0;
  // Of these checkpoints, what was written, and for how long on the slowest rank, syncing included.
  double checkpoint_bytes = 0, checkpoint_writing_seconds = 0;
  // Of the steps that tell of their buckets: in which some bucket's sum was under way on rank 0.
  double sum_seconds = 0;
  std::int64_t summed_steps = 0;

  [[nodiscard]] double of(Part part) const { return parts[static_cast<std::size_t>(part)]; }
  [[nodiscard]] double per_sample(double of_seconds) const {
    return of_seconds / static_cast<double>(samples);
  }
};

struct AttemptLayout {
  int ranks = 1;
  // Else the host only enqueues what the device does: forward, backward, sums and optimizer are not
  // told apart and all count as compute.
  bool on_host = true;
};

// At least so many steps beyond those that are passed over.
inline constexpr std::int64_t kLeastSteps = 10;

// Of the records of one attempt, or of the end of its journal. While buffers and caches grow, and
// cuts of the gradient are tried, steps are not what they are later: the first fifth, three at
// least and twenty at most, and all until a `trial` record, are passed over. Code::User where fewer
// than kLeastSteps are left.
[[nodiscard]] SpeedAccount account_of(const std::vector<trainer::contract::JournalRecord>& records,
                                      const AttemptLayout& layout);

// Why B needs more or less for a sample than A: seconds of a sample, B's less A's.
struct SpeedDifference {
  double a = 0, b = 0;  // seconds of a sample
  std::array<double, kParts> parts{};
  // Of Part::Compute, of which they are the sum: B's samples are more work (FLOPs), and B does the
  // same work slower. All of it is `slower` where FLOPs are not known.
  double more_work = 0, slower = 0;
  // What the means may differ by for no reason: three standard errors, two percent at least.
  double noise = 0;

  [[nodiscard]] double whole() const { return b - a; }
  [[nodiscard]] bool is_noise() const;
};
[[nodiscard]] SpeedDifference difference_of(const SpeedAccount& a, const SpeedAccount& b);

}  // namespace regatta::orchestrator::compare
