#include "orchestrator/experiments/run_figures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace regatta::orchestrator::experiments {
namespace {

using Json = nlohmann::ordered_json;

// Keys of the run file by which runs of an experiment differ, or may.
constexpr const char* kOwnKeys[] = {"name", "seed", "ranks", "parallel", "slurm"};

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Json part_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : Json::object();
}

Layout layout_of(const Json& config, const std::string& name) {
  Layout layout;
  const Json parallel = part_of(config, "parallel");
  layout.pipeline = std::max(1, parallel.value("pipeline", 1));
  layout.data = std::max(1, parallel.value("data", config.value("ranks", 1) / layout.pipeline));
  const auto& orders = trainer::contract::pipeline_order_names();
  if (text_of(parallel, "schedule") == orders.back()) {
    layout.schedule = trainer::contract::PipelineOrder::GPipe;
  }
  layout.name = name.empty() ? default_name(layout) : name;
  return layout;
}

// What a journal does not say is not a number.
std::optional<double> known(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Of a step in which ranks computed and waited; `bubble` is the second over the first.
double computing_seconds(double step_seconds, const std::optional<double>& bubble) {
  const double ratio = known(bubble.value_or(0)).value_or(0);
  return step_seconds / (1 + std::max(0.0, ratio));
}

}  // namespace

const std::array<FigureText, kFigures>& figure_texts() {
  static constexpr std::array<FigureText, kFigures> texts{{
      {Figure::RunSeconds, "run_seconds", "run time, s", false},
      {Figure::SamplesPerSecond, "samples_per_second", "samples/s", false},
      {Figure::TokensPerSecond, "tokens_per_second", "tokens/s", false},
      {Figure::ValidationLoss, "validation_loss", "validation loss", false},
      {Figure::Utilisation, "utilisation", "utilisation", true},
      {Figure::Mfu, "mfu", "model FLOP utilisation", true},
      {Figure::NoiseScale, "noise_scale", "noise scale, samples", false},
      {Figure::Efficiency, "efficiency", "statistical efficiency", false},
      {Figure::Goodput, "goodput", "goodput, samples/s", false},
      {Figure::Bubble, "bubble", "bubble", true},
      {Figure::BubblePredicted, "bubble_predicted", "bubble, predicted", true},
  }};
  return texts;
}

bool ExperimentRun::is_over() const {
  return state == "succeeded" || state == "failed" || state == "stopped" || state == "cancelled";
}

ExperimentRun experiment_run(const runs::Run& run, const std::vector<runs::Attempt>& attempts) {
  ExperimentRun made;
  made.id = run.id;
  made.state = runs::name_of(run.state);
  made.error = run.error;
  made.tags = read_tags(run.tags);
  Json config = base::parse_json<Json>(run.config);
  made.layout = layout_of(config, made.tags.layout_name);
  if (config.contains("seed") && config["seed"].is_number_integer()) {
    made.seed = config["seed"].get<std::uint64_t>();
  }
  made.batch_size = part_of(config, "batch").value("size", std::int64_t{0});
  made.grows = part_of(config, "batch").value("growth", "none") != "none";
  if (made.grows && made.error.empty()) {
    made.error = "its batch grows, and layouts are compared at one batch size";
  }
  for (const char* const key : kOwnKeys) config.erase(key);
  made.common = base::json_text(config);
  const auto begun = std::find_if(attempts.rbegin(), attempts.rend(),
                                  [](const runs::Attempt& attempt) { return attempt.started; });
  if (begun != attempts.rend()) made.device = begun->device;
  if (attempts.empty()) return made;
  const runs::Attempt& newest = attempts.back();
  made.hosts = newest.hosts;
  if (made.hosts.empty() && !newest.host.empty()) made.hosts = {newest.host};
  return made;
}

void HistoryFigures::Weighted::add(const std::optional<double>& value, double weight) {
  if (!value || !std::isfinite(*value)) return;
  sum_ += *value * weight;
  weights_ += weight;
}

std::optional<double> HistoryFigures::Weighted::mean() const {
  return weights_ > 0 ? std::optional(sum_ / weights_) : std::nullopt;
}

// Of the newest step that says one of them.
void HistoryFigures::take_noise(const store::StepRow& row) {
  if (!row.noise_scale && !row.noise_scale_low && !row.noise_scale_high && !row.efficiency) return;
  noise_scale_ = row.noise_scale;
  efficiency_ = row.efficiency;
  noise_low_ = row.noise_scale_low;
  noise_high_ = row.noise_scale_high;
}

void HistoryFigures::add(const store::StepRow& row, double at_seconds) {
  const double seconds = known(row.step_seconds).value_or(0);
  seconds_ += seconds;
  samples_ += static_cast<double>(row.samples);
  tokens_ += static_cast<double>(row.tokens);
  end_ = std::max(end_, at_seconds);
  utilisation_.add(row.utilisation, seconds);
  mfu_.add(row.mfu, seconds);
  const double computing =
      computing_seconds(seconds, row.bubble ? row.bubble : row.bubble_predicted);
  bubble_.add(row.bubble, computing);
  bubble_predicted_.add(row.bubble_predicted, computing);
  take_noise(row);
}

void HistoryFigures::add(const store::EvaluationRow& row) {
  auto loss = known(row.mlm_loss);
  if (const auto told = row.metrics.find("loss"); !loss && told != row.metrics.end()) {
    loss = known(told->second);
  }
  if (loss) losses_[row.step] = *loss;
  if (losses_.size() > kMostLosses) losses_.erase(losses_.begin());
}

void HistoryFigures::write_to(ExperimentRun* run) const {
  run->losses = losses_;
  run->noise_low = noise_low_;
  run->noise_high = noise_high_;
  Figures& figures = run->figures;
  of(figures, Figure::NoiseScale) = noise_scale_;
  of(figures, Figure::Efficiency) = efficiency_;
  if (seconds_ <= 0) return;
  of(figures, Figure::RunSeconds) = end_;
  const double rate = samples_ / seconds_;
  of(figures, Figure::SamplesPerSecond) = rate;
  of(figures, Figure::TokensPerSecond) = tokens_ / seconds_;
  of(figures, Figure::Utilisation) = utilisation_.mean();
  of(figures, Figure::Mfu) = mfu_.mean();
  of(figures, Figure::Bubble) = bubble_.mean();
  of(figures, Figure::BubblePredicted) = bubble_predicted_.mean();
  if (efficiency_) of(figures, Figure::Goodput) = rate * *efficiency_;
}

}  // namespace regatta::orchestrator::experiments
