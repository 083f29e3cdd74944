// When a run will meet its target, with an interval that holds in four of five cases. Pure
// functions over a run's evaluations; how well they do: tests/bench/results/crossing.md.
//
// Everything is a ratio: the answer is T / t, with t the time of the newest evaluation and T that
// of the first one that meets the target, and the evaluations enter by their gap
//   (target − value) / |target|      (for losses (value − target) / |target|),
// so neither the unit of time nor that of the metric matters. Three models, the first that applies:
//
//   past runs  At least 3 finished runs of the same kind. Each says which share of its own time it
//              had taken when it first reached this run's gap; ln T of the new run is then
//              distributed by Student's t, as another draw from the same family.
//   mlperf     MLPerf's BERT-large task: target 0.72 of mlm_accuracy, first evaluations from gap
//   0.5 on, and no more
//              or fewer evaluations than MLPerf's runs had at this gap. ln(T / t) = a(gap) + b(gap)
//              ln n after n evaluations; interval by quantiles of what remained (conformal).
//   own curve  At least 3 evaluations that improve. A straight line over ln t through the newest
//              third says how far away the target is; what such a distance turned out to be on
//              curves of many shapes gives centre and interval.
//
// The first two widen when this run's own earlier predictions and the present one exclude each
// other, the third when earlier lines missed what has come since.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/time_to_accuracy.h"

namespace regatta::orchestrator::runs {

enum class CrossingModel { PastRuns, Mlperf, OwnCurve };
// "past runs", "mlperf", "own curve": the words of the API and the page.
[[nodiscard]] const char* name_of(CrossingModel model);

// Seconds on the axis; 80 % of such intervals hold. newest evaluation <= low <= seconds <= high.
struct Crossing {
  double seconds = 0;
  double low = 0;
  double high = 0;
  CrossingModel model = CrossingModel::OwnCurve;
};

// A finished run without its units: at each evaluation that was its best so far, which share of the
// time to accuracy had gone (up to 1) and which gap was left (decreasing). At most 256 of them.
struct PastRun {
  struct Best {
    double share = 0;
    double gap = 0;
  };
  std::vector<Best> bests;
};
// Nothing for a run that did not meet its target, or whose target is 0.
[[nodiscard]] std::optional<PastRun> past_run(const std::vector<EvaluationPoint>& points,
                                              double target, Better better);

// Points in order of time; those that are not finite, or not later than the one before, are left
// out. `past` holds finished runs of the same kind: same metric, model, data and batch size, or
// else none. Nothing when the target is met already, or 0, and while no model applies: with fewer
// than 3 evaluations outside of MLPerf's task, and on a curve that does not improve. `metric` is
// the target's: only of its own do MLPerf's runs say something.
[[nodiscard]] std::optional<Crossing> predict_crossing(const std::vector<EvaluationPoint>& points,
                                                       double target, Better better,
                                                       const std::vector<PastRun>& past,
                                                       std::string_view metric = kMlperfMetric);

// What was predicted after 1, 2, 4, 8, … usable evaluations of this run, where something was, and
// what came of it: held says whether the crossing lies in the interval; false also as soon as the
// run has gone on past `high` without crossing, nothing while it is open.
struct PastPrediction {
  double made_at_seconds = 0;
  Crossing predicted;
  std::optional<bool> held;
};
[[nodiscard]] std::vector<PastPrediction> earlier_predictions(
    const std::vector<EvaluationPoint>& points, double target, Better better,
    const std::vector<PastRun>& past, std::string_view metric = kMlperfMetric);

}  // namespace regatta::orchestrator::runs
