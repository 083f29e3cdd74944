// What is read of the store: runs, launches, attempts, series.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/node_bench.h"
#include "orchestrator/runs/reference.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/slurm/node_changes.h"
#include "orchestrator/slurm/node_suspicion.h"
#include "orchestrator/store/events.h"
#include "orchestrator/store/reader_pool.h"
#include "orchestrator/store/webhooks.h"

namespace regatta::orchestrator::store {

// Rows of a run's series, in the order in which the store got them. `seconds` count from the start
// of the row's attempt; `cursor` grows over all series.
struct StepRow {
  std::int64_t cursor = 0;
  runs::AttemptNumber attempt{};
  std::int64_t step = 0;
  double seconds = 0;
  double loss = 0, mlm_loss = 0;
  std::int64_t samples = 0, tokens = 0;
  double step_seconds = 0;
  // Absent where the journal does not say, and the first three with one rank.
  std::optional<double> exposed_seconds, imbalance, moved_bytes;
  std::optional<double> goodput, noise_scale, noise_scale_low, noise_scale_high, efficiency;
  std::optional<double> mfu, utilisation, learning_rate;
  std::optional<double> bubble, bubble_predicted;  // only with pipeline stages

  bool operator==(const StepRow&) const = default;
};
// Of the values of one series: those that a journal says, of which there may be none.
struct SeriesFigures {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double last = 0, sum = 0;
  std::int64_t count = 0;

  [[nodiscard]] static SeriesFigures of(double value);  // one that is not finite is none
  void add(const SeriesFigures& next);
  bool operator==(const SeriesFigures&) const = default;
};
// Step rows that follow each other in the journal of one attempt, each of a later step than the one
// before; or a single row.
struct StepBlock {
  int level = 0;  // seconds that its rows lie in (step_blocks.h); 0: a row
  std::int64_t sequence = 0, last_sequence = 0;
  std::int64_t cursor = 0;  // of the last row
  std::int64_t step = 0, last_step = 0, rows = 0;
  double seconds = 0, last_seconds = 0;  // since the start of the attempt
  std::vector<SeriesFigures> figures;    // of the series that were asked for, in their order

  bool operator==(const StepBlock&) const = default;
};
struct EvaluationRow {
  std::int64_t cursor = 0;
  runs::AttemptNumber attempt{};
  std::int64_t step = 0;
  double seconds = 0;
  // Not numbers where the journal does not say them: in no other task than pre-training.
  double mlm_accuracy = 0, mlm_loss = 0;
  bool target_met = false;
  double value = std::numeric_limits<double>::quiet_NaN();  // of what the run is judged by
  runs::Metrics metrics;                                    // what else the journal says

  bool operator==(const EvaluationRow&) const = default;
};
struct CheckpointRow {
  std::int64_t cursor = 0;
  runs::AttemptNumber attempt{};
  std::int64_t step = 0;
  double seconds = 0;
  std::string name, status;
  std::int64_t bytes = 0;
  double whole_seconds = 0;  // from the step's end until it was whole, or failed
  double utc = 0;
  // Absent where the journal does not say.
  std::optional<double> stall_seconds, copy_seconds, write_seconds, sync_seconds;
  std::string message;

  bool operator==(const CheckpointRow&) const = default;
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

  bool operator==(const WarningRow&) const = default;
};

// The buckets of an attempt's newest step that had some, in the order of reduction.
struct Timeline {
  std::int64_t step = 0;
  double step_seconds = 0;
  double data_seconds = 0, forward_seconds = 0, backward_seconds = 0, reduce_seconds = 0;
  double optimizer_seconds = 0, exposed_seconds = 0;
  std::vector<double> bucket_bytes;        // as many as the journal named
  std::vector<double> launched, finished;  // seconds since the step's begin; as many of each

  bool operator==(const Timeline&) const = default;
};

// What each rank did in the newest step that tells, in their order; as many of each.
struct RankShares {
  std::int64_t step = 0;
  std::vector<double> tokens, compute_seconds;  // of forward and backward

  bool operator==(const RankShares&) const = default;
};

enum class Archived { Hidden, Only, Also };
// What has not ended, and what has not reached its target, has the largest of all values.
enum class RunSort { Created, Ended, TimeToAccuracy, Name };
enum class SortOrder { Descending, Ascending };
// A place in a list of runs: that of one row of it. key: what it is sorted by, as a number or as a
// name.
struct ListPlace {
  std::variant<double, std::string> key;
  std::int64_t number = 0;

