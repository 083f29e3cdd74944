// How a model does on an evaluation set: each sample is scored once, by one of the ranks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/contract/journal.h"
#include "trainer/device/device.h"
#include "trainer/model/bert.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/samples/batch.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer::step {

// Evaluation packs this many tokens at a time, and at most one sample more: bounded memory,
// whatever the set.
constexpr std::int64_t kEvaluationTokens = 8192;

// Bert's statistics (as they lie in its six floats), added up.
using EvaluationSums = std::array<double, 6>;

// How a pack goes through a model that is in stages (Pipeline::evaluate), and whether this rank's
// stage is the one that has the results.
struct StagedForward {
  std::function<void(const samples::PackedBatch&)> run;  // empty: this model alone
  bool has_results = true;
};

// Of samples r, r + R, … as rank r of R ranks scores them: the bits depend on R, and on nothing
// else, so one process can score every rank's share in turn.
[[nodiscard]] EvaluationSums evaluate_share(device::Device& device, model::Bert& model,
                                            const std::vector<samples::Sample>& samples, int rank,
                                            int ranks, const StagedForward& forward = {});

// Of all ranks' sums, added in rank order. `step` only labels it; its time is the caller's.
[[nodiscard]] contract::EvalRecord evaluation_of(const EvaluationSums& sums, std::int64_t step);

// The logits of samples r, r + R, …, in their order, as rank r of R ranks computes them
// (tasks::JudgedSet::Logits).
[[nodiscard]] tasks::JudgedSet::Logits logits_share(device::Device& device, model::Bert& model,
                                                    const std::vector<samples::Sample>& samples,
                                                    int rank, int ranks,
                                                    const StagedForward& forward = {});
// Which ranks have shares of a set: the first `first` have none, as those of stages without the
// head, the others `shares` each, one behind the other.
struct SharedBy {
  int first = 0, shares = 1;
};
// Of all ranks' shares, each in its place. Collective; on ranks other than 0 nothing.
[[nodiscard]] tasks::JudgedSet::Logits gather_logits(ranks::HostCollectives& host,
                                                     const tasks::JudgedSet::Logits& share,
                                                     std::size_t samples, const SharedBy& by = {});
// The record of a whole set's logits.
[[nodiscard]] contract::EvalRecord judged(const tasks::JudgedSet& set,
                                          const tasks::JudgedSet::Logits& logits,
                                          std::int64_t step);
// Collective: rank 0 judges all ranks' shares, and every rank gets its record. Throws AgreedError
// where the set cannot be judged.
[[nodiscard]] contract::EvalRecord judge(ranks::HostCollectives& host, const tasks::JudgedSet& set,
                                         const tasks::JudgedSet::Logits& share, std::int64_t step,
                                         const SharedBy& by = {});

}  // namespace regatta::trainer::step
