// Where every buffer of a forward and backward pass lies in one block of device memory: a pure
// function of sizes, so that a run's need can be told before it starts.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/contract/stage_cut.h"
#include "trainer/device/device.h"
#include "trainer/model/batch_room.h"

namespace regatta::trainer::model {

struct Buffer {
  std::int64_t offset = 0;  // bytes from the block's start, a multiple of 256
  std::int64_t size = 0;    // elements
  device::Dtype dtype = device::Dtype::Float32;
};

// T tokens, B samples, M masked rows of the room; h hidden, f feed-forward, V vocabulary_rows.
struct NormBuffers {
  Buffer z, mean, rstd, y;  // [rows, h], [rows], [rows], [rows, h]
};
struct LayerBuffers {
  Buffer qkv, lse, attention, inner, activated;  // [T, 3h], [H, T], [T, h], [T, f], [T, f]
  NormBuffers attention_norm, output_norm;
};
struct ActivationLayout {
  NormBuffers embedding;             // of a later stage only y: what the stage below gives
  std::vector<LayerBuffers> layers;  // of the whole model; empty those of other stages
  // Float32 [T, h] each, of a stage that computes in another type, and where there is a neighbour:
  // what travels from and to the stage below, up, and back from there.
  Buffer below, up, back;
  // Reused by every layer: branch [T, h], and gradients [T, h] twice, [T, 3h], [T, f].
  Buffer branch, gradient_a, gradient_b, gradient_qkv, gradient_inner;
  // MLM head: [M, h] but for logits [M, V].
  Buffer masked_hidden, masked_inner, masked_activated, masked_gradient, logits;
  NormBuffers masked_norm;
  // Head over [CLS]: [B, h]; all heads but MLM's: logits of samples [B, outputs], or of
  // QuestionAnswering's tokens [T, 2], and float32 copies of an evaluation's.
  Buffer first_hidden, pooled, first_gradient, sample_logits, kept_logits;
  std::int64_t bytes = 0;
};

// Memory is made for a little more than asked, so that it seldom has to be made again.
[[nodiscard]] BatchRoom with_headroom(BatchRoom room);

// Of one stage, with what it computes only. Activations are of the compute type; statistics of
// LayerNorm and attention are float32.
[[nodiscard]] ActivationLayout activation_layout(const contract::ModelShape& shape,
                                                 const BatchRoom& room, device::Dtype compute,
                                                 const contract::Stage& stage);
// Of all of the model.
[[nodiscard]] ActivationLayout activation_layout(const contract::ModelShape& shape,
                                                 const BatchRoom& room, device::Dtype compute);

}  // namespace regatta::trainer::model
