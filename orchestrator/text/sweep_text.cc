#include "orchestrator/text/sweep_text.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/preview_text.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNone = "-";
constexpr const char* kColumns[] = {"number", "rank",      "state",  "objective", "budget", "goal",
                                    "run",    "run_state", "reason", "started",   "ended"};

// Of a sweep in a table.
constexpr const char* kSweepColumns[] = {"id",
                                         "name",
                                         "state",
                                         "stops",
                                         "reason",
                                         "created",
                                         "ended",
                                         "owner",
                                         "method",
                                         "objective.kind",
                                         "objective.direction",
                                         "objective.metric",
                                         "budget.unit",
                                         "budget.min",
                                         "budget.max",
                                         "budget.factor",
                                         "concurrency",
                                         "seed",
                                         "counts.planned",
                                         "counts.tried",
                                         "counts.running",
                                         "counts.paused",
                                         "counts.finished",
                                         "counts.failed",
                                         "counts.stopped",
                                         "best.trial",
                                         "best.run",
                                         "best.run_state",
                                         "best.objective",
                                         "best.budget"};

// A figure of a trial with as many digits as tell it from others.
std::string figure(const Json& value) {
  if (!value.is_number()) return kNone;
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value.get<double>());
  return text;
}

std::string word(const Json& value) {
  if (value.is_null()) return kNone;
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? figure(value) : base::json_text(value);
}

std::string count_of(const Json& sweep, const char* key) {
  return word(sweep.value("counts", Json::object()).value(key, Json()));
}

// "mlm_accuracy", "time to accuracy".
std::string objective_name(const Json& sweep) {
  const Json objective = sweep.value("objective", Json::object());
  const std::string kind = text_of(objective, "kind");
  if (kind == "metric") return text_of(objective, "metric");
  return kind == "time_to_accuracy" ? "time to accuracy in seconds" : kind;
}

std::string state_text(const Json& sweep) {
  const std::string state = text_of(sweep, "state");
  return state == "running" && sweep.value("stops", false) ? "stopping" : state;
}

// Decided on, and its run waits for a place.
bool is_queued(const Json& sweep, const Json& trial) {
  if (text_of(sweep, "id").empty() || text_of(trial, "state") != "running") return false;
  return trial.value("run", Json()).is_null() || text_of(trial, "run_state") == "queued";
}

// trial: or the best one.
std::string run_text(const Json& trial) {
  return word(trial.value("run", Json())) +
         (text_of(trial, "run_state") == "removed" ? " (removed)" : "");
}

// "2 running, 198 queued, 0 paused…"
std::string counts_text(const Json& sweep) {
  std::int64_t queued = 0;
  for (const Json& trial : sweep.at("trials")) queued += is_queued(sweep, trial) ? 1 : 0;
  const Json counts = sweep.value("counts", Json::object());
  std::string text;
  for (const char* const state : {"running", "queued", "paused", "finished", "failed", "stopped"}) {
    const std::string_view name = state;
    std::int64_t count = name == "queued" ? queued : counts.value(state, std::int64_t{0});
    if (name == "running") count = std::max<std::int64_t>(0, count - queued);
    if (count == 0 && (name == "queued" || name == "stopped")) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + state;
  }
  return text;
}

std::string trial_table(const Json& sweep) {
  std::vector<std::string> head{"RANK", "TRIAL", "STATE", "OBJECTIVE", "AFTER", "RUN"};
  std::vector<std::string> keys;
  for (const Json& each : sweep.at("parameters")) keys.push_back(text_of(each, "key"));
  head.insert(head.end(), keys.begin(), keys.end());
  std::vector<std::vector<std::string>> rows{head};
  bool any_reason = false;
  for (const Json& trial : best_first(sweep.at("trials"))) {
    rows.push_back({word(trial.value("rank", Json())), word(trial.value("number", Json())),
                    is_queued(sweep, trial) ? "queued" : text_of(trial, "state"),
                    figure(trial.value("objective", Json())), word(trial.value("budget", Json())),
                    run_text(trial)});
    for (const std::string& key : keys) {
      rows.back().push_back(word(trial.at("values").value(key, Json())));
    }
    rows.back().push_back(text_of(trial, "reason"));
    any_reason = any_reason || !rows.back().back().empty();
  }
  if (any_reason) rows.front().emplace_back("REASON");
  if (!any_reason) {
    for (std::size_t i = 1; i < rows.size(); ++i) rows[i].pop_back();
  }
  return table(rows);
}

}  // namespace

