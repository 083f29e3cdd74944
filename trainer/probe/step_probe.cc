#include "trainer/probe/step_probe.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/digest.h"
#include "base/json.h"
#include "trainer/probe/activation_reader.h"
#include "trainer/probe/probed_samples.h"
#include "trainer/probe/tensor_summary.h"

namespace regatta::trainer::probe {
namespace {

using Json = nlohmann::ordered_json;

Json told(const std::string& name, const TensorSummary& summary) {
  Json json{{"name", name}, {"norm", summary.norm()}, {"xxh3_128", summary.digest()}};
  json["sketch"] = summary.sketch();
  return json;
}

// Of an arena in the order of the table.
Json told_arena(const contract::TensorTable& table, std::span<const float> arena) {
  Json tensors = Json::array();
  for (const contract::TensorEntry& entry : table.tensors) {
    TensorSummary summary;
    summary.add(arena.subspan(static_cast<std::size_t>(entry.offset),
                              static_cast<std::size_t>(entry.size)));
    tensors.push_back(told(entry.name, summary));
  }
  return tensors;
}

double norm_of(const Json& tensors) {
  double squares = 0;
  for (const Json& tensor : tensors) {
    const auto norm = tensor.at("norm").get<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

Json told_activations(device::Device& device, const step::StepSeen& seen) {
  std::vector<TensorSummary> summaries;
  const std::vector<ActivationTensor> tensors =
      read_activations(device, seen, [&](std::size_t tensor, std::span<const float> rows) {
        if (tensor == summaries.size()) summaries.emplace_back();
        summaries[tensor].add(rows);
      });
  Json all = Json::array();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    all.push_back(told(tensors[i].name, summaries[i]));
  }
  return {{"part", "activations"}, {"tensors", std::move(all)}};
}

Json told_start(const ReplayStart& start) {
  switch (start.kind) {
    case ReplayStart::Kind::NewWeights:
      break;
    case ReplayStart::Kind::GivenWeights:
      return {{"kind", "given weights"}, {"path", start.name}};
    case ReplayStart::Kind::Checkpoint:
      return {{"kind", "checkpoint"}, {"name", start.name}, {"step", start.step}};
  }
  return {{"kind", "new weights"}};
}

// Collects the parts of a step while it is taken.
class Prober {
 public:
  Prober(Replay& replay, std::int64_t step) : replay_(replay), step_(step) {}

  // In the order of the format.
  [[nodiscard]] Json parts() {
    step::StepObserver observer;
    observer.before_forward = [this](const step::StepSeen& seen) { look_forward(seen); };
    observer.before_update = [this](std::int64_t, const model::LossScale& scale,
                                    const model::Bert& model) { look_back(scale, model); };
    try {
      record_ = replay_.run(observer);
    } catch (const step::Diverged& error) {
      if (error.step != step_) throw;  // else what is known of it is told
    }
    Json parts = std::move(before_);
    parts.push_back({{"part", "loss"}, {"value", loss()}});
    parts.push_back(std::move(gradients_));
    if (record_) parts.push_back(told_update());
    return parts;
  }
  [[nodiscard]] Json loss() const { return record_ ? Json(record_->loss) : Json(); }

 private:
  void look_forward(const step::StepSeen& seen) {
    weights_ = read_floats(replay_.device(), seen.model.parameters());
    before_ = Json::array();
    before_.push_back({{"part", "weights"}, {"tensors", told_arena(seen.model.table(), weights_)}});
    for (Json& part : sample_parts(replay_.samples_of(seen), replay_.config_here(), step_)) {
      before_.push_back(std::move(part));
    }
    before_.push_back(told_activations(replay_.device(), seen));
  }
  void look_back(const model::LossScale& scale, const model::Bert& model) {
    std::vector<float> gradients = read_floats(replay_.device(), model.gradients());
    const auto unscaled = static_cast<float>(1 / scale.factor);  // a power of two
    for (float& value : gradients) value *= unscaled;
    Json tensors = told_arena(model.table(), gradients);
    const double norm = norm_of(tensors);
    gradients_ = {{"part", "gradients"}, {"tensors", std::move(tensors)}, {"norm", norm}};
  }
  [[nodiscard]] Json told_update() {
    std::vector<float> changes = read_floats(replay_.device(), replay_.model().parameters());
    for (std::size_t i = 0; i < changes.size(); ++i) changes[i] -= weights_[i];
    return {{"part", "update"},
            {"learning_rate", record_->learning_rate},
            {"tensors", told_arena(replay_.model().table(), changes)}};
  }

  Replay& replay_;
  std::int64_t step_;
  std::optional<contract::StepRecord> record_;  // nothing: the step diverged
  std::vector<float> weights_;                  // before it
  Json before_, gradients_;
};

}  // namespace

Json probe_step(base::FileSystem& files, const base::Clock& clock, const ReplayOptions& options) {
  Replay replay(files, clock, options);
  Prober prober(replay, options.step);
  Json parts = prober.parts();
  Json probe;
  probe["format"] = kProbeFormat;
  probe["step"] = options.step;
  probe["from"] = told_start(replay.start());
  probe["replayed_steps"] = options.step - 1 - replay.start().step;
  probe["device"] = replay.device().description();
  probe["configuration_xxh3_128"] = base::digest_of(contract::to_json(replay.config()));
  probe["changed"] = Json::object();
  for (const auto& [key, value] : replay.changed().changed) {
    probe["changed"][key] = base::parse_json<Json>(value);
  }
  probe["loss"] = prober.loss();
  if (const auto journal = replay.journal_loss()) probe["journal_loss"] = *journal;
  probe["parts"] = std::move(parts);
  return probe;
}

}  // namespace regatta::trainer::probe
