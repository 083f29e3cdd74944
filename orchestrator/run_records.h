// What the controller itself keeps in a run directory, so that its store can be lost:
// submission.json and launches/<n>.json (formats: README.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/run.h"

namespace regatta::orchestrator {

struct Submission {
  std::string id;
  double created_utc = 0;
  Wanted wanted = Wanted::Run;
  std::optional<std::string> idempotency_key;
  std::string body_digest;
};

inline constexpr const char* kSubmissionName = "submission.json";
[[nodiscard]] std::string submission_text(const Submission& submission);
// Both replace the file atomically. Throw base::Error.
void write_submission(base::FileSystem& files, const base::Path& run_directory,
                      const Submission& submission);
void write_launch(base::FileSystem& files, const base::Path& run_directory, const Launch& launch);

// Nothing when absent or damaged.
[[nodiscard]] std::optional<Submission> read_submission(base::FileSystem& files,
                                                        const base::Path& run_directory);
// In order of number; damaged files are left out.
[[nodiscard]] std::vector<Launch> read_launches(base::FileSystem& files,
                                                const base::Path& run_directory);

// launches/<n>.log: stdout and stderr of a launch that is a process.
[[nodiscard]] base::Path launch_log_path(const base::Path& run_directory, int launch);
// What the launches have written for people, oldest first: launches/<n>.log, and of jobs
// submit/<token>-<job>-<restart>.log (the ranks) and submit/<token>-<job>.out (the script), where
// the ranks were never started.
[[nodiscard]] std::vector<base::Path> launch_logs(base::FileSystem& files,
                                                  const base::Path& run_directory,
                                                  const std::vector<Launch>& launches);
// The last line of the log that is not empty, at most 500 characters.
[[nodiscard]] std::string last_log_line(base::FileSystem& files, const base::Path& log);

}  // namespace regatta::orchestrator
