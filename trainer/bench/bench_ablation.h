// What each idea is worth: whole steps with everything on, with each idea off in turn, and from
// nothing with each added in turn.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/bench/bench_ranks.h"
#include "trainer/contract/length_table.h"

namespace regatta::trainer::bench {

struct BenchAblationOptions {
  contract::ModelShape shape;  // vocabulary set
  std::string model_name, lengths_name;
  int samples = 16;  // per step, over all ranks
  int steps = 4;     // measured of each way, in each of `rounds`
  int rounds = 5;
  double link_gigabits = 0;      // per second, of an artificial link; 0: none
  double link_microseconds = 0;  // its latency
};

// Everything is: no padding, fused kernels, samples dealt longest first, reductions and the gather
// of new weights overlapped, clipping by bucket, sharded optimizer state, CUDA graphs. In turn:
// * unpadding: off, every sample is filled up to the longest of the run; useful tokens are still
//   those that were there before (random_samples.h says what that costs and what it changes);
// * fused kernels: off, unfused_device.h; on one GPU attention is the formula, too;
// * balance: off, samples go to ranks in turn;
// * overlap: off, nothing is communicated while anything is computed;
// * bucket clipping: off, by the norm of the whole gradient, after the reduction. All four modes
//   stand side by side, with the phases of a step;
// * sharding: off, every rank updates all weights;
// * graphs: CUDA graphs.
// Returns JSON, the same on all ranks: a row each, medians of rounds in which all ways take turns,
// the ratio made within each round; rows that mean the same way share its figures; a row that
// cannot be measured here says why (`skipped`). Collective. Throws Code::User for a link on a GPU,
// and for fewer samples than ranks.
[[nodiscard]] std::string bench_ablation(RankBench& bench, const contract::LengthTable& lengths,
                                         const BenchAblationOptions& options);

// The same for people.
[[nodiscard]] std::string bench_ablation_table(const std::string& json);

}  // namespace regatta::trainer::bench
