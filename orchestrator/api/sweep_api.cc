#include "orchestrator/api/sweep_api.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/change_api.h"
#include "orchestrator/api/event_api.h"
#include "orchestrator/api/preview_json.h"
#include "orchestrator/api/shown_config.h"
#include "orchestrator/control/request_error.h"
#include "orchestrator/sweeps/history.h"
#include "orchestrator/text/run_csv.h"
#include "orchestrator/text/sweep_text.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using control::SweepRecord;
using control::TrialRecord;
using sweeps::TrialState;

constexpr const char* kCsvType = "text/csv; charset=utf-8";

control::SweepDriver& known(control::SweepDriver* sweeps) {
  if (sweeps != nullptr) return *sweeps;
  throw base::Error(base::Code::NotFound, "this controller has no sweeps");
}

Json budget_json(const sweeps::SweepSettings& settings) {
  const bool asha = settings.method == sweeps::SweepMethod::Asha;
  return {{"unit", settings.unit == sweeps::BudgetUnit::Steps ? "steps" : "samples"},
          {"min", asha ? Json(settings.min_budget) : Json()},
          {"max", settings.max_budget > 0 ? Json(settings.max_budget) : Json()},
          {"factor", asha ? Json(settings.factor) : Json()}};
}

// Where the objective is from by which a trial is ranked.
Json budget_of(const sweeps::RankedTrial& ranked, const TrialRecord& trial) {
  const sweeps::TrialReport* const report = sweeps::report_at(trial, ranked.budget);
  return report == nullptr ? Json() : Json(report->budget);
}

// One that its sweep's stop ended before its goal is none of those that finished.
bool was_stopped(const TrialRecord& trial) {
  return trial.state == TrialState::Finished && trial.reason == control::kStoppedReason;
}
std::string state_of(const TrialRecord& trial) {
  return was_stopped(trial) ? "stopped"
                            : sweeps::trial_state_names().at(static_cast<std::size_t>(trial.state));
}

Json counts_json(const SweepRecord& record) {
  std::map<std::string, int> counts;
  for (const TrialRecord& trial : record.trials) ++counts[state_of(trial)];
  Json json{{"planned", record.file.sweep.settings.trials}, {"tried", record.trials.size()}};
  for (const std::string& state : sweeps::trial_state_names()) json[state] = counts[state];
  json["stopped"] = counts["stopped"];
  return json;
}

// "running", "removed"…; null where nothing is known of it, and without a driver.
Json run_state(control::SweepDriver* driver, const TrialRecord& trial) {
  if (driver == nullptr || trial.run.empty()) return nullptr;
  return text_or_null(driver->run_state(trial.run));
}

// ranking: of the record.
Json best_json(const SweepRecord& record, const std::vector<sweeps::RankedTrial>& ranking,
               control::SweepDriver* driver) {
  if (ranking.empty() || !std::isfinite(ranking.front().objective)) return nullptr;
  const TrialRecord& best = record.trials.at(static_cast<std::size_t>(ranking.front().number - 1));
  return {{"trial", best.number},
          {"run", best.run},
          {"run_state", run_state(driver, best)},
          {"objective", number(ranking.front().objective)},
          {"budget", budget_of(ranking.front(), best)},
          {"values", sweeps::values_json(best.values)}};
}

Json summary_json(const SweepRecord& record, const std::vector<sweeps::RankedTrial>& ranking,
                  control::SweepDriver* driver) {
  const std::string trouble = driver == nullptr ? "" : driver->trouble(record.id);
  const sweeps::SweepSettings& settings = record.file.sweep.settings;
  const Json file = sweeps::sweep_json(record.file.sweep);
  Json objective = file.at("objective");
  objective["metric"] = trainer::contract::metric_of(record.file.run);
  return {{"id", text_or_null(record.id)},
          {"name", record.file.run.name},
          {"state", control::name_of(record.state)},
          {"stops", record.stops},
          {"reason", text_or_null(trouble)},
          {"created", moment(record.created_utc)},
          {"ended", moment(record.ended_utc)},
          {"owner", text_or_null(record.owner)},
          {"method", file.at("method")},
          {"objective", std::move(objective)},
          {"budget", budget_json(settings)},
          {"concurrency", settings.concurrency},
          {"seed", settings.seed},
          {"counts", counts_json(record)},
          {"best", best_json(record, ranking, driver)}};
}

