// How the gradient arena is cut into buckets: the pieces whose reduction begins while backward goes
// on. Where a plan says so, its boundaries count instead.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/plan/plan.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/stage_cut.h"

namespace regatta::trainer::step {

// As many neighbouring tensors as fit `bytes` of float32 (25 MB means 25·2²⁰), at least one; a
// tensor larger than that is a bucket of its own. bytes 0: one bucket.
[[nodiscard]] std::vector<topology::plan::Bucket> buckets_of_bytes(
    const contract::TensorTable& table, std::int64_t bytes);

// What a run without a plan has, by its run file and, where that leaves it open, by its device.
[[nodiscard]] std::vector<topology::plan::Bucket> default_buckets(
    const contract::RunConfig& config, const contract::TensorTable& table, bool is_cuda);

// The heads, each layer, the embeddings.
[[nodiscard]] std::vector<topology::plan::Bucket> buckets_per_layer(
    const contract::TensorTable& table);

// The groups in which backward announces gradients (Bert::Ready): the heads, four for each layer,
// the embeddings. No bucket can begin between two of them.
[[nodiscard]] std::vector<topology::plan::Bucket> buckets_as_announced(
    const contract::TensorTable& table);

// What of these buckets a stage sums: cut to its tensors, in their order, and the word embedding as
// the decoder's weight by itself at the end.
[[nodiscard]] std::vector<topology::plan::Bucket> stage_buckets(
    const std::vector<topology::plan::Bucket>& buckets, const contract::StageTensors& stage);

}  // namespace regatta::trainer::step
