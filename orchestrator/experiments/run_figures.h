// What one run of an experiment came to, of the API's answers. docs/metrics.md defines the figures.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/experiments/layout.h"
#include "orchestrator/experiments/parallel_experiment.h"

namespace regatta::orchestrator::experiments {

// In the order of a table.
enum class Figure {
  RunSeconds,
  SamplesPerSecond,
  TokensPerSecond,
  ValidationLoss,  // known only beside other runs: at equal samples
  Utilisation,
  Mfu,
  NoiseScale,
  Efficiency,
  Goodput,
  Bubble,
  BubblePredicted
};
inline constexpr std::size_t kFigures = 11;
using Figures = std::array<std::optional<double>, kFigures>;
[[nodiscard]] inline std::optional<double>& of(Figures& figures, Figure figure) {
  return figures.at(static_cast<std::size_t>(figure));
}
[[nodiscard]] inline const std::optional<double>& of(const Figures& figures, Figure figure) {
  return figures.at(static_cast<std::size_t>(figure));
}

struct FigureText {
  Figure figure;
  const char* key;    // in JSON
  const char* title;  // in a table, with its unit
  bool is_share;      // shown in percent
};
[[nodiscard]] const std::array<FigureText, kFigures>& figure_texts();

struct ExperimentRun {
  std::string id, state, error;
  RunTags tags;
  Layout layout;  // by its run file; named by its tag
  std::uint64_t seed = 0;
  std::int64_t batch_size = 0;
  Figures figures{};
  // 95 % confidence; without an upper end the scale may be endless.
  std::optional<double> noise_low, noise_high;
  std::map<std::int64_t, double> losses;  // of evaluations, by step
  std::string device;
  std::vector<std::string> hosts;  // of its newest attempt
  bool is_thinned = false;         // of old steps only means are kept
  std::string common;              // its run file without what makes it one of the experiment

  [[nodiscard]] bool succeeded() const { return state == "succeeded"; }
  [[nodiscard]] bool is_over() const;
};

// run: GET /runs/{id}.
[[nodiscard]] ExperimentRun experiment_run(const nlohmann::ordered_json& run);
// rows: all of GET /runs/{id}/history; steps that were trained again count once. Shares and bubbles
// are means over the steps weighted by their times, the two rates sums over sums, the noise scale
// and its efficiency the newest that the run tells, and goodput is samples/s × efficiency.
void take_history(const nlohmann::ordered_json& rows, ExperimentRun* run);
// attempts: GET /runs/{id}/attempts.
void take_attempts(const nlohmann::ordered_json& attempts, ExperimentRun* run);

}  // namespace regatta::orchestrator::experiments
