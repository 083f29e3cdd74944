// Which numbers of a step that diverged stopped being finite first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/model/bert.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/step/optimizer.h"

namespace regatta::trainer::step {

struct NotFinite {
  std::string tensor;    // of the tensor table; empty: nothing was found
  std::string quantity;  // of it: weight, input, output or gradient
  int rank = 0;          // the lowest that has it
};
// "output of bert.embeddings.LayerNorm.weight, in the embeddings", with the rank where ranks
// differ. Empty: nothing.
[[nodiscard]] std::string to_text(const NotFinite& found, int ranks);

// A buffer of the forward pass as what it is to a weight. Rows of `columns` elements, of which the
// batch has so many as its tokens, masked positions or samples are; the rest is padding.
struct ForwardBuffer {
  enum class Rows { Tokens, Masked, Samples, All };  // All: padding is zero
  const char* quantity = "output";   // or "input", which no other weight's product is
  std::vector<std::string> tensors;  // side by side in a row, equally wide
  model::Buffer buffer;
  Rows rows = Rows::Tokens;
  std::int64_t columns = 0;
};
// In the order in which forward fills them; all are there until backward begins.
[[nodiscard]] std::vector<ForwardBuffer> forward_buffers(const contract::ModelShape& shape,
                                                         const model::ActivationLayout& layout);

// The step as this rank has taken it.
struct StepTaken {
  std::int64_t step = 0;
  const std::vector<samples::PackedBatch>& batches;
  model::LossScale scale;
  const std::vector<StatePiece>& pieces;  // where this rank has summed gradients
  bool looks_forward = true;  // false: not at what forward makes (a stage alone makes nothing)
};

// Looks through the weights in the order in which forward uses them; if all are finite, through
// what forward makes of every batch, by running it again; if that is finite, through the summed
// gradients in the order in which backward finishes them, where one whose squared norm overflows
// float32 counts, too, because the whole one does then. The first on any rank, and the same on all.
// Collective; the model's weights are whole and nobody works on it.
[[nodiscard]] NotFinite first_not_finite(device::Device& device, ranks::HostCollectives& host,
                                         model::Bert& model, const StepTaken& taken);

}  // namespace regatta::trainer::step
