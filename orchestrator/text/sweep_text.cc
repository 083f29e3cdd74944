#include "orchestrator/text/sweep_text.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNone = "-";
constexpr const char* kColumns[] = {"number", "rank",      "state",  "objective", "budget", "goal",
                                    "run",    "run_state", "reason", "started",   "ended"};

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

std::vector<Json> in_order(const Json& trials) {
  std::vector<Json> rows(trials.begin(), trials.end());
  const auto rank = [](const Json& trial) {
    const Json value = trial.value("rank", Json());
    return value.is_number() ? value.get<int>() : 1 << 30;
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Json& a, const Json& b) { return rank(a) < rank(b); });
  return rows;
}

std::string trial_table(const Json& sweep) {
  std::vector<std::string> head{"RANK", "TRIAL", "STATE", "OBJECTIVE", "AFTER", "RUN"};
  std::vector<std::string> keys;
  for (const Json& each : sweep.at("parameters")) keys.push_back(text_of(each, "key"));
  head.insert(head.end(), keys.begin(), keys.end());
  std::vector<std::vector<std::string>> rows{head};
  bool any_reason = false;
  for (const Json& trial : in_order(sweep.at("trials"))) {
    rows.push_back({word(trial.value("rank", Json())), word(trial.value("number", Json())),
                    text_of(trial, "state"), figure(trial.value("objective", Json())),
                    word(trial.value("budget", Json())), word(trial.value("run", Json()))});
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
  std::string text = "trial " + word(best.value("trial", Json())) + ", run " +
                     base::printable(word(best.value("run", Json()))) + ": " +
                     base::printable(objective_name(sweep)) + " " +
                     figure(best.value("objective", Json()));
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
           count_of(sweep, "planned") + " trials; nothing is submitted. First:\n\n" +
           trial_table(sweep);
  }
  std::string text =
      base::printable(text_of(sweep, "id")) + ": " + state_text(sweep) + ", " + what + "\n";
  if (const std::string reason = text_of(sweep, "reason"); !reason.empty()) {
    text += "stands still: " + base::printable(reason) + "\n";
  }
  text += count_of(sweep, "tried") + " of " + count_of(sweep, "planned") + " trials: ";
  std::string counts;
  for (const char* const state : {"running", "paused", "finished", "failed", "stopped"}) {
    const std::string count = count_of(sweep, state);
    if (std::string_view(state) == "stopped" && count == "0") continue;
    counts += (counts.empty() ? "" : ", ") + count + " " + state;
  }
  text += counts + "\n";
  const std::string best = best_text(sweep);
  text += best.empty() ? "no trial has an objective so far\n" : "best: " + best;
  return sweep.at("trials").empty() ? text : text + "\n" + trial_table(sweep);
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
