// The controller's SQLite store: one writing connection (the tick and, briefly, submissions) and
// one reading connection for the handlers. Everything in it can be read again from the run
// directories.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/unique_fd.h"
#include "orchestrator/database.h"
#include "orchestrator/run.h"
#include "orchestrator/slurm/node_suspicion.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator {

// Rows of a run's series, in the order in which the store got them. `seconds` count from the start
// of the row's attempt; `cursor` grows over all series.
struct StepRow {
  std::int64_t cursor = 0;
  AttemptNumber attempt{};
  std::int64_t step = 0;
  double seconds = 0;
  double loss = 0, mlm_loss = 0;
  std::int64_t samples = 0, tokens = 0;
  double step_seconds = 0;
  // Absent where the journal does not say, and the first three with one rank.
  std::optional<double> exposed_seconds, imbalance, moved_bytes;
  std::optional<double> goodput, noise_scale, efficiency, mfu, utilisation;
};
struct EvaluationRow {
  std::int64_t cursor = 0;
  AttemptNumber attempt{};
  std::int64_t step = 0;
  double seconds = 0;
  double mlm_accuracy = 0, mlm_loss = 0;
  bool target_met = false;
};
struct CheckpointRow {
  std::int64_t cursor = 0;
  AttemptNumber attempt{};
  std::int64_t step = 0;
  double seconds = 0;
  std::string name, status;
  std::int64_t bytes = 0;
  double whole_seconds = 0;  // from the step's end until it was whole, or failed
  double utc = 0;
  // Absent where the journal does not say.
  std::optional<double> stall_seconds, copy_seconds, write_seconds, sync_seconds;
  std::string message;
};
// How many checkpoints of a run failed, and the newest of them.
struct CheckpointFailures {
  int count = 0;
  std::int64_t step = 0;
  std::string message;
};
struct WarningRow {
  double utc = 0;
  std::string message;
};

// The buckets of an attempt's newest step that had some, in the order of reduction.
struct Timeline {
  std::int64_t step = 0;
  double step_seconds = 0;
  double data_seconds = 0, forward_seconds = 0, backward_seconds = 0, reduce_seconds = 0;
  double optimizer_seconds = 0, exposed_seconds = 0;
  std::vector<double> bucket_bytes;        // as many as the journal named
  std::vector<double> launched, finished;  // seconds since the step's begin; as many of each
};

struct NewRun {
  std::string id;
  std::string name;
  std::string config;
  std::string directory;
  double created_utc = 0;
  std::int64_t steps = 0;
  Wanted wanted = Wanted::Run;
  std::optional<std::string> idempotency_key;
  std::string body_digest;
};

struct RunFilter {
  int limit = 100;
  std::optional<RunState> state;
};

// Thread-safe. Errors are base::Error.
class Store {
 public:
  // Creates `directory` (0700) and the file in it when absent. Code::Operator on a network file
  // system, for a store of a newer version, and when another controller holds it.
  explicit Store(const base::Path& directory);

  // Runs.
  RunNumber add_run(const NewRun& run);
  [[nodiscard]] std::optional<Run> run(const std::string& id);
  [[nodiscard]] std::optional<Run> run(RunNumber number);
  [[nodiscard]] std::vector<Run> runs(const RunFilter& filter);  // newest first
  [[nodiscard]] std::vector<Run> runs_named(const std::string& name);
  [[nodiscard]] std::vector<std::string> ids_and_names(int limit);
  // Oldest first: not over, or over with journals not read to the end.
  [[nodiscard]] std::vector<Run> unfinished_runs();
  struct Submitted {
    std::string id;
    std::string body_digest;
  };
  [[nodiscard]] std::optional<Submitted> submitted_with(const std::string& idempotency_key);
  // All of the run but what add_run() and set_wanted() own.
  void update_run(const Run& run);
  void set_wanted(RunNumber run, Wanted wanted);

  // Launches, by number.
  [[nodiscard]] std::vector<Launch> launches(RunNumber run);
  void put_launch(RunNumber run, const Launch& launch);

  // Attempts, by number and execution.
  [[nodiscard]] std::vector<Attempt> attempts(RunNumber run);
  AttemptNumber add_attempt(RunNumber run, int number, const std::string& execution);
  // What the end of an attempt or a launch says of nodes. The attempt is judged with it, all or
  // nothing; without one the events alone are kept.
  void judge(const std::optional<AttemptNumber>& attempt, const std::vector<NodeEvent>& events);
  // The newest, oldest first.
  [[nodiscard]] std::vector<NodeEvent> node_events();
  // Writes the records of one read, and the attempt and the run as they are after them, all or
  // nothing. Records that the store already has are ignored.
  void append(const Run& run, const Attempt& attempt,
              const std::vector<trainer::JournalRecord>& records);

  // Series.
  [[nodiscard]] std::int64_t newest_cursor(RunNumber run);
  // At most `limit` rows after `cursor`, thinned evenly by step, always with the newest.
  [[nodiscard]] std::vector<StepRow> steps(RunNumber run, std::int64_t cursor, int limit);
  [[nodiscard]] std::vector<StepRow> newest_steps(RunNumber run, int limit);
  [[nodiscard]] std::vector<EvaluationRow> evaluations(RunNumber run, std::int64_t cursor);
  [[nodiscard]] std::vector<CheckpointRow> checkpoints(RunNumber run, std::int64_t cursor);
  [[nodiscard]] CheckpointFailures checkpoint_failures(RunNumber run);
  [[nodiscard]] std::vector<WarningRow> newest_warnings(RunNumber run, int limit);
  [[nodiscard]] std::optional<Timeline> timeline(AttemptNumber attempt);

 private:
  void migrate();
  void write_run(const Run& run);
  void write_attempt(const Attempt& attempt);
  void write_step(const Run& run, const Attempt& attempt, const trainer::JournalRecord& record);
  void write_checkpoint(const Run& run, const Attempt& attempt,
                        const trainer::JournalRecord& record);
  void write_timeline(AttemptNumber attempt, const std::vector<trainer::JournalRecord>& records);
  [[nodiscard]] Statement& prepared(std::unique_ptr<Statement>& slot, const char* sql);

  base::UniqueFd lock_;
  std::mutex write_mutex_;
  std::unique_ptr<Database> writer_;
  std::int64_t next_cursor_ = 1;
  std::unique_ptr<Statement> insert_step_, insert_evaluation_, insert_checkpoint_, insert_warning_;
  std::mutex read_mutex_;
  std::unique_ptr<Database> reader_;
};

// Takes the lock file `path` for the life of the descriptor; Code::Operator naming `what` when
// another process has it.
[[nodiscard]] base::UniqueFd take_lock(const base::Path& path, const std::string& what);

}  // namespace regatta::orchestrator
