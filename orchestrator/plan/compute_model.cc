#include "orchestrator/plan/compute_model.h"

#include <algorithm>
#include <cmath>

namespace regatta::orchestrator::plan {
namespace {

constexpr double kTile = 128;         // rows and columns of a product that a multiprocessor makes
constexpr double kLeastInner = 1024;  // a product is not cut into pieces with fewer terms
// Of the rate of large products: 280 of 700 TFLOP/s on an H200 for heads of 64 and at most 512
// tokens (published plots of FlashAttention 2 and 3).
constexpr double kAttentionRate = 0.4;
// Vectors of `hidden` elements that a token and a layer move, fused as far as known: LayerNorm with
// dropout and residual twice, and backward also attention's row sums.
constexpr double kForwardVectors = 6, kBackwardVectors = 10;
// Kernels of a layer: query/key/value, attention, projection, two of feed-forward, two LayerNorms;
// backward two products for each of the four, attention, LayerNorms, four sums of biases.
constexpr double kForwardKernels = 7, kBackwardKernels = 15;
// Embeddings, heads and loss, forward; as many backward. Half of them are the embeddings'.
constexpr double kOtherKernels = 20;

// The share of the time of full waves in which a product of rows × columns does what is wanted.
double share_filled(double rows, double columns, double inner, int multiprocessors) {
  const double tiles = std::ceil(rows / kTile) * std::ceil(columns / kTile);
  const double wanted = rows * columns / (kTile * kTile);
  double best = 0;
  for (double pieces = 1; pieces == 1 || inner / pieces >= kLeastInner; pieces *= 2) {
    const double waves = std::ceil(tiles * pieces / multiprocessors);
    best = std::max(best, wanted * pieces / (waves * multiprocessors));
    if (pieces >= multiprocessors) break;
  }
  return best;
}

}  // namespace

Fill fill_of(const trainer::contract::ModelShape& shape, double tokens, int multiprocessors) {
  if (multiprocessors < 1 || !(tokens > 0)) return {};
  const double h = shape.hidden, f = shape.feed_forward;
  const double sizes[4][2] = {{h, 3 * h}, {h, h}, {h, f}, {f, h}};  // inputs, outputs
  double work = 0, forward = 0, backward = 0;  // in units of time at the full rate
  for (const auto& [inputs, outputs] : sizes) {
    const double product = inputs * outputs;
    work += product;
    forward += product / share_filled(tokens, outputs, inputs, multiprocessors);
    backward += product / share_filled(tokens, inputs, outputs, multiprocessors) +
                product / share_filled(inputs, outputs, tokens, multiprocessors);
  }
  return {work / forward, 2 * work / backward};
}

double head_flops(const trainer::contract::ModelShape& shape,
                  const trainer::contract::BatchSizes& batch) {
  trainer::contract::ModelShape alone = shape;
  alone.layers = 0;
  return trainer::contract::training_flops(alone, batch) / 3;  // backward is twice that
}

PartSeconds part_seconds(const trainer::contract::ModelShape& shape,
                         const trainer::contract::BatchSizes& batch,
                         const ComputeFigures& figures) {
  const double h = shape.hidden, f = shape.feed_forward;
  const auto tokens = static_cast<double>(batch.tokens);
  const double linear = 2 * (4 * h * h + 2 * h * f) * tokens;
  const double attention = 4 * h * static_cast<double>(batch.squared_tokens) / kAttentionRate;
  const double head = head_flops(shape, batch);
  const Fill fill = fill_of(shape, tokens, figures.multiprocessors);
  const double rate = figures.peak_flops * figures.efficiency;
  PartSeconds parts;
  parts.layer = {(linear / fill.forward + attention) / rate,
                 2 * (linear / fill.backward + attention) / rate};
  parts.head = {head / rate, 2 * head / rate};
  if (figures.memory_bytes_per_second > 0) {
    const double vector = tokens * h * figures.bytes_of_element / figures.memory_bytes_per_second;
    parts.layer.forward += kForwardVectors * vector;
    parts.layer.backward += kBackwardVectors * vector;
  }
  parts.layer.forward += figures.kernel_seconds * kForwardKernels;
  parts.layer.backward += figures.kernel_seconds * kBackwardKernels;
  for (ComputeSeconds* const end : {&parts.embeddings, &parts.head}) {
    end->forward += figures.kernel_seconds * kOtherKernels / 2;
    end->backward += figures.kernel_seconds * kOtherKernels / 2;
  }
  return parts;
}

ComputeSeconds stage_seconds(const PartSeconds& parts, const trainer::contract::Stage& stage) {
  ComputeSeconds seconds{stage.layers() * parts.layer.forward,
                         stage.layers() * parts.layer.backward};
  const auto add = [&](const ComputeSeconds& part) {
    seconds.forward += part.forward;
    seconds.backward += part.backward;
  };
  if (stage.has_embeddings()) add(parts.embeddings);
  if (stage.has_head()) add(parts.head);
  return seconds;
}

ComputeSeconds compute_seconds(const trainer::contract::ModelShape& shape,
                               const trainer::contract::BatchSizes& batch,
                               const ComputeFigures& figures) {
  return stage_seconds(part_seconds(shape, batch, figures), trainer::contract::whole_model(shape));
}

ComputeSeconds compute_seconds(const trainer::contract::ModelShape& shape,
                               const trainer::contract::BatchSizes& batch,
                               const ComputeFigures& figures, std::int64_t micro_batch) {
  const std::int64_t parts =
      micro_batch > 0 ? std::max<std::int64_t>(1, (batch.samples + micro_batch - 1) / micro_batch)
                      : 1;
  trainer::contract::BatchSizes part = batch;
  part.samples = batch.samples / parts;
  part.tokens = batch.tokens / parts;
  part.squared_tokens = batch.squared_tokens / parts;
  part.masked = batch.masked / parts;
  ComputeSeconds seconds = compute_seconds(shape, part, figures);
  seconds.forward *= static_cast<double>(parts);
  seconds.backward *= static_cast<double>(parts);
  return seconds;
}

}  // namespace regatta::orchestrator::plan
