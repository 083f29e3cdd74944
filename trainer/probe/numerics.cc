#include "trainer/probe/numerics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "trainer/probe/activation_reader.h"
#include "trainer/probe/reference_model.h"
#include "trainer/probe/usual_error.h"

namespace regatta::trainer::probe {
namespace {

using model::kCompute;

constexpr std::string_view kLayerMark = ".encoder.layer.";

// −1: the embeddings; `layers`: the head.
int layer_of(const std::string& name, int layers) {
  const std::size_t mark = name.find(kLayerMark);
  if (mark != std::string::npos) return std::stoi(name.substr(mark + kLayerMark.size()));
  const bool logits = name.rfind("gradient of", 0) == 0;  // of the decoder, the word embedding's
  return name.find("bert.embeddings.") != std::string::npos && !logits ? -1 : layers;
}

// What the model has of some samples.
struct Computed {
  std::vector<ActivationTensor> tensors;
  std::vector<std::vector<float>> activations;
  std::vector<float> gradients;  // of the arena, without the factor of float16
  double loss = 0;
};

model::LossScale scale_of(const std::vector<ReplayedSample>& samples, double factor) {
  std::int64_t masked = 0;
  for (const ReplayedSample& each : samples) masked += std::ssize(each.sample.masked_labels);
  return {std::max<std::int64_t>(1, masked), std::ssize(samples), factor};
}

samples::StepBatches one_batch(const std::vector<ReplayedSample>& all) {
  std::vector<samples::Sample> samples;
  std::vector<std::int32_t> ordinals;
  for (const ReplayedSample& each : all) {
    samples.push_back(each.sample);
    ordinals.push_back(each.ordinal);
  }
  samples::StepBatches batches;
  batches.batches.push_back(samples::collate(samples, ordinals));
  return batches;
}

Computed compute(device::Device& device, const step::StepSeen& seen,
                 const std::vector<ReplayedSample>& samples) {
  const model::LossScale scale = scale_of(samples, seen.scale.factor);
  const samples::StepBatches batches = one_batch(samples);
  Computed found;
  seen.model.zero_gradients();
  seen.model.reset_statistics();
  found.tensors = read_activations(device, {seen.step, seen.place, batches, scale, seen.model},
                                   [&](std::size_t, std::span<const float> rows) {
                                     found.activations.emplace_back(rows.begin(), rows.end());
                                   });
  seen.model.backward();
  float sums[6];
  seen.model.read_statistics(sums);
  device.wait_host(device.record(kCompute));
  const model::Statistics statistics = model::Bert::statistics_of(sums);
  found.loss = statistics.sample_loss / static_cast<double>(scale.samples);
  if (seen.model.shape().task == contract::Task::Pretraining) {
    found.loss += statistics.mlm_loss / static_cast<double>(scale.masked);
  }
  found.gradients = read_floats(device, seen.model.gradients());
  for (float& value : found.gradients) value /= static_cast<float>(scale.factor);
  return found;
}

// As products read them: rounded to the compute type, but for the parameters of LayerNorm.
std::map<std::string, std::vector<double>> weights_of(device::Device& device,
                                                      const model::Bert& model) {
  const std::vector<float> whole = read_floats(device, model.parameters());
  const bool copied = model.compute_copy().size > 0;
  const std::vector<float> rounded = copied ? read_floats(device, model.compute_copy()) : whole;
  std::map<std::string, std::vector<double>> weights;
  for (const contract::TensorEntry& entry : model.table().tensors) {
    const bool is_norm = entry.name.find("LayerNorm") != std::string::npos;
    const auto begin = (is_norm ? whole : rounded).begin() + entry.offset;
    weights[entry.name].assign(begin, begin + entry.size);
  }
  return weights;
}

ReferenceModel reference_of(device::Device& device, const contract::RunConfig& config,
                            const step::StepSeen& seen,
                            const std::vector<ReplayedSample>& samples) {
  const model::LossScale scale = scale_of(samples, 1);
  ReferenceOptions options;
  options.shape = config.model;
  options.dropout = config.dropout;
  options.attention_dropout = config.attention_dropout;
  options.seed = config.seed;
  options.step = seen.step;
  options.masked = static_cast<double>(scale.masked);
  options.samples = static_cast<double>(scale.samples);
  options.label_smoothing =
      static_cast<double>(static_cast<float>(config.fine_tuning.label_smoothing));
  ReferenceModel reference(options, weights_of(device, seen.model));
  for (const ReplayedSample& each : samples) reference.train(each);
  return reference;
}

// Relative to `beside`, as a norm.
template <typename Values>
double error_of(const Values& found, const std::vector<double>& reference, double beside) {
  double squares = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double apart = static_cast<double>(found[i]) - reference[i];
    squares += apart * apart;
  }
  if (squares == 0) return 0;
  return beside > 0 ? std::sqrt(squares) / beside : std::numeric_limits<double>::infinity();
}

double norm_of(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

bool is_frozen(const contract::RunConfig& config, int layer) {
  return layer < config.fine_tuning.frozen_layers &&
         (layer >= 0 || config.fine_tuning.frozen_layers > 0);
}

void compare(const Computed& computed, const ReferenceModel& reference,
             const contract::TensorTable& table, const contract::RunConfig& config,
             NumericsReport* report) {
  const UsualError usual(config.model, config.dtype, report->tokens, report->samples);
  for (std::size_t i = 0; i < computed.tensors.size(); ++i) {
    const std::string& name = computed.tensors[i].name;
    const auto found = reference.activations().find(name);
    if (found == reference.activations().end()) continue;  // no sample has a masked position
    base::check(found->second.size() == computed.activations[i].size(), "the same rows");
    const int layer = layer_of(name, config.model.layers);
    report->activations.push_back(
        {name, layer, error_of(computed.activations[i], found->second, norm_of(found->second)),
         usual.forward(layer)});
  }
  for (const contract::TensorEntry& entry : table.tensors) {
    const int layer = layer_of(entry.name, config.model.layers);
    if (is_frozen(config, layer)) continue;
    const std::vector<double>& expected = reference.gradient(entry.name);
    const double beside = std::max(norm_of(expected), reference.gradient_spread(entry.name));
    report->gradients.push_back(
        {entry.name, layer, error_of(computed.gradients.data() + entry.offset, expected, beside),
         usual.backward(layer)});
  }
  report->loss = computed.loss;
  report->reference_loss = reference.loss();
  report->loss_error =
      std::abs(computed.loss - reference.loss()) / std::max(std::abs(reference.loss()), 1e-300);
  report->loss_usual = usual.forward(config.model.layers);
}

std::vector<ReplayedSample> first_samples(std::vector<ReplayedSample> all, std::int64_t most) {
  std::int64_t tokens = 0;
  std::size_t count = 0;
  while (count < all.size()) {
    tokens += std::ssize(all[count].sample.ids);
    if (count > 0 && tokens > most) break;
    ++count;
  }
  all.resize(count);
  return all;
}

}  // namespace

bool is_far_off(double error, double usual) { return !(error <= kFarOff * usual); }

std::vector<TensorError> far_off(const NumericsReport& report) {
  std::vector<TensorError> found;
  if (is_far_off(report.loss_error, report.loss_usual)) {
    found.push_back(
        {"loss", static_cast<int>(report.layers), report.loss_error, report.loss_usual});
  }
  for (const TensorError& each : report.activations) {
    if (is_far_off(each.error, each.usual)) found.push_back(each);
  }
  for (const TensorError& each : report.gradients) {
    if (!is_far_off(each.error, each.usual)) continue;
    found.push_back(each);
    found.back().name = "gradient of " + each.name;
  }
  return found;
}

NumericsReport compare_step(device::Device& device, const base::Clock& clock,
                            const contract::RunConfig& config, const step::StepSeen& seen,
                            std::vector<ReplayedSample> samples, std::int64_t tokens) {
  NumericsReport report;
  report.step = seen.step;
  report.dtype = contract::name_of(config.dtype);
  report.device = device.description();
  report.layers = config.model.layers;
  report.of_samples = std::ssize(samples);
  samples = first_samples(std::move(samples), tokens);
  report.samples = std::ssize(samples);
  for (const ReplayedSample& each : samples) report.tokens += std::ssize(each.sample.ids);
  const Computed computed = compute(device, seen, samples);
  const double start = clock.monotonic_seconds();
  const ReferenceModel reference = reference_of(device, config, seen, samples);
  report.reference_seconds = clock.monotonic_seconds() - start;
  compare(computed, reference, seen.model.table(), config, &report);
  return report;
}

NumericsReport compare_with_reference(base::FileSystem& files, const base::Clock& clock,
                                      const NumericsOptions& options) {
  Replay replay(files, clock, options.replay);
  NumericsReport report;
  step::StepObserver observer;
  observer.before_forward = [&](const step::StepSeen& seen) {
    report = compare_step(replay.device(), clock, replay.config_here(), seen,
                          replay.samples_of(seen), options.tokens);
  };
  try {
    (void)replay.run(observer);
  } catch (const step::Diverged& error) {
    if (error.step != options.replay.step) throw;  // else this is what somebody wants to see
  }
  return report;
}

std::optional<std::int64_t> next_step(base::FileSystem& files, const base::Path& run) {
  const contract::RunDirectory directory = contract::RunDirectory::open(files, run);
  const contract::RunConfig config =
      contract::parse_run_config(directory.run_json(), (run / "run.json").string());
  const checkpoint::CheckpointStore store(files, directory.checkpoints_path());
  std::int64_t next = 1;
  for (const checkpoint::Entry& entry : store.list()) {
    if (entry.status != checkpoint::Status::Valid) continue;
    next = entry.step + 1;
    break;
  }
  return next <= config.steps ? std::optional(next) : std::nullopt;
}

}  // namespace regatta::trainer::probe
