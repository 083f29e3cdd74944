#include "orchestrator/runs/run_records.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::runs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxRecord = 65536;
constexpr std::size_t kLongestLine = 500;
constexpr const char* kStateName = "state.json";
const std::vector<std::string> kWanted{"run", "cancel", "observe"};

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Json> read_json(base::FileSystem& files, const base::Path& path) {
  try {
    Json json = Json::parse(files.read(path, kMaxRecord), nullptr, false);
    if (!json.is_object()) return std::nullopt;
    return json;
  } catch (const base::Error& error) {
    // A disk that fails says nothing of what is there.
    if (error.code() == base::Code::Operator || error.code() == base::Code::Retry) throw;
    return std::nullopt;
  }
}

base::Path launches_path(const base::Path& run_directory) { return run_directory / "launches"; }

std::optional<int> optional_int(const Json& json, const char* name) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_number_integer()) return std::nullopt;
  return it->get<int>();
}

}  // namespace

std::string submission_text(const SubmissionRecord& submission) {
  Json json;
  json["id"] = submission.id;
  json["created_utc"] = submission.created_utc;
  json["wanted"] = kWanted.at(static_cast<std::size_t>(submission.wanted));
  if (submission.idempotency_key) json["idempotency_key"] = *submission.idempotency_key;
  json["body_digest"] = submission.body_digest;
  if (!submission.scheduler.empty()) json["scheduler"] = submission.scheduler;
  if (!submission.after.empty()) json["after"] = submission.after;
  if (submission.archived) json["archived"] = true;
  return text_of(json);
}

void write_submission(base::FileSystem& files, const base::Path& run_directory,
                      const SubmissionRecord& submission) {
  base::replace_file(files, run_directory / kSubmissionName, submission_text(submission));
}

void write_state(base::FileSystem& files, const base::Path& run_directory,
                 const RecordedState& state) {
  Json json;
  json["state"] = name_of(state.state);
  if (!state.error.empty()) json["error"] = state.error;
  if (state.ended_utc) json["ended_utc"] = *state.ended_utc;
  json["failures"] = state.failures;
  json["progress_step"] = state.progress_step;
  json["launch"] = state.launch;
  base::replace_file(files, run_directory / kStateName, text_of(json));
}

