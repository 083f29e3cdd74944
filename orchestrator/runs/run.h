// What the controller knows about runs: plain data, as the store keeps it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::runs {

enum class RunState { Queued, Starting, Running, Stopping, Succeeded, Stopped, Failed, Cancelled };

// "queued", "starting", …: the word in the API, in the store and on the page.
[[nodiscard]] const char* name_of(RunState state);
[[nodiscard]] std::optional<RunState> parse_run_state(std::string_view name);
[[nodiscard]] std::vector<std::string> run_state_names();
[[nodiscard]] inline bool is_over(RunState state) { return state >= RunState::Succeeded; }

// What the user wants. Observe: the run was started by hand; the controller shows it and starts
// nothing. Resume: the run is over and is to go on; it becomes Run when the controller takes it up.
// Requeue: what is under way is to end, and another launch to follow; Run once it has ended.
enum class Wanted { Run, Cancel, Observe, Resume, Requeue };

// The row number of a run in the store; its name outside is Run::id.
enum class RunNumber : std::int64_t {};
// The row number of an attempt.
enum class AttemptNumber : std::int64_t {};
[[nodiscard]] constexpr std::int64_t row_of(RunNumber number) {
  return static_cast<std::int64_t>(number);
}
[[nodiscard]] constexpr std::int64_t row_of(AttemptNumber number) {
  return static_cast<std::int64_t>(number);
}

// What the journals have said so far; refreshed after every read.
struct RunSummary {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  // Of a run whose batch grows: how many steps of its first batch its own are worth, which is what
  // `steps` counts; else nothing. And what a step has now; 0: not known.
  std::optional<double> progress;
  std::int64_t batch_size = 0;
  std::string metric = "mlm_accuracy";
  std::optional<double> value;
  std::optional<double> target;  // empty: none, or it is not known before training begins
  std::optional<double> target_times_baseline;  // as the run file asks for it, if it does
  std::optional<double> baseline;
  std::optional<double> started_utc;  // of the first step of the first attempt
  std::optional<double> time_to_accuracy_seconds;
  double training_seconds = 0;
  std::optional<double> samples_per_second;
  std::optional<double> tokens_per_second;
  std::optional<double> loss;
  // Means over the newest steps, and the newest estimates; what the journal does not say is absent.
  std::optional<double> mfu, utilisation, exposed_share, imbalance, moved_bytes, goodput;
  std::optional<double> noise_scale, noise_scale_low, noise_scale_high, efficiency;
  std::string phase;
  std::int64_t checkpoint_step = -1;  // of the newest written; -1: none
  std::string checkpoint;             // its name
  // Where the curve will cross the target, seconds since the first step; all three or none.
  std::optional<double> crossing, crossing_low, crossing_high;
  std::string crossing_model;  // which says so (crossing.h)
  double axis_seconds = 0;     // of the newest record, on the axis of time to accuracy
  double last_record_utc = 0;  // 0: no record yet

  bool operator==(const RunSummary&) const = default;
};
// How far it is, in the steps that its run file counts.
[[nodiscard]] inline double steps_done(const RunSummary& summary) {
  return summary.progress.value_or(static_cast<double>(summary.step));
}

// Beside Run::reason, what is known of a wait. Empty: not known.
struct Wait {
  std::string category, action, clears;
  std::optional<double> expected_start_utc;  // by the scheduler
  std::optional<double> next_start_utc;      // by the controller, before it starts another attempt

  bool operator==(const Wait&) const = default;
};

struct Run {
  RunNumber number{};
  std::string id;
  std::string name;
  std::string config;  // canonical JSON
  std::string kind;    // equal for runs of one model, data, batch size and metric; empty: not known
  std::string directory;
  double created_utc = 0;
  // When a controller found it in the runs directory; empty: it was submitted to this one.
  std::optional<double> found_utc;
  Wanted wanted = Wanted::Run;
  std::string scheduler;           // that it belongs to, "local" or "slurm"; empty: to none
  std::vector<std::string> after;  // ids of the runs that must have succeeded before it starts
  bool archived = false;
  std::string owner;              // who submitted it ("uid 1000", "token"); empty: not known
  std::vector<std::string> tags;  // in their order, each once
  std::string note;               // for people; may have several lines
  // When its run file was changed last; empty: it is as it was submitted.
  std::optional<double> changed_utc;
  std::string forked_from;        // the id of the run that it continues; empty: of none
  std::string forked_checkpoint;  // its checkpoint that this one began with
  RunState state = RunState::Queued;
  std::string reason;  // why it waits, for people; may be empty
  Wait wait;
  std::string error;  // why it failed
  std::optional<double> ended_utc;
  int failures = 0;                 // attempts that ended early since the last progress
  std::int64_t progress_step = -1;  // newest checkpoint when the last of them ended
  bool drained = false;             // over, and its journals are read to the end
  bool settled = false;             // over, and its end is written down in its directory
  RunSummary summary;

  bool operator==(const Run&) const = default;
};

// One start of a process or job by the controller (or a process found running). A job may make
// several attempts.
struct Launch {
  int number = 0;  // 1, 2, … within the run
  std::string token;
  std::string handle;       // the scheduler's; empty until the process is known
  int attempts_before = 0;  // the highest attempt number that existed
  double started_utc = 0;
  bool over = false;
  // The controller ends it in order to start another in its place.
  bool replaced = false;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<double> ended_utc;
  std::string cause;   // name_of(Cause)
  std::string words;   // how it ended, for people
  std::string action;  // what to do about it; may be empty
  std::string nodes;   // that it has or had last, as a hostlist
  std::optional<std::int64_t> gpus;
  // Minutes that its job was started with, or that the scheduler was told last; 0: its own choice.
  // Absent: not known.
  std::optional<std::int64_t> time_limit;

  bool operator==(const Launch&) const = default;
};

// The rank that was furthest behind, at the attempt's newest heartbeat.
struct SlowestRank {
  int rank = 0;
  std::int64_t step = 0;
  std::string phase;
  double phase_seconds = 0;
  double utc = 0;  // of the heartbeat

  bool operator==(const SlowestRank&) const = default;
};

// One attempt, as its journal tells it.
struct Attempt {
  AttemptNumber row{};
  int number = 0;
  std::string execution;
  std::int64_t offset = 0;  // bytes of its journal that the store holds
  std::int64_t damaged = 0;
  bool started = false;                    // a record was read; its start record may be to come
  double start_utc = 0;                    // of the origin of its clock
  std::optional<double> first_step_begin;  // seconds since its start
  double last_seconds = 0;
  std::int64_t process = 0;
  std::string host;
  std::vector<std::string> hosts;  // one a node, where the journal says
  std::int64_t first_step = 0;
  int batch_size = 0;                // of a batch that grows, the first
  std::vector<std::string> batches;  // and all of them (batch_of_attempt.h)
  int ranks = 1;
  int ranks_per_node = 1;
  std::string device;     // empty: not known
  double peak_flops = 0;  // per second, all ranks; 0: not known
  std::optional<SlowestRank> slowest;
  double training_seconds = 0;
  std::optional<int> exit_code;  // from its end record
  std::string reason;
  std::string message;
  bool judged = false;  // what its end says of its nodes is written down

  bool operator==(const Attempt&) const = default;
};

}  // namespace regatta::orchestrator::runs
