#include "orchestrator/control/run_logs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>

#include "base/descriptor_file_system.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/runs/run_presence.h"
#include "orchestrator/runs/run_records.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {
namespace {

constexpr std::array<std::pair<LogKind, const char*>, 6> kKinds{{{LogKind::Process, "process"},
                                                                 {LogKind::Ranks, "ranks"},
                                                                 {LogKind::Script, "script"},
                                                                 {LogKind::Stacks, "stacks"},
                                                                 {LogKind::Attempt, "attempt"},
                                                                 {LogKind::Hang, "hang"}}};

// "<token>-<job>.out" and "<token>-<job>-<restart>.log" or ".stacks", of one launch.
std::optional<RunLog> job_log(const std::string& name, const std::string& token) {
  if (token.empty() || name.rfind(token + "-", 0) != 0) return std::nullopt;
  const base::Path file(name);
  const std::vector<std::string> parts = base::split(file.stem().string(), '-');
  if (parts.size() < 2) return std::nullopt;
  RunLog log{"submit/" + name};
  log.job = base::parse_integer(parts[1]);
  if (!log.job) return std::nullopt;
  if (parts.size() == 2 && file.extension() == ".out") {
    log.kind = LogKind::Script;
    return log;
  }
  if (parts.size() != 3) return std::nullopt;
  log.restart = base::parse_integer(parts[2]);
  if (!log.restart) return std::nullopt;
  if (file.extension() == ".log") {
    log.kind = LogKind::Ranks;
  } else if (file.extension() == ".stacks") {
    log.kind = LogKind::Stacks;
  } else {
    return std::nullopt;
  }
  return log;
}

std::vector<RunLog> logs_of_launch(base::FileSystem& files, const base::Path& run_directory,
                                   const std::vector<std::string>& submit,
                                   const runs::Launch& launch) {
  std::vector<RunLog> logs;
  const base::Path own = runs::launch_log_path(run_directory, launch.number);
  if (files.exists(own)) {
    logs.push_back({own.lexically_relative(run_directory).string(), LogKind::Process});
  }
  for (const std::string& name : submit) {
    if (auto log = job_log(name, launch.token)) logs.push_back(std::move(*log));
  }
  const auto place = [](const RunLog& log) {
    const int kind = log.kind == LogKind::Script ? 0 : log.kind == LogKind::Ranks ? 1 : 2;
    return std::make_tuple(log.job.value_or(0), log.restart.value_or(0), kind);
  };
  std::sort(logs.begin(), logs.end(),
            [&](const RunLog& a, const RunLog& b) { return place(a) < place(b); });
  for (RunLog& log : logs) log.launch = launch.number;
  return logs;
}

// Its first number: rank-12.out, 12.err.
std::optional<std::int64_t> rank_in(const std::string& name) {
  const std::size_t begin = name.find_first_of("0123456789");
  if (begin == std::string::npos) return std::nullopt;
  const std::size_t end = name.find_first_not_of("0123456789", begin);
  return base::parse_integer(name.substr(begin, end - begin));
}

std::optional<std::int64_t> launch_of(std::int64_t attempt,
                                      const std::vector<runs::Launch>& launches) {
  std::optional<std::int64_t> found;
  for (const runs::Launch& launch : launches) {
    if (launch.attempts_before < attempt) found = launch.number;
  }
  return found;
}

// Its log and its attempts, where there are as many of both: which is whose is known then alone.
void name_attempts(const std::vector<std::int64_t>& attempts, std::vector<RunLog>* logs) {
  std::vector<RunLog*> of_starts;
  for (RunLog& log : *logs) {
    if (log.kind == LogKind::Process || log.kind == LogKind::Ranks) of_starts.push_back(&log);
  }
  if (of_starts.size() != attempts.size()) return;
  for (std::size_t i = 0; i < attempts.size(); ++i) of_starts[i]->attempt = attempts[i];
}

// All, without their sizes.
std::vector<RunLog> names_of_logs(base::FileSystem& files, const base::Path& run_directory,
                                  const std::vector<runs::Launch>& launches) {
  const std::vector<std::string> submit = files.list(run_directory / "submit");
  std::vector<trainer::contract::AttemptName> attempts;
  for (const std::string& name : files.list(run_directory / "attempts")) {
    if (auto attempt = trainer::contract::parse_attempt_name(name)) attempts.push_back(*attempt);
  }
  std::sort(attempts.begin(), attempts.end(), [](const auto& a, const auto& b) {
    return std::tie(a.number, a.execution) < std::tie(b.number, b.execution);
  });
  std::vector<RunLog> all;
  for (const runs::Launch& launch : launches) {
    std::vector<RunLog> logs = logs_of_launch(files, run_directory, submit, launch);
    std::vector<std::int64_t> begun;
    for (const auto& attempt : attempts) {
      if (launch_of(attempt.number, launches) == launch.number) begun.push_back(attempt.number);
    }
    name_attempts(begun, &logs);
    all.insert(all.end(), logs.begin(), logs.end());
  }
  for (const auto& attempt : attempts) {
    const base::Path folder = base::Path("attempts") / attempt.text();
    const auto add = [&](const base::Path& path, LogKind kind) {
      RunLog log{path.string(), kind, launch_of(attempt.number, launches), attempt.number};
      if (kind == LogKind::Attempt) log.rank = rank_in(path.filename().string());
      all.push_back(std::move(log));
    };
    for (const std::string& name : files.list(run_directory / folder / "logs")) {
      if (base::printable(name) == name) add(folder / "logs" / name, LogKind::Attempt);
    }
    if (files.exists(run_directory / folder / "hang.json")) {
      add(folder / "hang.json", LogKind::Hang);
    }
  }
  return all;
}

// Sets what the file itself says; false where it is gone, or is no regular file.
bool look_at(base::FileSystem& files, const base::Path& path, RunLog* log) {
  try {
    (void)files.read_at(path, 0, 1);
    log->bytes = files.size(path);
    log->modified_utc = base::modified_utc(files, path);
    return true;
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound || error.code() == base::Code::Operator ||
        error.code() == base::Code::Conflict) {
      return false;
    }
    throw;
  }
}

