#include "orchestrator/runs/run_records.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/runs/record_json.h"

namespace regatta::orchestrator::runs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxRecord = 65536;
constexpr std::size_t kLongestLine = 500;
constexpr std::size_t kLongestValue = 80;
constexpr const char* kStateName = "state.json";

base::Path launches_path(const base::Path& run_directory) { return run_directory / "launches"; }

// Nothing when absent or damaged. name: of the file below its run directory.
template <typename Record>
std::optional<Record> read_record(base::FileSystem& files, const base::Path& run_directory,
                                  const std::string& name, std::string* fault) {
  const auto damaged = [&](const std::string& what) -> std::optional<Record> {
    if (fault != nullptr && fault->empty()) *fault = base::printable(name) + " is damaged: " + what;
    return std::nullopt;
  };
  Json json;
  try {
    json = base::parse_json<Json>(files.read(run_directory / name, kMaxRecord));
  } catch (const base::Error& error) {
    // A disk that fails says nothing of what is there.
    if (error.code() == base::Code::Operator || error.code() == base::Code::Retry) throw;
    return std::nullopt;
  }
  if (!json.is_object()) return damaged("it holds no JSON object");
  std::string field;
  if (auto record = read_fields<Record>(json, &field)) return record;
  const std::string value = base::ascii_json_text(json.value(field, Json()));
  return damaged("its " + field + " is " + value.substr(0, kLongestValue));
}

template <typename Record>
std::string text_of(const Record& record) {
  Json json;
  write_fields(record, &json);
  return base::json_text(json, 2) + "\n";
}

}  // namespace

SubmissionRecord submission_of(const Run& run) {
  SubmissionRecord submission;
  submission.id = run.id;
  submission.created_utc = run.created_utc;
  submission.wanted = run.wanted;
  submission.scheduler = run.scheduler;
  submission.after = run.after;
  submission.archived = run.archived;
  submission.owner = run.owner;
  submission.tags = run.tags;
  submission.note = run.note;
  submission.changed_utc = run.changed_utc;
  submission.forked_from = run.forked_from;
  submission.forked_checkpoint = run.forked_checkpoint;
  return submission;
}

std::string submission_text(const SubmissionRecord& submission) { return text_of(submission); }

void write_submission(base::FileSystem& files, const base::Path& run_directory,
                      const SubmissionRecord& submission) {
  base::replace_file(files, run_directory / kSubmissionName, submission_text(submission));
}

void write_state(base::FileSystem& files, const base::Path& run_directory,
                 const RecordedState& state) {
  base::replace_file(files, run_directory / kStateName, text_of(state));
}

std::optional<RecordedState> read_state(base::FileSystem& files, const base::Path& run_directory,
                                        std::string* fault) {
  return read_record<RecordedState>(files, run_directory, kStateName, fault);
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
  base::replace_file(files,
                     launches_path(run_directory) / (std::to_string(launch.number) + ".json"),
                     text_of(launch));
}

std::optional<SubmissionRecord> read_submission(base::FileSystem& files,
                                                const base::Path& run_directory,
                                                std::string* fault) {
  auto submission = read_record<SubmissionRecord>(files, run_directory, kSubmissionName, fault);
  if (!submission) return std::nullopt;
  for (const std::string& id : submission->after) {
    if (id.find('/') != std::string::npos) return std::nullopt;
  }
  return submission;
}

std::vector<Launch> read_launches(base::FileSystem& files, const base::Path& run_directory,
                                  std::string* fault) {
  std::vector<Launch> launches;
  for (const std::string& name : files.list(launches_path(run_directory))) {
    if (base::Path(name).extension() != ".json") continue;
    const auto launch = read_record<Launch>(files, run_directory, "launches/" + name, fault);
    if (launch && launch->number > 0) launches.push_back(*launch);
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
  std::replace(text.begin(), text.end(), '\r', '\n');
  const std::vector<std::string> lines = base::split(text, '\n');
  const auto told = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return line.starts_with("regatta-train: ");
  });
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return line.find_first_not_of(" \t-=*") != std::string::npos;
  });
  const auto line = told != lines.rend() ? told : last;
  return line == lines.rend() ? "" : std::string(base::trimmed(*line).substr(0, kLongestLine));
}

}  // namespace regatta::orchestrator::runs