std::optional<RecordedState> read_state(base::FileSystem& files, const base::Path& run_directory) {
  const auto json = read_json(files, run_directory / kStateName);
  if (!json) return std::nullopt;
  try {
    const auto state = parse_run_state(json->value("state", ""));
    if (!state) return std::nullopt;
    RecordedState recorded;
    recorded.state = *state;
    recorded.error = json->value("error", "");
    if (json->contains("ended_utc")) recorded.ended_utc = json->value("ended_utc", 0.0);
    recorded.failures = json->value("failures", 0);
    recorded.progress_step = json->value("progress_step", std::int64_t{-1});
    recorded.launch = json->value("launch", 0);
    return recorded;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool is_temporary_record(const std::string& name) {
  const std::size_t at = name.find(".json.tmp-");
  if (at == std::string::npos) return false;
  const std::string stem = name.substr(0, at);
  return stem == "submission" || stem == "state" || base::parse_integer(stem).has_value();
}

void write_launch(base::FileSystem& files, const base::Path& run_directory, const Launch& launch) {
  files.create_directory(launches_path(run_directory));
  files.sync_directory(run_directory);  // whoever made it may have been killed before that
  Json json;
  json["number"] = launch.number;
  json["token"] = launch.token;
  json["handle"] = launch.handle;
  json["attempts_before"] = launch.attempts_before;
  json["started_utc"] = launch.started_utc;
  json["over"] = launch.over;
  if (launch.exit_code) json["exit_code"] = *launch.exit_code;
  if (launch.signal) json["signal"] = *launch.signal;
  if (launch.replaced) json["replaced"] = true;
  if (launch.ended_utc) json["ended_utc"] = *launch.ended_utc;
  if (launch.gpus) json["gpus"] = *launch.gpus;
  const std::pair<const char*, const std::string&> texts[] = {{"cause", launch.cause},
                                                              {"words", launch.words},
                                                              {"action", launch.action},
                                                              {"nodes", launch.nodes}};
  for (const auto& [name, text] : texts) {
    if (!text.empty()) json[name] = text;
  }
  base::replace_file(files,
                     launches_path(run_directory) / (std::to_string(launch.number) + ".json"),
                     text_of(json));
}

std::optional<SubmissionRecord> read_submission(base::FileSystem& files,
                                                const base::Path& run_directory) {
  const auto json = read_json(files, run_directory / kSubmissionName);
  if (!json) return std::nullopt;
  try {
    SubmissionRecord submission;
    submission.id = json->value("id", "");
    submission.created_utc = json->value("created_utc", 0.0);
    const std::string wanted = json->value("wanted", "run");
    const auto it = std::find(kWanted.begin(), kWanted.end(), wanted);
    if (it != kWanted.end()) submission.wanted = static_cast<Wanted>(it - kWanted.begin());
    if (json->contains("idempotency_key")) {
      submission.idempotency_key = json->at("idempotency_key").get<std::string>();
    }
    submission.body_digest = json->value("body_digest", "");
    submission.scheduler = json->value("scheduler", "");
    for (const Json& id : json->value("after", Json::array())) {
      submission.after.push_back(id.get<std::string>());
      if (submission.after.back().find('/') != std::string::npos) return std::nullopt;
    }
    submission.archived = json->value("archived", false);
    return submission;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::vector<Launch> read_launches(base::FileSystem& files, const base::Path& run_directory) {
  std::vector<Launch> launches;
  for (const std::string& name : files.list(launches_path(run_directory))) {
    if (base::Path(name).extension() != ".json") continue;
    const auto json = read_json(files, launches_path(run_directory) / name);
    if (!json) continue;
    try {
      Launch launch;
      launch.number = json->value("number", 0);
      launch.token = json->value("token", "");
      launch.handle = json->value("handle", "");
      launch.attempts_before = json->value("attempts_before", 0);
      launch.started_utc = json->value("started_utc", 0.0);
      launch.over = json->value("over", false);
      launch.exit_code = optional_int(*json, "exit_code");
      launch.signal = optional_int(*json, "signal");
      launch.replaced = json->value("replaced", false);
      if (json->contains("ended_utc")) launch.ended_utc = json->value("ended_utc", 0.0);
      if (json->contains("gpus")) launch.gpus = json->value("gpus", std::int64_t{0});
      launch.cause = json->value("cause", "");
      launch.words = json->value("words", "");
      launch.action = json->value("action", "");
      launch.nodes = json->value("nodes", "");
      if (launch.number > 0) launches.push_back(launch);
    } catch (const Json::exception&) {
      continue;
    }
  }
  std::sort(launches.begin(), launches.end(),
            [](const Launch& a, const Launch& b) { return a.number < b.number; });
  return launches;
}

base::Path launch_log_path(const base::Path& run_directory, int launch) {
  return launches_path(run_directory) / (std::to_string(launch) + ".log");
}

std::vector<base::Path> launch_logs(base::FileSystem& files, const base::Path& run_directory,
                                    const std::vector<Launch>& launches) {
  const base::Path submit = run_directory / "submit";
  const std::vector<std::string> names = files.list(submit);
  std::vector<base::Path> logs;
  for (const Launch& launch : launches) {
    const base::Path own = launch_log_path(run_directory, launch.number);
    if (files.exists(own)) logs.push_back(own);
    // By job, then by restart; a successor has the same token and a later job.
    std::map<std::pair<std::int64_t, std::int64_t>, base::Path> of_jobs;
    std::map<std::int64_t, base::Path> scripts;
    for (const std::string& name : names) {
      if (launch.token.empty() || name.rfind(launch.token + "-", 0) != 0) continue;
      const base::Path file(name);
      const std::vector<std::string> parts = base::split(file.stem().string(), '-');
      if (parts.size() < 2) continue;
      const auto job = base::parse_integer(parts[1]);
      if (job && parts.size() == 3 && file.extension() == ".log") {
        of_jobs[{*job, base::parse_integer(parts[2]).value_or(0)}] = submit / name;
      } else if (job && parts.size() == 2 && file.extension() == ".out") {
        scripts[*job] = submit / name;
      }
    }
    for (const auto& [job, path] : scripts) {
      const auto ranks = of_jobs.lower_bound({job, 0});
      if (ranks == of_jobs.end() || ranks->first.first != job) of_jobs[{job, 0}] = path;
    }
    for (const auto& [key, path] : of_jobs) logs.push_back(path);
  }
  return logs;
}

std::string last_log_line(base::FileSystem& files, const base::Path& log) {
  std::string text;
  try {
    text = base::read_tail(files, log, kMaxRecord);
  } catch (const base::Error&) {
    return {};
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
  const std::size_t start = text.find_last_of("\n\r");
  return text.substr(start == std::string::npos ? 0 : start + 1).substr(0, kLongestLine);
}

}  // namespace regatta::orchestrator::runs
