// The one exchange of host values in a step: each rank says what it did and what it asks for, and
// all ranks get the same answer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/contract/journal.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/step/step_pace.h"

namespace regatta::trainer::step {

// What changes control flow. Each rank says what it asks for, and all act on what any asked for,
// after the same step: a rank that left alone would leave the others waiting in a collective.
struct StepFlags {
  bool stop = false, checkpoint = false, fenced = false;
  bool out_of_time = false;
  bool writing = false, write_failed = false;  // of the checkpoint under way
};

// What one rank did in a step, and asks for.
struct LocalStep {
  double mlm_loss = 0, sample_loss = 0;  // sums over its masked positions, and over its samples
  double flops = 0;
  double seconds = 0;
  double compute_seconds = 0;  // of these: forward and backward
  std::int64_t samples = 0, tokens = 0, masked = 0;
  std::int64_t moved_bytes = 0;  // of samples, sent to other ranks
  bool input_stalled = false;    // it waited for its samples
  // Of a pipeline stage: micro-batches, seconds that it waited for neighbours (not a number where
  // the host does not wait), and the bubble that the replica's FLOPs predict.
  std::int64_t micro_batches = 0;
  double waited_seconds = 0, predicted_bubble = 0;
  StepFlags flags;
};

// What all ranks did; the same bits on every rank.
struct StepExchange {
  StepFlags flags;  // raised where any rank raised them
  StepPace pace;
  double mlm_loss = 0, sample_loss = 0, flops = 0;  // added in rank order
  std::int64_t samples = 0, tokens = 0, masked = 0, moved_bytes = 0;
  double imbalance = 0;        // tokens of the rank with most, over the mean of all ranks
  contract::RanksRecord each;  // without its step
  // As StepRecord; nothing without stages.
  std::optional<double> bubble, bubble_predicted, bubble_even;
};

// Of all ranks, in rank order; at least one. With `stages` each sample is counted by one rank of
// each stage, in the order of contract::RankGrid.
[[nodiscard]] StepExchange combine(const std::vector<LocalStep>& ranks, int stages = 1);

// Collective: gathers every rank's, and combines them.
[[nodiscard]] StepExchange exchange(ranks::HostCollectives& host, const LocalStep& mine,
                                    int stages = 1);

}  // namespace regatta::trainer::step
