#include "orchestrator/api/accuracy_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/runs/time_account.h"
#include "orchestrator/store/predictions.h"
#include "orchestrator/store/series.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kConfidence = 0.8;  // of crossing.h's intervals

// Whether more may come of this attempt, the newest that started: the time since its newest record
// is its own then, and no waiting.
bool goes_on(const runs::Run& run, const runs::Attempt& attempt,
             const std::vector<runs::Launch>& launches) {
  if (run.state != runs::RunState::Running && run.state != runs::RunState::Stopping) return false;
  if (attempt.exit_code) return false;
  if (launches.empty()) return true;  // started by hand
  return !launches.back().over && attempt.number > launches.back().attempts_before;
}

std::vector<runs::AttemptTime> times_of(const runs::Run& run,
                                        const std::vector<runs::Attempt>& attempts,
                                        const std::vector<runs::Launch>& launches, double now_utc) {
  std::vector<runs::AttemptTime> times;
  const runs::Attempt* newest = nullptr;
  for (const runs::Attempt& attempt : attempts) {
    if (!attempt.started) continue;
    newest = &attempt;
    times.push_back({attempt.start_utc, attempt.first_step_begin.value_or(attempt.last_seconds),
                     attempt.last_seconds, attempt.training_seconds});
  }
  if (newest != nullptr && goes_on(run, *newest, launches)) {
    runs::AttemptTime& time = times.back();
    time.end = std::max(time.end, now_utc - time.start_utc);
    if (!newest->first_step_begin) time.first_step = time.end;
  }
  return times;
}

Json account_json(const runs::TimeAccount& account) {
  return {{"whole_seconds", number(account.whole)},
          {"waiting_seconds", number(account.waiting)},
          {"starting_seconds", number(account.starting)},
          {"training_seconds", number(account.training)},
          {"other_seconds", number(account.other)}};
}

// The first evaluation that was as good.
Json reached_json(const std::vector<runs::EvaluationPoint>& points,
                  const std::vector<store::EvaluationRow>& rows, double threshold,
                  runs::Better better) {
  Json json{{"value", threshold}, {"seconds", nullptr}, {"step", nullptr}};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool good = better == runs::Better::Higher ? points[i].value >= threshold
                                                     : points[i].value <= threshold;
    if (!good) continue;
    json["seconds"] = number(points[i].seconds);
    json["step"] = rows[i].step;
    return json;
  }
  return json;
}

Json earlier_json(const runs::PastPrediction& earlier) {
  return {{"made_at_seconds", number(earlier.made_at_seconds)},
          {"seconds", number(earlier.predicted.seconds)},
          {"low", number(earlier.predicted.low)},
          {"high", number(earlier.predicted.high)},
          {"model", runs::name_of(earlier.predicted.model)},
          {"held", earlier.held ? Json(*earlier.held) : Json()}};
}

}  // namespace

Json prediction_json(const runs::Run& run) {
  const runs::RunSummary& summary = run.summary;
  if (!summary.crossing || runs::is_over(run.state)) return nullptr;
  return {{"seconds", number(summary.crossing)},
          {"low", number(summary.crossing_low)},
          {"high", number(summary.crossing_high)},
          {"confidence", kConfidence},
          {"model", text_or_null(summary.crossing_model)}};
}

Response time_to_accuracy(store::StoreReads& store, const Call& call, const runs::Run& run,
                          double now_utc) {
  const runs::RunSummary& summary = run.summary;
  std::vector<double> thresholds;
  if (const auto words = call.text("thresholds")) {
    for (const std::string& word : base::split(*words, ',')) {
      const auto value = base::parse_number(word);
      if (!value || !std::isfinite(*value) || thresholds.size() == kMostThresholds) {
        return parameter_problem("thresholds",
                                 "thresholds is '" + base::printable(words->substr(0, 50)) +
                                     "'; use at most " + std::to_string(kMostThresholds) +
                                     " numbers with commas between them");
      }
      thresholds.push_back(*value);
    }
  }
  const std::vector<runs::Attempt> attempts = store.attempts(run.number);
  const std::vector<store::EvaluationRow> rows = store.evaluations(run.number, 0);
  const auto points = store::evaluation_points(store::RunAxis(attempts), rows, run);
  const runs::Better better = runs::better_of(summary.metric);
  Json reached = Json::array();
  for (const double threshold : thresholds) {
    reached.push_back(reached_json(points, rows, threshold, better));
  }
  Json earlier = Json::array();
  if (summary.target) {
    for (const auto& each : runs::earlier_predictions(
             points, *summary.target, better, store::past_runs(store, run), summary.metric)) {
      earlier.push_back(earlier_json(each));
    }
  }
  const double end = runs::is_over(run.state) ? run.ended_utc.value_or(now_utc) : now_utc;
  const std::vector<runs::AttemptTime> times =
      times_of(run, attempts, store.launches(run.number), now_utc);
  return json_response(200, {{"id", run.id},
                             {"metric", summary.metric},
                             {"target", number(summary.target)},
                             {"time_to_accuracy_seconds", number(summary.time_to_accuracy_seconds)},
                             {"time", account_json(runs::account_of(run.created_utc, end, times))},
                             {"reached", std::move(reached)},
                             {"prediction", prediction_json(run)},
                             {"earlier_predictions", std::move(earlier)}});
}

}  // namespace regatta::orchestrator::api
