#include "orchestrator/plan/plan_inputs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "orchestrator/plan/compute_model.h"
#include "orchestrator/plan/dataset_facts.h"

namespace regatta::orchestrator::plan {
namespace {

using trainer::contract::BatchSizes;
using trainer::contract::ModelShape;
using trainer::contract::RunConfig;

constexpr double kTeraFlops = 1e12;
constexpr std::int64_t kBytesOfElement = 4;
// Bytes that the optimizer moves for a parameter: AdamW reads and writes weight, two moments and
// reads the gradient; LAMB goes over them twice.
constexpr double kAdamWBytes = 28;
constexpr double kLambBytes = 42;
// Times that backward of the embeddings goes over tokens · hidden float32: LayerNorm reads two and
// writes one, the sums by piece read it three times.
constexpr double kEmbeddingPasses = 6;

enum class Part { Heads, LayerOutput, Intermediate, AttentionOutput, SelfAttention, Embeddings };

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

Part part_of(std::string_view name) {
  constexpr std::string_view kLayer = "bert.encoder.layer.";
  if (begins_with(name, "bert.embeddings.")) return Part::Embeddings;
  if (!begins_with(name, kLayer)) return Part::Heads;
  name.remove_prefix(std::min(name.size(), name.find('.', kLayer.size()) + 1));
  if (begins_with(name, "output.")) return Part::LayerOutput;
  if (begins_with(name, "intermediate.")) return Part::Intermediate;
  return begins_with(name, "attention.output.") ? Part::AttentionOutput : Part::SelfAttention;
}

// Backward's share of training_flops(): twice that of forward.
double backward_flops(const ModelShape& shape, const BatchSizes& batch, Part part) {
  const double h = shape.hidden;
  const double f = shape.feed_forward;
  const auto tokens = static_cast<double>(batch.tokens);
  switch (part) {
    case Part::Heads:
      return 2 * head_flops(shape, batch);
    case Part::LayerOutput:
    case Part::Intermediate:
      return 2 * 2 * h * f * tokens;
    case Part::AttentionOutput:
      return 2 * 2 * h * h * tokens;
    case Part::SelfAttention:
      return 2 * (6 * h * h * tokens + 4 * h * static_cast<double>(batch.squared_tokens));
    case Part::Embeddings:
      break;
  }
  return 0;
}

void check_figure(const std::string& name, double value, double least) {
  if (std::isfinite(value) && value >= least) return;
  throw base::Error(base::Code::User, "cannot plan with " + name + " of " + std::to_string(value) +
                                          "; use at least " + std::to_string(least));
}

double flop_rate(const RunConfig& config, const PlanFigures& figures) {
  const double peak =
      figures.peak_flops != 0 ? figures.peak_flops : config.peak_tflops * kTeraFlops;
  if (peak == 0) {
    throw base::Error(
        base::Code::User,
        "the speed of the devices is unknown; set statistics.peak_tflops in the run file");
  }
  check_figure("a peak", peak, 1);
  check_figure("an efficiency", figures.efficiency, 1e-6);
  return peak * figures.efficiency;
}

BatchSizes sizes_of(const RunConfig& config, const PlanFigures& figures, double samples) {
  const double tokens = figures.mean_tokens > 0 ? figures.mean_tokens : config.data.max_length;
  const double squared =
      figures.mean_squared_tokens > 0 ? figures.mean_squared_tokens : tokens * tokens;
  BatchSizes sizes;
  sizes.samples = std::llround(samples);
  sizes.tokens = std::llround(samples * tokens);
  sizes.squared_tokens = std::llround(samples * squared);
  sizes.masked = std::llround(samples * tokens * config.data.mask_fraction);
  return sizes;
}

double tail_seconds(const RunConfig& config, const PlanFigures& figures, std::int64_t parameters) {
  if (figures.memory_bytes_per_second <= 0) return 0;
  const bool is_lamb = config.optimizer.kind == trainer::contract::OptimizerKind::Lamb;
  const double norm = config.clip == trainer::contract::ClipMode::Global ? kBytesOfElement : 0;
  const double held =
      static_cast<double>(parameters) / (config.sharding.optimizer ? config.ranks : 1);
  return held * (norm + (is_lamb ? kLambBytes : kAdamWBytes)) / figures.memory_bytes_per_second;
}

void stretch(double compute_seconds, topology::plan::StepInputs* inputs) {
  const double times = compute_seconds / inputs->compute_seconds;
  inputs->forward_seconds *= times;
  inputs->compute_seconds = compute_seconds;
  for (topology::plan::StepTensor& tensor : inputs->tensors) {
    tensor.ready_seconds = std::min(tensor.ready_seconds * times, compute_seconds);
  }
}

double samples_of(const RunConfig& config) {
  return std::max(1.0, static_cast<double>(config.batch_size) / config.ranks);
}

}  // namespace

trainer::contract::BatchSizes mean_sizes(const RunConfig& config, const PlanFigures& figures) {
  return sizes_of(config, figures, samples_of(config));
}

topology::plan::StepInputs plan_inputs(const RunConfig& config, const PlanFigures& figures) {
  if (config.model.vocabulary < 1) {
    throw base::Error(base::Code::User,
                      "cannot plan without the vocabulary; set model.vocabulary or name a dataset");
  }
  trainer::contract::ModelShape shape = config.model;
  complete_shape(std::nullopt, &shape);
  check_figure("a memory bandwidth", figures.memory_bytes_per_second, 0);
  check_figure("mean tokens", figures.mean_tokens, 0);
  check_figure("mean squared tokens", figures.mean_squared_tokens, 0);
  check_figure("a slowdown", figures.slowdown.value_or(0), 0);
  check_figure("an overhead", figures.overhead_seconds, 0);
  const double rate = flop_rate(config, figures);
  const double samples = samples_of(config);
  const double most = config.micro_batch_size > 0 ? config.micro_batch_size : samples;
  // The sums overlap only the last micro-batch's backward; it has what is left.
  const double last = samples - (std::ceil(samples / most) - 1) * most;
  const BatchSizes before = sizes_of(config, figures, samples - last);
  const BatchSizes batch = sizes_of(config, figures, last);
  const trainer::contract::TensorTable table = trainer::contract::make_tensor_table(shape);

  topology::plan::StepInputs inputs;
  inputs.slowdown = figures.slowdown.value_or(0);
  inputs.tail_seconds =
      tail_seconds(config, figures, table.parameter_count) + figures.overhead_seconds;
  inputs.forward_seconds = (trainer::contract::training_flops(shape, before) +
                            trainer::contract::training_flops(shape, batch) / 3) /
                           rate;
  double now = inputs.forward_seconds;
  std::optional<Part> part;
  for (const trainer::contract::TensorEntry& tensor : table.tensors) {
    if (const Part next = part_of(tensor.name); next != part) {
      part = next;
      now += backward_flops(shape, batch, next) / rate;
      if (next == Part::Embeddings && figures.memory_bytes_per_second > 0) {
        now += kEmbeddingPasses * kBytesOfElement * static_cast<double>(batch.tokens) *
               shape.hidden / figures.memory_bytes_per_second;
      }
    }
    inputs.tensors.push_back(
        {kBytesOfElement * tensor.offset, kBytesOfElement * (tensor.offset + tensor.size), now});
  }
  inputs.compute_seconds = now;
  if (figures.compute_seconds > 0) stretch(figures.compute_seconds, &inputs);
  if (!config.buckets.overlap || config.clip == trainer::contract::ClipMode::Rank) {
    for (topology::plan::StepTensor& tensor : inputs.tensors)
      tensor.ready_seconds = inputs.compute_seconds;
  }
  return inputs;
}

}  // namespace regatta::orchestrator::plan