Json parameter_json(const sweeps::SweepParameter& parameter) {
  const bool choice = parameter.kind == sweeps::ParameterKind::Choice;
  Json json{{"key", parameter.key},
            {"kind", sweeps::kind_names().at(static_cast<std::size_t>(parameter.kind))}};
  json["low"] = choice ? Json() : number(parameter.low);
  json["high"] = choice ? Json() : number(parameter.high);
  json["log"] = parameter.logarithmic;
  const auto list = [](const std::vector<sweeps::SweepValue>& values) {
    Json all = Json::array();
    for (const sweeps::SweepValue& value : values) {
      all.push_back(std::visit([](const auto& each) { return Json(each); }, value));
    }
    return all;
  };
  json["choices"] = choice ? list(parameter.choices) : Json();
  json["when"] = Json::object();
  for (const sweeps::SweepCondition& each : parameter.when)
    json["when"][each.key] = list(each.values);
  return json;
}

Json trial_json(const TrialRecord& trial, Json run_state) {
  Json reports = Json::array();
  for (const sweeps::TrialReport& each : trial.reports) {
    reports.push_back({{"budget", each.budget}, {"objective", number(each.objective)}});
  }
  return {{"number", trial.number},
          {"run", text_or_null(trial.run)},
          {"run_state", std::move(run_state)},
          {"state", state_of(trial)},
          {"reason", text_or_null(trial.reason)},
          {"values", sweeps::values_json(trial.values)},
          {"goal", trial.goal > 0 ? Json(trial.goal) : Json()},
          {"rank", nullptr},
          {"objective", nullptr},
          {"budget", nullptr},
          {"reports", std::move(reports)},
          {"started", moment(trial.started_utc)},
          {"ended", moment(trial.ended)}};
}

// By number, with their places in the ranking.
Json trials_json(const SweepRecord& record, const std::vector<sweeps::RankedTrial>& ranking,
                 control::SweepDriver* driver) {
  Json trials = Json::array();
  for (const TrialRecord& trial : record.trials) {
    trials.push_back(trial_json(trial, run_state(driver, trial)));
  }
  int rank = 0;
  for (const sweeps::RankedTrial& each : ranking) {
    if (!std::isfinite(each.objective)) break;  // as are all that follow
    Json& trial = trials.at(static_cast<std::size_t>(each.number - 1));
    trial["rank"] = ++rank;
    trial["objective"] = number(each.objective);
    trial["budget"] = budget_of(each, record.trials.at(static_cast<std::size_t>(each.number - 1)));
  }
  return trials;
}

std::vector<sweeps::RankedTrial> ranking_of(const SweepRecord& record) {
  return sweeps::ranking(record.file.sweep.settings, control::history_of(record));
}

// driver: null: of what is not submitted.
Json sweep_json(const SweepRecord& record, control::SweepDriver* driver) {
  const std::vector<sweeps::RankedTrial> ranking = ranking_of(record);
  Json json = summary_json(record, ranking, driver);
  json["parameters"] = Json::array();
  for (const sweeps::SweepParameter& each : record.file.sweep.space.parameters()) {
    json["parameters"].push_back(parameter_json(each));
  }
  json["rungs"] = Json::array();
  for (const std::int64_t budget : sweeps::rung_budgets(record.file.sweep.settings)) {
    if (budget > 0) json["rungs"].push_back(budget);
  }
  json["config"] = shown_config(trainer::contract::to_json(record.file.run));
  json["trials"] = trials_json(record, ranking, driver);
  return json;
}

}  // namespace

