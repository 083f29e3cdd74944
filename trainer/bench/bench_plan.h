// Whether a planned cut keeps what its timeline promises: on these ranks a step is measured,
// planned and run, beside the cuts of others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/plan/step_timeline.h"
#include "trainer/bench/bench_ranks.h"
#include "trainer/contract/length_table.h"

namespace regatta::trainer::bench {

struct PlanCase {
  std::string model;  // of bench_shape()
  std::string link;   // of plan_links(), unless `given`
  std::optional<ranks::LinkModel> given{};
  int samples = 16;  // per step, over all ranks; every step trains on the same
  int rounds = 15;
};
// Artificial links, slow enough for the cut to matter, made for what backward takes here:
// "none": the real one; "balanced": all gradients take as long as backward, so that one bucket is
// wrong, and 25 MB are too much; "latency": each collective waits for 15 % of backward, so that
// many buckets are wrong; "slow": the gradients take twice as long as backward.
[[nodiscard]] std::vector<std::string> plan_links();

// The planner's inputs of a step that was measured with a bucket for each group in which gradients
// are announced (buckets_as_announced). Ready times never fall, and none is after backward.
[[nodiscard]] topology::plan::StepInputs measured_inputs(const contract::TensorTable& table,
                                                         const StepMarks& marks);

struct PlanBench {
  std::string json, text;  // on every rank alike
};
// First `rounds` steps over the real link, whose medians are the planner's inputs, and the curve of
// all-reduce over the case's link. From these the plan. Then rounds of one step of each cut, every
// other round backwards, so that what drifts cancels: the inputs once more, 25 MB buckets, the
// planned, one bucket, a bucket a layer, and 25 MB again. All runs stand side by side, each with
// its weights and moments: 80 bytes a parameter and rank.
// * Prediction: a cut's timeline from the inputs of the same round; told as the median over rounds
//   of measured / predicted.
// * Gain: planned / 25 MB, the mean of the round's two; the median over rounds.
// * Noise of either: half of the 95 % interval of that median, by how far rounds lie from it.
// Collective. Throws Code::User for one rank, for a GPU, whose host knows of no ready times, and
// for a link that is none.
[[nodiscard]] PlanBench bench_plan(RankBench& bench, const contract::LengthTable& lengths,
                                   const std::vector<PlanCase>& cases);

// Of the median of `values`: 2 · √(π/2) · deviation / √n, the deviation by that of the median.
[[nodiscard]] double noise_of_median(const std::vector<double>& values);

}  // namespace regatta::trainer::bench
