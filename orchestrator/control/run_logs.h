// The logs of a run: which there are, one of them by its name, and a part of it. All of it touches
// files of the run directory only, so that it can be done where waiting is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::control {

// process: launches/N.log, of a launch that is a process. Of a job's start: ranks is what its ranks
// and srun wrote, stacks those of ranks that stood still; script is what the job's batch script
// wrote. attempt: a file below attempts/…/logs/; hang: attempts/…/hang.json.
enum class LogKind { Process, Ranks, Script, Stacks, Attempt, Hang };
[[nodiscard]] const char* name_of(LogKind kind);
[[nodiscard]] const std::vector<std::string>& log_kind_names();

struct RunLog {
  std::string name;  // its path below the run directory
  LogKind kind = LogKind::Process;
  std::optional<std::int64_t> launch{}, attempt{}, job{}, restart{},
      rank{};  // those that are known
  std::uint64_t bytes = 0;
  std::optional<double> modified_utc{};
};

inline constexpr std::size_t kMostListedLogs = 1000;
struct RunLogs {
  std::vector<RunLog> logs;
  bool more = false;  // older ones were left out
};

// In this order: of each launch its process, or of each start of its jobs script, ranks and stacks;
// then of each attempt its own files. What is no regular file, and what has an unprintable name, is
// none. The newest kMostListedLogs. Code::NotFound where the run directory was removed, as of
// find_log() (run_presence.h).
[[nodiscard]] RunLogs list_logs(base::FileSystem& files, const base::Path& run_directory,
                                const std::vector<runs::Launch>& launches);

// Which log is meant.
struct LogChoice {
  std::optional<std::string> file;  // its name in the list; alone
  std::optional<std::int64_t> attempt, rank;

  [[nodiscard]] bool is_newest() const { return !file && !attempt && !rank; }
};

// The one that fits the choice; of several the newest, and for an attempt without a log of its own
// that of its launch. Neither bytes nor modified_utc is set. Code::NotFound, naming the address of
// the list, where there is none: a name leads only to what list_logs() may name. With is_newest()
// nothing where a run has no log yet.
[[nodiscard]] std::optional<RunLog> find_log(base::FileSystem& files,
                                             const base::Path& run_directory,
                                             const std::vector<runs::Launch>& launches,
                                             const LogChoice& choice);

struct LogRange {
  std::uint64_t offset = 0;
  std::uint64_t limit = 0;           // bytes, at least 4: a character
  std::optional<std::int64_t> tail;  // instead of the offset: the last so many lines
};
// Bytes of a log as they are, but for a character that the range's end cuts, which is left for the
// next one. Where the last lines have more bytes than the limit, the last so many bytes of them.
struct LogPart {
  std::string text;
  std::uint64_t offset = 0;                           // of its first byte
  std::uint64_t size = 0;                             // of the log, then
  bool begins_in_line = false, ends_in_line = false;  // a line is torn there
};
[[nodiscard]] LogPart read_log(base::FileSystem& files, const base::Path& log,
                               const LogRange& range);

}  // namespace regatta::orchestrator::control