std::string sweep_table(const Json& sweeps) {
  std::vector<std::vector<std::string>> rows{
      {"ID", "STATE", "METHOD", "TRIED", "FAILED", "BEST", "RUN", "BEGAN"}};
  for (const Json& sweep : sweeps) {
    const Json best = sweep.value("best", Json());
    const bool any = best.is_object();
    rows.push_back({text_of(sweep, "id"), state_text(sweep), text_of(sweep, "method"),
                    count_of(sweep, "tried") + "/" + count_of(sweep, "planned"),
                    count_of(sweep, "failed"),
                    any ? figure(best.value("objective", Json())) : kNone,
                    any ? word(best.value("run", Json())) : kNone,
                    local_date(sweep.value("created", Json()))});
  }
  return table(rows);
}

std::string best_text(const Json& sweep) {
  const Json best = sweep.value("best", Json());
  if (!best.is_object()) return "";
  const Json budget = best.value("budget", Json());
  std::string text =
      "trial " + word(best.value("trial", Json())) + ", run " + base::printable(run_text(best)) +
      ": " + base::printable(objective_name(sweep)) + " " + figure(best.value("objective", Json()));
  if (budget.is_number()) {
    text += " after " + word(budget) + " " +
            base::printable(text_of(sweep.value("budget", Json::object()), "unit"));
  }
  text += "\n";
  std::vector<std::vector<std::string>> rows;
  const Json values = best.value("values", Json::object());
  for (const auto& [key, value] : values.items()) {
    rows.push_back({"  " + key, word(value)});
  }
  return text + table(rows);
}

std::string sweep_details(const Json& sweep) {
  const bool maximizes =
      text_of(sweep.value("objective", Json::object()), "direction") == "maximize";
  const std::string what = text_of(sweep, "method") + " search for " +
                           (maximizes ? "more " : "less ") + base::printable(objective_name(sweep));
  if (text_of(sweep, "id").empty()) {
    return base::printable(text_of(sweep, "name")) + " would be a " + what + " by " +
           count_of(sweep, "planned") + " trials; nothing is submitted.\n" +
           table(check_rows(sweep)) + "First:\n\n" + trial_table(sweep);
  }
  std::string text =
      base::printable(text_of(sweep, "id")) + ": " + state_text(sweep) + ", " + what + "\n";
  if (const std::string reason = text_of(sweep, "reason"); !reason.empty()) {
    text += "stands still: " + base::printable(reason) + "\n";
  }
  text += count_of(sweep, "tried") + " of " + count_of(sweep, "planned") +
          " trials: " + counts_text(sweep) + "\n";
  const std::string best = best_text(sweep);
  text += best.empty() ? "no trial has an objective so far\n" : "best: " + best;
  return sweep.at("trials").empty() ? text : text + "\n" + trial_table(sweep);
}

Json sweep_rows(const Json& sweeps) {
  Json rows = Json::array();
  for (const Json& sweep : sweeps) {
    Json row = Json::object();
    for (const std::string key : kSweepColumns) {
      const std::size_t dot = key.find('.');
      const Json part = sweep.value(key.substr(0, dot), Json());
      const bool below = dot != std::string::npos;
      row[key] = below && part.is_object() ? part.value(key.substr(dot + 1), Json())
                 : below                   ? Json()
                                           : part;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> sweep_columns() {
  return {std::begin(kSweepColumns), std::end(kSweepColumns)};
}

Json best_first(const Json& trials) {
  std::vector<Json> rows(trials.begin(), trials.end());
  const auto rank = [](const Json& trial) {
    const Json value = trial.value("rank", Json());
    return value.is_number() ? value.get<int>() : 1 << 30;
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Json& a, const Json& b) { return rank(a) < rank(b); });
  return rows;
}

Json trial_rows(const Json& sweep) {
  Json rows = Json::array();
  for (const Json& trial : sweep.at("trials")) {
    Json row = Json::object();
    for (const char* const key : kColumns) row[key] = trial.value(key, Json());
    for (const Json& each : sweep.at("parameters")) {
      const std::string key = text_of(each, "key");
      row[key] = trial.at("values").value(key, Json());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> trial_columns(const Json& sweep) {
  std::vector<std::string> columns(std::begin(kColumns), std::end(kColumns));
  for (const Json& each : sweep.at("parameters")) columns.push_back(text_of(each, "key"));
  return columns;
}

}  // namespace regatta::orchestrator::text
