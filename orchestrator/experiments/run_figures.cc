#include "orchestrator/experiments/run_figures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace regatta::orchestrator::experiments {
namespace {

using Json = nlohmann::ordered_json;

// Keys of the run file by which runs of an experiment differ, or may.
constexpr const char* kOwnKeys[] = {"name", "seed", "ranks", "parallel", "slurm"};

std::optional<double> number_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Json part_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : Json::object();
}

std::vector<std::string> texts_of(const Json& json, const char* key) {
  std::vector<std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return texts;
  for (const Json& each : *found) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
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

// A mean weighted by seconds.
class Weighted {
 public:
  void add(const std::optional<double>& value, double seconds) {
    if (!value) return;
    sum_ += *value * seconds;
    seconds_ += seconds;
  }
  [[nodiscard]] std::optional<double> mean() const {
    return seconds_ > 0 ? std::optional(sum_ / seconds_) : std::nullopt;
  }

 private:
  double sum_ = 0, seconds_ = 0;
};

bool is_counted(const Json& row, const char* type) {
  return text_of(row, "type") == type && !row.value("abandoned", false);
}

// Of the newest step that says one of them.
void take_noise(const Json& row, ExperimentRun* run) {
  const auto scale = number_of(row, "noise_scale"), low = number_of(row, "noise_scale_low");
  const auto high = number_of(row, "noise_scale_high"), efficiency = number_of(row, "efficiency");
  if (!scale && !low && !high && !efficiency) return;
  of(run->figures, Figure::NoiseScale) = scale;
  of(run->figures, Figure::Efficiency) = efficiency;
  run->noise_low = low;
  run->noise_high = high;
}

void take_evaluation(const Json& row, ExperimentRun* run) {
  const auto step = number_of(row, "step");
  auto loss = number_of(row, "mlm_loss");
  if (!loss) loss = number_of(part_of(row, "metrics"), "loss");
  if (step && loss) run->losses[static_cast<std::int64_t>(*step)] = *loss;
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

ExperimentRun experiment_run(const Json& run) {
  ExperimentRun made;
  made.id = text_of(run, "id");
  made.state = text_of(run, "state");
  made.error = text_of(run, "error");
  made.device = text_of(run, "device");
  made.tags = read_tags(texts_of(run, "tags"));
  Json config = part_of(run, "config");
  made.layout = layout_of(config, made.tags.layout_name);
  if (config.contains("seed") && config["seed"].is_number_integer()) {
    made.seed = config["seed"].get<std::uint64_t>();
  }
  made.batch_size = part_of(config, "batch").value("size", std::int64_t{0});
  for (const char* const key : kOwnKeys) config.erase(key);
  made.common = base::json_text(config);
  return made;
}

void take_history(const Json& rows, ExperimentRun* run) {
  double samples = 0, tokens = 0, all_seconds = 0, end = 0;
  Weighted utilisation, mfu, bubble, predicted;
  for (const Json& row : rows) {
    if (is_counted(row, "evaluation")) take_evaluation(row, run);
    if (!is_counted(row, "step")) continue;
    const double seconds = number_of(row, "step_seconds").value_or(0);
    all_seconds += seconds;
    samples += number_of(row, "samples").value_or(0);
    tokens += number_of(row, "tokens").value_or(0);
    end = std::max(end, number_of(row, "at_seconds").value_or(0));
    utilisation.add(number_of(row, "utilisation"), seconds);
    mfu.add(number_of(row, "mfu"), seconds);
    bubble.add(number_of(row, "bubble"), seconds);
    predicted.add(number_of(row, "bubble_predicted"), seconds);
    take_noise(row, run);
  }
  if (all_seconds <= 0) return;
  Figures& figures = run->figures;
  of(figures, Figure::RunSeconds) = end;
  const double rate = samples / all_seconds;
  of(figures, Figure::SamplesPerSecond) = rate;
  of(figures, Figure::TokensPerSecond) = tokens / all_seconds;
  of(figures, Figure::Utilisation) = utilisation.mean();
  of(figures, Figure::Mfu) = mfu.mean();
  of(figures, Figure::Bubble) = bubble.mean();
  of(figures, Figure::BubblePredicted) = predicted.mean();
  if (const auto& efficiency = of(figures, Figure::Efficiency)) {
    of(figures, Figure::Goodput) = rate * *efficiency;
  }
}

void take_attempts(const Json& attempts, ExperimentRun* run) {
  const auto list = attempts.find("attempts");
  if (list == attempts.end() || !list->is_array() || list->empty()) return;
  const Json& newest = list->back();
  run->hosts = texts_of(newest, "hosts");
  if (run->hosts.empty() && !text_of(newest, "host").empty()) {
    run->hosts = {text_of(newest, "host")};
  }
}

}  // namespace regatta::orchestrator::experiments
