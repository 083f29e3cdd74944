#include "orchestrator/control/sweep_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::control {
namespace {

using Json = nlohmann::ordered_json;
using sweeps::TrialState;

constexpr int kFormat = 1;
constexpr int kDepth = 16;
const std::vector<std::string> kStates{"running", "done", "stopped"};

template <typename State>
State parse_state(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw base::Error(base::Code::Operator, "'" + name + "' is no state");
  }
  return static_cast<State>(found - names.begin());
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

template <typename Value>
std::optional<Value> if_any(const Json& json, const char* key) {
  const Json value = json.value(key, Json());
  if (value.is_null()) return std::nullopt;
  return value.get<Value>();
}

Json trial_json(const TrialRecord& trial) {
  Json reports = Json::array();
  for (const sweeps::TrialReport& each : trial.reports) {
    const bool finite = std::isfinite(each.objective);
    reports.push_back(Json::array({each.budget, finite ? Json(each.objective) : Json()}));
  }
  return {{"number", trial.number},
          {"run", trial.run},
          {"values", sweeps::values_json(trial.values)},
          {"goal", trial.goal},
          {"state", sweeps::trial_state_names().at(static_cast<std::size_t>(trial.state))},
          {"reason", trial.reason},
          {"reports", std::move(reports)},
          {"started_utc", trial.started_utc},
          {"ended_utc", or_null(trial.ended)}};
}

TrialRecord parse_trial(const Json& json) {
  TrialRecord trial;
  trial.number = json.at("number").get<int>();
  trial.run = json.at("run").get<std::string>();
  trial.values = sweeps::values_from(json.at("values"));
  trial.goal = json.at("goal").get<std::int64_t>();
  trial.state =
      parse_state<TrialState>(sweeps::trial_state_names(), json.at("state").get<std::string>());
  trial.reason = json.at("reason").get<std::string>();
  for (const Json& each : json.at("reports")) {
    const Json& objective = each.at(1);
    trial.reports.push_back(
        {each.at(0).get<std::int64_t>(),
         objective.is_null() ? std::numeric_limits<double>::quiet_NaN() : objective.get<double>()});
  }
  trial.started_utc = json.at("started_utc").get<double>();
  trial.ended = if_any<double>(json, "ended_utc");
  return trial;
}

SweepRecord parse_record(const Json& json) {
  if (const int format = json.at("format").get<int>(); format != kFormat) {
    throw base::Error(base::Code::Operator, "its format is " + std::to_string(format) +
                                                ", which a newer regatta has written");
  }
  SweepRecord record;
  record.id = json.at("id").get<std::string>();
  record.created_utc = json.at("created_utc").get<double>();
  record.owner = json.at("owner").get<std::string>();
  record.idempotency_key = if_any<std::string>(json, "idempotency_key");
  record.body_digest = json.at("body_digest").get<std::string>();
  record.stops = json.at("stops").get<bool>();
  record.state = parse_state<SweepState>(kStates, json.at("state").get<std::string>());
  record.ended_utc = if_any<double>(json, "ended_utc");
  record.file = sweeps::parse_sweep_file(base::json_text(json.at("file")), "file");
  for (const Json& each : json.at("trials")) {
    record.trials.push_back(parse_trial(each));
    if (record.trials.back().number != static_cast<int>(record.trials.size())) {
      throw base::Error(base::Code::Operator, "its trials are not numbered from 1");
    }
  }
  return record;
}

}  // namespace

const char* name_of(SweepState state) { return kStates[static_cast<std::size_t>(state)].c_str(); }

sweeps::SweepHistory history_of(const SweepRecord& record) {
  sweeps::SweepHistory history;
  history.trials.assign(record.trials.begin(), record.trials.end());
  return history;
}

void carry_out(const sweeps::SweepAction& action, double utc, SweepRecord* record) {
  sweeps::SweepHistory history = history_of(*record);
  sweeps::carry_out(action, &history);
  for (std::size_t i = 0; i < history.trials.size(); ++i) {
    if (i == record->trials.size()) {
      record->trials.emplace_back();
      record->trials.back().started_utc = utc;
    }
    TrialRecord& trial = record->trials[i];
    static_cast<sweeps::SweepTrial&>(trial) = std::move(history.trials[i]);
    if (trial.state == TrialState::Running) {
      trial.ended.reset();
    } else if (!trial.ended) {
      trial.ended = utc;
    }
  }
}

base::Path sweeps_directory(const base::Path& runs_directory) { return runs_directory / ".sweeps"; }

std::string tag_of(const SweepRecord& record) { return "sweep-" + record.id; }

std::string text_of(const SweepRecord& record) {
  Json json{{"format", kFormat},
            {"id", record.id},
            {"created_utc", record.created_utc},
            {"owner", record.owner},
            {"idempotency_key", or_null(record.idempotency_key)},
            {"body_digest", record.body_digest},
            {"stops", record.stops},
            {"state", name_of(record.state)},
            {"ended_utc", or_null(record.ended_utc)},
            {"file", base::parse_json<Json>(sweeps::to_json(record.file))}};
  json["trials"] = Json::array();
  for (const TrialRecord& trial : record.trials) json["trials"].push_back(trial_json(trial));
  return base::json_text(json, 1) + "\n";
}

SweepRecord parse_sweep_record(const std::string& text) {
  const Json json = base::json_depth_at_most(text, kDepth) ? base::parse_json<Json>(text) : Json();
  if (!json.is_object()) throw base::Error(base::Code::Operator, "it holds no JSON object");
  try {
    return parse_record(json);
  } catch (const nlohmann::json::exception&) {
    throw base::Error(base::Code::Operator,
                      "it is damaged: a field is missing, or is no such value");
  } catch (const base::Error& error) {
    throw base::Error(base::Code::Operator, error.what());
  }
}

}  // namespace regatta::orchestrator::control