  bool operator==(const ListPlace&) const = default;
};
struct RunFilter {
  int limit = 100;
  std::vector<runs::RunState> states;  // one of these; empty: any
  Archived archived = Archived::Hidden;
  std::string name_prefix;
  std::vector<std::string> tags;  // all of these
  std::string owner, node;        // its own; one that it had; empty: any
  std::string text;  // in the id, the name or the error, whatever the case of its ASCII letters
  std::optional<double> since_utc, until_utc;  // created from the first on, and before the second
  RunSort sort = RunSort::Created;
  SortOrder order = SortOrder::Descending;
  std::optional<ListPlace> after;  // nothing: from the first one on
  bool with_total = false;
  bool with_parts = false;  // each row's launch and attempts
};
// A run in a list: without its configuration and its warnings.
struct RunRow {
  runs::Run run;
  int attempts = 0;
  // Where they were asked for.
  std::optional<runs::Launch> launch;    // the newest
  std::optional<runs::Attempt> attempt;  // the newest
  std::optional<runs::Attempt> begun;    // the newest that has begun

  // One of its attempts, in any order.
  void take(runs::Attempt each);
};
struct RunList {
  std::deque<RunRow> rows;            // which are large, and are not moved while the list grows
  std::optional<ListPlace> next;      // nothing: there are no more
  std::optional<std::int64_t> total;  // of all pages, where it was asked for
};
// A tag, and a run that has it: the first that the store got.
struct TagUse {
  std::string tag;
  double created_utc = 0;         // of that run
  std::vector<std::string> tags;  // all of that run's
};
// Of a run with a tag, what a list of such runs is made of.
struct TaggedRun {
  runs::RunNumber number{};
  std::string id, name;
  runs::RunState state = runs::RunState::Queued;
  double created_utc = 0;
  std::optional<double> started_utc, ended_utc;  // of its first step; of its end
  std::vector<std::string> tags;
};
struct BenchedNode {
  std::string node;
  std::string ids;  // of all its benches, which a change of them changes

  bool operator==(const BenchedNode&) const = default;
};
struct OpenLaunch {
  std::string run;  // its id
  runs::Launch launch;
};

// Thread-safe as Store and Snapshot say. Errors are base::Error. Every query goes by an index, in
// its order: what it costs does not depend on how many runs there are. (But for a search of text
// and a total that is not known yet, which look at all that the rest of the filter leaves.)
class StoreReads {
 public:
  // Runs.
  [[nodiscard]] std::optional<runs::Run> run(const std::string& id);
  [[nodiscard]] std::optional<runs::Run> run(runs::RunNumber number);
  [[nodiscard]] RunList list(const RunFilter& filter);
  [[nodiscard]] std::vector<runs::Run> runs_named(const std::string& name);  // the newest three
  // Ids and names that may be meant by `name`: the newest, and its neighbours in their order.
  [[nodiscard]] std::vector<std::string> ids_and_names_near(const std::string& name);
  // Ids that begin so, in their order.
  [[nodiscard]] std::vector<std::string> ids_with_prefix(const std::string& prefix, int limit);
  // Tags that begin so, in their order: a step for each, however many runs have it.
  [[nodiscard]] std::vector<TagUse> tags_with_prefix(const std::string& prefix);
  // Archived ones, too: the first that the store got, at most `limit`.
  [[nodiscard]] std::vector<TaggedRun> runs_tagged(const std::string& tag, int limit);
  // Oldest first: not over, or over with journals not read to the end.
  [[nodiscard]] std::vector<runs::Run> unfinished_runs();
  // Ids of runs that have not begun and wait for this one to succeed, oldest first.
  [[nodiscard]] std::vector<std::string> waiting_after(const std::string& id);
  // Runs that began with this checkpoint of that run, or with a copy of it, oldest first. Looks at
  // every run.
  [[nodiscard]] std::vector<runs::Run> begun_with(const std::string& run,
                                                  const std::string& checkpoint);
  // Whether any run belongs to this scheduler.
  [[nodiscard]] bool has_runs_of(const std::string& scheduler);
  // Runs of this kind that have reached their target and ended before this moment, newest first;
  // no forks, whose time begins at their checkpoint.
  [[nodiscard]] std::vector<runs::Run> runs_alike(const std::string& kind, double before_utc,
                                                  int limit);
  // Oldest first: over, and not settled.
  [[nodiscard]] std::vector<runs::Run> unsettled_runs(int limit);
  // Of all runs, in their order.
  [[nodiscard]] std::vector<std::string> ids();
  struct Submitted {
    std::string id;
    std::string body_digest;
  };
  [[nodiscard]] std::optional<Submitted> submitted_with(const std::string& idempotency_key);
  // The run that was changed, as Store::change_run() has it.
  [[nodiscard]] std::optional<Submitted> changed_with(const std::string& idempotency_key);

  // Launches and attempts, by number and execution.
  [[nodiscard]] std::vector<runs::Launch> launches(runs::RunNumber run);
  // The newest of each unfinished run.
  [[nodiscard]] std::vector<OpenLaunch> open_launches();
  [[nodiscard]] std::vector<runs::Attempt> attempts(runs::RunNumber run);
  // The newest, oldest first.
  [[nodiscard]] std::vector<slurm::NodeEvent> node_events();
  // What was told of every node last.
  [[nodiscard]] slurm::NodeStandings node_standings();

