#include "trainer/model/activation_layout.h"

namespace regatta::trainer::model {
namespace {

class Placer {
 public:
  Placer(std::int64_t hidden, device::Dtype compute) : hidden_(hidden), compute_(compute) {}

  Buffer activations(std::int64_t count) { return place(count, compute_); }
  Buffer floats(std::int64_t count) { return place(count, device::Dtype::Float32); }
  NormBuffers norm(std::int64_t rows) {
    NormBuffers buffers;
    buffers.z = activations(rows * hidden_);
    buffers.mean = floats(rows);
    buffers.rstd = floats(rows);
    buffers.y = activations(rows * hidden_);
    return buffers;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  Buffer place(std::int64_t count, device::Dtype dtype) {
    const Buffer buffer{bytes_, count, dtype};
    bytes_ = (bytes_ + count * device::size_of(dtype) + kAlignmentBytes - 1) / kAlignmentBytes *
             kAlignmentBytes;
    return buffer;
  }

  std::int64_t hidden_;
  device::Dtype compute_;
  std::int64_t bytes_ = 0;
};

void place_head(const contract::ModelShape& shape, const BatchRoom& room, Placer* place,
                ActivationLayout* layout) {
  const std::int64_t hidden = shape.hidden;
  if (shape.task == contract::Task::Pretraining) {
    layout->masked_hidden = place->activations(room.masked * hidden);
    layout->masked_inner = place->activations(room.masked * hidden);
    layout->masked_activated = place->activations(room.masked * hidden);
    layout->masked_gradient = place->activations(room.masked * hidden);
    layout->logits = place->activations(room.masked * contract::vocabulary_rows(shape));
    layout->masked_norm = place->norm(room.masked);
  }
  const bool of_tokens = shape.task == contract::Task::QuestionAnswering;
  if (!of_tokens) {
    layout->first_hidden = place->activations(room.samples * hidden);
    layout->pooled = place->activations(room.samples * hidden);
    layout->first_gradient = place->activations(room.samples * hidden);
  }
  const std::int64_t logits =
      (of_tokens ? room.tokens : room.samples) * contract::outputs_of(shape);
  layout->sample_logits = place->activations(logits);
  if (shape.task != contract::Task::Pretraining) layout->kept_logits = place->floats(logits);
}

}  // namespace

BatchRoom with_headroom(BatchRoom room) {
  room.tokens = (room.tokens + 255) / 256 * 256;
  room.masked = (room.masked + 63) / 64 * 64;
  return room;
}

ActivationLayout activation_layout(const contract::ModelShape& shape, const BatchRoom& room,
                                   device::Dtype compute, const contract::Stage& stage) {
  const std::int64_t tokens = room.tokens;
  const std::int64_t hidden = shape.hidden;
  Placer place(hidden, compute);
  ActivationLayout layout;
  if (stage.has_embeddings()) {
    layout.embedding = place.norm(tokens);
  } else {
    layout.embedding.y = place.activations(tokens * hidden);
  }
  layout.layers.resize(static_cast<std::size_t>(shape.layers));
  for (int i = stage.first_layer; i < stage.end_layer; ++i) {
    LayerBuffers& layer = layout.layers[static_cast<std::size_t>(i)];
    layer.qkv = place.activations(tokens * 3 * hidden);
    layer.lse = place.floats(tokens * shape.heads);
    layer.attention = place.activations(tokens * hidden);
    layer.inner = place.activations(tokens * shape.feed_forward);
    layer.activated = place.activations(tokens * shape.feed_forward);
    layer.attention_norm = place.norm(tokens);
    layer.output_norm = place.norm(tokens);
  }
  layout.branch = place.activations(tokens * hidden);
  layout.gradient_a = place.activations(tokens * hidden);
  layout.gradient_b = place.activations(tokens * hidden);
  layout.gradient_qkv = place.activations(tokens * 3 * hidden);
  layout.gradient_inner = place.activations(tokens * shape.feed_forward);
  if (stage.has_head()) place_head(shape, room, &place, &layout);
  if (compute != device::Dtype::Float32) {
    if (!stage.has_embeddings()) layout.below = place.floats(tokens * hidden);
    if (!stage.has_head()) {
      layout.up = place.floats(tokens * hidden);
      layout.back = place.floats(tokens * hidden);
    }
  }
  layout.bytes = place.bytes();
  return layout;
}

ActivationLayout activation_layout(const contract::ModelShape& shape, const BatchRoom& room,
                                   device::Dtype compute) {
  return activation_layout(shape, room, compute, contract::whole_model(shape));
}

}  // namespace regatta::trainer::model