bool fits(const RunLog& log, const LogChoice& choice) {
  if (choice.file) return log.name == *choice.file;
  if (log.kind == LogKind::Hang || log.kind == LogKind::Stacks) return false;
  return (!choice.attempt || log.attempt == choice.attempt) &&
         (!choice.rank || log.rank == choice.rank);
}

std::string words_of(const LogChoice& choice) {
  if (choice.file) return "no log " + base::printable(choice.file->substr(0, 200));
  std::string words = "no log";
  if (choice.attempt) words += " of attempt " + std::to_string(*choice.attempt);
  if (choice.rank) words += " of rank " + std::to_string(*choice.rank) + " alone";
  return words;
}

bool is_continuation(char character) {
  return (static_cast<unsigned char>(character) & 0xC0U) == 0x80;
}

// Whole UTF-8 sequences only, so that a character cut by the limit comes with the next call. Bytes
// that are not UTF-8 at all are passed on (and replaced in the JSON).
std::size_t whole_characters(const std::string& text) {
  std::size_t end = text.size();
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte >= 0xC0) {
      const std::size_t wanted = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      if (wanted > back) end = text.size() - back;
      break;
    }
  }
  return end;
}

// Where the last so many lines of the text begin; nothing where it has fewer line breaks.
std::optional<std::size_t> begin_of_last(const std::string& text, std::int64_t lines) {
  if (text.empty()) return std::nullopt;
  std::size_t at = text.size();
  if (text.back() == '\n') --at;  // which ends the last line
  for (; lines > 0; --lines) {
    if (at == 0) return std::nullopt;
    const std::size_t found = text.rfind('\n', at - 1);
    if (found == std::string::npos) return std::nullopt;
    at = found;
  }
  return at + 1;
}

}  // namespace

const char* name_of(LogKind kind) {
  for (const auto& each : kKinds) {
    if (each.first == kind) return each.second;
  }
  return "";
}

const std::vector<std::string>& log_kind_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& each : kKinds) all.emplace_back(each.second);
    return all;
  }();
  return names;
}

RunLogs list_logs(base::FileSystem& files, const base::Path& run_directory,
                  const std::vector<runs::Launch>& launches) {
  runs::refuse_gone(files, run_directory);
  std::vector<RunLog> names = names_of_logs(files, run_directory, launches);
  RunLogs listed;
  if (names.size() > kMostListedLogs) {
    listed.more = true;
    names.erase(names.begin(), names.end() - kMostListedLogs);
  }
  for (RunLog& log : names) {
    if (look_at(files, run_directory / log.name, &log)) listed.logs.push_back(std::move(log));
  }
  return listed;
}

std::optional<RunLog> find_log(base::FileSystem& files, const base::Path& run_directory,
                               const std::vector<runs::Launch>& launches, const LogChoice& choice) {
  runs::refuse_gone(files, run_directory);
  if (choice.is_newest()) {
    const std::vector<base::Path> logs = runs::launch_logs(files, run_directory, launches);
    if (logs.empty()) return std::nullopt;
    return RunLog{logs.back().lexically_relative(run_directory).string()};
  }
  const std::vector<RunLog> all = names_of_logs(files, run_directory, launches);
  const RunLog* found = nullptr;
  for (const RunLog& log : all) {
    if (fits(log, choice)) found = &log;
  }
  if (found == nullptr && choice.attempt && !choice.rank) {
    const auto launch = launch_of(*choice.attempt, launches);
    for (const RunLog& log : all) {
      const bool of_all = log.kind == LogKind::Process || log.kind == LogKind::Ranks;
      const bool begun = std::any_of(all.begin(), all.end(), [&](const RunLog& each) {
        return each.attempt && *each.attempt >= *choice.attempt;
      });
      if (of_all && log.launch == launch && (begun || !log.attempt)) found = &log;
    }
  }
  if (found == nullptr) {
    throw base::Error(
        base::Code::NotFound,
        words_of(choice) + "; `" +
            base::shown_command("regatta logs --list", run_directory.filename().string()) +
            "` names all that there are");
  }
  return *found;
}

LogPart read_log(base::FileSystem& files, const base::Path& log, const LogRange& range) {
  LogPart part;
  part.size = files.size(log);
  part.offset = range.offset;
  if (range.tail) part.offset = part.size > range.limit ? part.size - range.limit : 0;
  const std::uint64_t before = part.offset > 0 ? 1 : 0;  // a byte, which may end a line
  part.text = files.read_at(log, part.offset - before, range.limit + before);
  if (before > 0 && !part.text.empty()) {
    part.begins_in_line = part.text.front() != '\n';
    part.text.erase(0, 1);
  }
  if (range.tail) {
    std::size_t begin = begin_of_last(part.text, *range.tail).value_or(0);
    if (begin > 0) {
      part.begins_in_line = false;
    } else if (part.begins_in_line) {
      while (begin < 3 && begin < part.text.size() && is_continuation(part.text[begin])) ++begin;
    }
    part.text.erase(0, begin);
    part.offset += begin;
  }
  part.text.resize(whole_characters(part.text));
  part.ends_in_line = !part.text.empty() && part.text.back() != '\n';
  if (part.text.empty()) part.begins_in_line = false;
  return part;
}

}  // namespace regatta::orchestrator::control
