// What one run of an experiment came to, of the store's records. docs/metrics.md defines the
// figures.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/experiments/layout.h"
#include "orchestrator/experiments/parallel_experiment.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/store/store_reads.h"

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
  bool grows = false;  // its batch
  std::int64_t batch_size = 0;
  Figures figures{};
  // 95 % confidence; without an upper end the scale may be endless.
  std::optional<double> noise_low, noise_high;
  std::map<std::int64_t, double> losses;  // of evaluations, by step
  std::string device;
  std::vector<std::string> hosts;  // of its newest attempt
  bool is_thinned = false;         // of old steps only means are kept
  std::string common;              // its run file without what makes it one of the experiment

  // So that its figures count: also at one batch size, like the others.
  [[nodiscard]] bool succeeded() const { return state == "succeeded" && !grows; }
  [[nodiscard]] bool is_over() const;
};

// Without its figures. attempts: all of the run's, as the store has them.
[[nodiscard]] ExperimentRun experiment_run(const runs::Run& run,
                                           const std::vector<runs::Attempt>& attempts);

// The figures of a run from its history, which comes a part at a time. Rows whose steps were
// trained again are left out by the caller.
class HistoryFigures {
 public:
  // Shares are means over the steps weighted by their times; bubbles by the part of it in which
  // ranks computed, so that they are all waiting over all computing, however long a step stalls.
  // The two rates are sums over sums, the noise scale and its efficiency the newest that the run
  // tells. at_seconds: on the axis of time to accuracy.
  void add(const store::StepRow& row, double at_seconds);
  void add(const store::EvaluationRow& row);
  // The newest, by step.
  static constexpr std::size_t kMostLosses = 1000;
  // Goodput is samples/s × efficiency. Without a step there are no figures.
  void write_to(ExperimentRun* run) const;

 private:
  class Weighted {
   public:
    void add(const std::optional<double>& value, double weight);
    [[nodiscard]] std::optional<double> mean() const;

   private:
    double sum_ = 0, weights_ = 0;
  };
  void take_noise(const store::StepRow& row);

  double samples_ = 0, tokens_ = 0, seconds_ = 0, end_ = 0;
  Weighted utilisation_, mfu_, bubble_, bubble_predicted_;
  std::optional<double> noise_scale_, noise_low_, noise_high_, efficiency_;
  std::map<std::int64_t, double> losses_;
};

}  // namespace regatta::orchestrator::experiments
