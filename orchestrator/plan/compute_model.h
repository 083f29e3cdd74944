// How long a device computes for a batch, from its FLOPs, its memory traffic and its kernels.
//
// A product of a × b elements is cut into tiles of 128 × 128 that are dealt to the multiprocessors
// in waves, so that few tokens leave many of them idle; products over many elements are also cut
// along these. Attention gets less of the peak than products. What is bound by memory (LayerNorm,
// dropout, residual) moves 6 vectors of a token and layer forward and 10 backward.
#pragma once

#include <cstdint>

#include "trainer/contract/model_shape.h"
#include "trainer/contract/stage_cut.h"

namespace regatta::orchestrator::plan {

struct ComputeFigures {
  double peak_flops = 0;               // per second
  double efficiency = 0.5;             // share of it that products get to which fill the device
  double memory_bytes_per_second = 0;  // reached, not promised; 0: memory takes no time
  int bytes_of_element = 2;            // of activations
  int multiprocessors = 0;             // 0: every product fills the device
  double kernel_seconds = 0;           // what a kernel costs beside its work: start, ramp, drain
};

// What products reach of their rate on this many tokens, in (0, 1]; forward, and both backward
// products of a weight together. 1 without multiprocessors.
struct Fill {
  double forward = 1, backward = 1;
};
[[nodiscard]] Fill fill_of(const trainer::contract::ModelShape& shape, double tokens,
                           int multiprocessors);

// FLOPs of the heads forward, by the task's part of training_flops().
[[nodiscard]] double head_flops(const trainer::contract::ModelShape& shape,
                                const trainer::contract::BatchSizes& batch);

struct ComputeSeconds {
  double forward = 0, backward = 0;
};
// Of one forward and backward pass over these samples: a layer, and what the model has below the
// first one and above the last. Products of one size have one rate, so layers are alike.
struct PartSeconds {
  ComputeSeconds layer, embeddings, head;
};
[[nodiscard]] PartSeconds part_seconds(const trainer::contract::ModelShape& shape,
                                       const trainer::contract::BatchSizes& batch,
                                       const ComputeFigures& figures);
// A stage of a pipeline; over all stages they add up to compute_seconds().
[[nodiscard]] ComputeSeconds stage_seconds(const PartSeconds& parts,
                                           const trainer::contract::Stage& stage);
// Of one forward and backward pass over these samples, without optimizer.
[[nodiscard]] ComputeSeconds compute_seconds(const trainer::contract::ModelShape& shape,
                                             const trainer::contract::BatchSizes& batch,
                                             const ComputeFigures& figures);
// The same in passes over at most `micro_batch` samples each; 0: in one.
[[nodiscard]] ComputeSeconds compute_seconds(const trainer::contract::ModelShape& shape,
                                             const trainer::contract::BatchSizes& batch,
                                             const ComputeFigures& figures,
                                             std::int64_t micro_batch);

}  // namespace regatta::orchestrator::plan