Response list_sweeps(control::SweepDriver* sweeps, const Call& call) {
  const auto limit = static_cast<std::size_t>(call.integer("limit"));
  const std::vector<std::string> states = call.words("state");
  const std::string after = call.text("after").value_or("");
  std::vector<control::SweepDriver::Shown> found;
  if (sweeps != nullptr) found = sweeps->all();
  std::erase_if(found, [&](const auto& each) {
    return !states.empty() &&
           std::find(states.begin(), states.end(), control::name_of(each->state)) == states.end();
  });
  const std::size_t total = found.size();
  auto first = found.begin();
  if (!after.empty()) {
    first = std::find_if(found.begin(), found.end(),
                         [&](const auto& each) { return each->id == after; });
    if (first == found.end()) {
      throw control::RequestError(base::Code::NotFound,
                                  "there is no sweep " + base::printable(after.substr(0, 100)) +
                                      " in this list to go on after; begin anew",
                                  "after");
    }
    ++first;
  }
  Json rows = Json::array();
  std::string last;
  for (; first != found.end() && rows.size() < limit; ++first) {
    last = (*first)->id;
    rows.push_back(summary_json(**first, ranking_of(**first), sweeps));
  }
  const bool more = first != found.end();
  return json_response(
      200, {{"sweeps", std::move(rows)},
            {"total", total},
            {"next", more ? Json(last) : Json()},
            {"left_out", sweeps == nullptr ? std::vector<std::string>{} : sweeps->left_out()}});
}

Response submit_sweep(control::SweepDriver* sweeps, const Call& call) {
  control::SweepDriver& driver = known(sweeps);
  if (call.flag("dry_run")) {
    SweepRecord record = driver.preview(call.request.body);
    const std::vector<control::PreviewCheck> checks = driver.check(record);
    for (const sweeps::SweepAction& action : sweeps::next_actions(record.file.sweep, {}).actions) {
      control::carry_out(action, 0, &record);
    }
    Json json = sweep_json(record, nullptr);
    json["checks"] = checks_json(checks);
    return json_response(200, json);
  }
  const auto accepted =
      driver.submit(call.request.body, key_of(call.request), asker_of(call.request.peer));
  Json json = sweep_json(*accepted.sweep, &driver);
  json["warnings"] = accepted.doubts;
  Response response = json_response(accepted.created ? 201 : 200, json);
  response.headers["Location"] = "/api/v1/sweeps/" + accepted.sweep->id;
  return response;
}

Response show_sweep(control::SweepDriver* sweeps, const std::string& name) {
  const auto shown = known(sweeps).find(name);
  return json_response(200, sweep_json(*shown, sweeps));
}

Response sweep_trials(control::SweepDriver* sweeps, const std::string& name) {
  const auto shown = known(sweeps).find(name);
  Response response;
  response.content_type = kCsvType;
  const Json sweep = sweep_json(*shown, sweeps);
  response.body =
      text::csv_of(text::trial_rows(sweep), text::Audience::Program, text::trial_columns(sweep));
  response.headers["Content-Disposition"] = "attachment; filename=\"" + shown->id + ".csv\"";
  return response;
}

Response stop_sweep(control::SweepDriver* sweeps, const Call& call) {
  control::SweepDriver& driver = known(sweeps);
  const bool changed = driver.stop(call.names.at(0), asker_of(call.request.peer));
  const auto shown = driver.find(call.names.at(0));
  return json_response(changed ? 202 : 200, sweep_json(*shown, &driver));
}

Response remove_sweep(control::SweepDriver* sweeps, const Call& call) {
  control::SweepDriver& driver = known(sweeps);
  const auto shown = driver.find(call.names.at(0));
  driver.remove(shown->id, asker_of(call.request.peer));
  return json_response(200, {{"id", shown->id}});
}

}  // namespace regatta::orchestrator::api
