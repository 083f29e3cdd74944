// What the controller itself keeps in a run directory, so that its store can be lost:
// submission.json, state.json and launches/<n>.json (docs/formats/controller.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::runs {

struct SubmissionRecord {
  std::string id;
  double created_utc = 0;
  Wanted wanted = Wanted::Run;
  std::optional<std::string> idempotency_key;
  std::string body_digest;
  std::string scheduler{};  // as Run's; empty where an older controller wrote it
  std::vector<std::string> after{};
  bool archived = false;
  std::string owner{};  // these, too, as Run's
  std::vector<std::string> tags{};
  std::string note{};
  std::optional<double> changed_utc{};
  std::string forked_from{}, forked_checkpoint{};

  bool operator==(const SubmissionRecord&) const = default;
};

// What became of the run, as of its newest launch that is over, or of its end.
struct RecordedState {
  RunState state = RunState::Queued;
  std::string error;
  std::optional<double> ended_utc;
  int failures = 0;
  std::int64_t progress_step = -1;
  int launch = 0;                       // the newest one that was over then; 0: none
  std::optional<double> changed_utc{};  // of the run file that this is the state of

  bool operator==(const RecordedState&) const = default;
};

inline constexpr const char* kSubmissionName = "submission.json";
// Of the run as it is, with neither key nor digest.
[[nodiscard]] SubmissionRecord submission_of(const Run& run);
[[nodiscard]] std::string submission_text(const SubmissionRecord& submission);
// These replace the file atomically. Throw base::Error.
void write_submission(base::FileSystem& files, const base::Path& run_directory,
                      const SubmissionRecord& submission);
void write_launch(base::FileSystem& files, const base::Path& run_directory, const Launch& launch);

void write_state(base::FileSystem& files, const base::Path& run_directory,
                 const RecordedState& state);

// Nothing when absent, damaged or no regular file; these throw where the disk cannot be read.
// fault: gets "state.json is damaged: …" where a file is there and damaged, unless it holds one.
[[nodiscard]] std::optional<RecordedState> read_state(base::FileSystem& files,
                                                      const base::Path& run_directory,
                                                      std::string* fault = nullptr);
[[nodiscard]] std::optional<SubmissionRecord> read_submission(base::FileSystem& files,
                                                              const base::Path& run_directory,
                                                              std::string* fault = nullptr);
// In order of number; damaged files are left out.
[[nodiscard]] std::vector<Launch> read_launches(base::FileSystem& files,
                                                const base::Path& run_directory,
                                                std::string* fault = nullptr);

// Whether a file of this name is what one of these left when the controller was killed.
[[nodiscard]] bool is_temporary_record(const std::string& name);

// launches/<n>.log: stdout and stderr of a launch that is a process.
[[nodiscard]] base::Path launch_log_path(const base::Path& run_directory, int launch);
// What the launches have written for people, oldest first: launches/<n>.log, and of jobs
// submit/<token>-<job>-<restart>.log (the ranks) and submit/<token>-<job>.out (the script), where
// the ranks were never started.
[[nodiscard]] std::vector<base::Path> launch_logs(base::FileSystem& files,
                                                  const base::Path& run_directory,
                                                  const std::vector<Launch>& launches);
// The last line by which a trainer told an error, which a launcher's frame of dashes may follow;
// else the last one that says something. At most 500 characters.
[[nodiscard]] std::string last_log_line(base::FileSystem& files, const base::Path& log);

}  // namespace regatta::orchestrator::runs