  // Events: those after a number, oldest first; or the newest of those before one (nothing: of
  // all).
  [[nodiscard]] EventPage events_after(const EventFilter& filter, std::int64_t after, int limit);
  [[nodiscard]] EventPage events_before(const EventFilter& filter,
                                        const std::optional<std::int64_t>& before, int limit);

  // How many there are of those after a number, `most` at most.
  [[nodiscard]] std::int64_t count_events_after(const EventFilter& filter, std::int64_t after,
                                                std::int64_t most);

  // By name.
  [[nodiscard]] std::vector<WebhookPlace> webhooks();

  // Series.
  [[nodiscard]] std::int64_t newest_cursor(runs::RunNumber run);
  // At most `limit` rows after `cursor`, thinned evenly by step, always with the newest. A row that
  // is made of a block is its last step, with the means of its values.
  [[nodiscard]] std::vector<StepRow> steps(runs::RunNumber run, std::int64_t cursor, int limit);
  // The first so many after `cursor`, in its order.
  [[nodiscard]] std::vector<StepRow> steps_after(runs::RunNumber run, std::int64_t cursor,
                                                 int limit);
  // All steps of an attempt in the order of its journal, in blocks as large as there are; and what
  // one of them consists of: the blocks of the next level, or rows; nothing where these are no
  // longer kept. series: of step_series().
  [[nodiscard]] std::vector<StepBlock> step_blocks(runs::AttemptNumber attempt,
                                                   const std::vector<std::string>& series);
  [[nodiscard]] std::vector<StepBlock> parts_of(runs::AttemptNumber attempt, const StepBlock& block,
                                                const std::vector<std::string>& series);
  // What the oldest steps of a run are kept in: 0 for single rows, else the level of the blocks
  // that steps() and steps_after() make rows of.
  [[nodiscard]] int step_resolution(runs::RunNumber run);
  [[nodiscard]] std::vector<StepRow> newest_steps(runs::RunNumber run, int limit);
  // At most `limit` of them, where it is given.
  [[nodiscard]] std::vector<EvaluationRow> evaluations(runs::RunNumber run, std::int64_t cursor,
                                                       std::optional<int> limit = {});
  [[nodiscard]] std::vector<CheckpointRow> checkpoints(runs::RunNumber run, std::int64_t cursor);
  [[nodiscard]] CheckpointFailures checkpoint_failures(runs::RunNumber run);
  [[nodiscard]] std::vector<WarningRow> newest_warnings(runs::RunNumber run, int limit);
  [[nodiscard]] std::optional<Timeline> timeline(runs::AttemptNumber attempt);
  [[nodiscard]] std::optional<RankShares> rank_shares(runs::AttemptNumber attempt);

  // Reference curves: those whose name comes after this one, by name; "": from the first on.
  [[nodiscard]] std::vector<runs::Reference> references(const std::string& after, int limit);
  [[nodiscard]] std::optional<runs::ReferenceCurve> reference(const std::string& name);

  // Benches of a node, the newest first; and all nodes that have some, by name.
  [[nodiscard]] std::vector<runs::NodeBench> node_benches(const std::string& node);
  [[nodiscard]] std::vector<BenchedNode> benched_nodes();

 protected:
  StoreReads() = default;
  ~StoreReads() = default;
  // A run of the row, with its directory as a whole path.
  [[nodiscard]] runs::Run read_run(const Statement& row) const;
  [[nodiscard]] std::vector<runs::Run> read_runs(Statement& statement) const;

  base::Path runs_;  // where run directories lie; the store has them relative to it
  ReaderPool* pool_ = nullptr;
  Database* pinned_ = nullptr;  // set: every read goes there

 private:
  // Blocks with all series, none larger than of this level, whose last rows come after `cursor`.
  [[nodiscard]] std::vector<StepBlock> blocks_after(runs::AttemptNumber attempt, int coarsest,
                                                    std::int64_t cursor, int limit);
  [[nodiscard]] std::vector<StepRow> rolled_up_after(runs::RunNumber run, int level,
                                                     std::int64_t cursor, int limit);
  [[nodiscard]] std::vector<StepRow> rolled_up(runs::RunNumber run, std::int64_t cursor, int limit);
  [[nodiscard]] ReaderPool::Lease lease() {
    return pinned_ != nullptr ? ReaderPool::Lease(nullptr, pinned_) : pool_->take();
  }
};

// Reads that see one state of the store, whatever is written meanwhile. For one thread, and for
// milliseconds: it holds a connection, and while it does the log of writes only grows.
class Snapshot : public StoreReads {
 public:
  Snapshot(ReaderPool& pool, const base::Path& runs);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 private:
  ReaderPool::Lease held_;
};

}  // namespace regatta::orchestrator::store
