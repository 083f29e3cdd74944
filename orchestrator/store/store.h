// The controller's SQLite store: one writing connection (the tick and, briefly, submissions), and
// reading ones for the controller and for requests. Everything in it can be read again from the run
// directories.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "base/unique_fd.h"
#include "orchestrator/files/disk_reserve.h"
#include "orchestrator/runs/labels.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/slurm/node_changes.h"
#include "orchestrator/store/database.h"
#include "orchestrator/store/disk_trouble.h"
#include "orchestrator/store/event_log.h"
#include "orchestrator/store/integrity.h"
#include "orchestrator/store/store_reads.h"
#include "orchestrator/store/webhooks.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::store {

// One that is submitted or found; the store gives it its number, and take_config() sets what its
// configuration says.
struct NewRun : runs::Run {
  std::optional<std::string> idempotency_key;
  std::string body_digest;
  std::string by;  // Event::by
};
void take_config(const trainer::contract::RunConfig& config, NewRun* run);
// Run::kind.
[[nodiscard]] std::string kind_of(const trainer::contract::RunConfig& config);

// What a request may come again with: its key, and the digest of what it asked for.
struct RequestKey {
  std::string key, digest;
};

struct RunChange {
  std::string words;     // what is another, for the event; empty: nothing
  bool resumes = false;  // it is over, and is to go on
  // Means nothing once the run is over: Code::Conflict where it is by then, and nothing changed.
  bool before_its_end = false;
  std::optional<RequestKey> key;
};

// All that a store has of a run, in the caller's transaction.
void remove_rows(Database& database, runs::RunNumber run);

class BlockWriter;
class RollUps;
struct KeptSteps;
struct LookTimes;

struct StoreOptions {
  // The name of the SQLite VFS that has the store's file, which then needs no directory and no
  // lock; empty: the operating system's. Simulations have one that fails and crashes as told.
  std::string vfs{};
  base::Clock* clock = nullptr;  // that events are dated by; null: the system's
  // Of the log of writes, about. Where one reader or another is always there, SQLite never begins
  // it anew by itself, and a long one is slow to read and, after a kill, to open.
  std::uintmax_t longest_log = std::uintmax_t{64} << 20U;
};

// Thread-safe. Errors are base::Error. Its own reads take connections of the controller's, which
// requests cannot use up; requests read through snapshot(). Every change that people may ask about
// is an event, in the transaction of the change. by: who asked for it (Event::by).
class Store : public StoreReads {
 public:
  // Creates `directory` (0700) and the file in it when absent. Code::Operator on a network file
  // system, for a store of a newer version, and when another controller holds it.
  explicit Store(const base::Path& directory, const StoreOptions& options = {});
  ~Store();

  [[nodiscard]] Snapshot snapshot() { return {*request_readers_, runs_}; }
  // Where run directories lie from here on; before anybody asks for a run. The store keeps them
  // relative to it, so that it may be moved; what lies elsewhere it keeps as it is.
  void place_runs(const base::Path& runs);

  // Runs.
  // launches: of one that is found. All or nothing: a run whose launches the store has not would be
  // started again.
  runs::RunNumber add_run(const NewRun& run, const std::vector<runs::Launch>& launches = {});
  // All of the run but what add_run(), set_wanted() and change_run() own.
  void update_run(const runs::Run& run);
  // On a full disk, too: it takes the room that was kept for it. A run that is to be resumed is no
  // longer drained, so that the next controller finds it. Here and below, the key of the request is
  // kept with what it asked for, or neither is.
  void set_wanted(runs::RunNumber run, runs::Wanted wanted, const std::string& by = {},
                  const std::optional<RequestKey>& key = {});
  // update_run() of a run that is wanted to resume, and that is wanted to run from here on: both or
  // neither, on the disk. False, and nothing changed, where that is wanted no longer.
  bool take_up(const runs::Run& run);
  // Of a request for which there was nothing to do.
  void keep_key(runs::RunNumber run, const RequestKey& key);
  // What was to end for another launch has: it is wanted to run. False, and nothing changed, where
  // something else is wanted meanwhile.
  bool end_requeue(runs::RunNumber run);
  void set_archived(runs::RunNumber run, bool archived, const std::string& by = {},
                    const std::optional<RequestKey>& key = {});
  void set_labels(runs::RunNumber run, const runs::Labels& labels, const std::string& by = {});
  // What follows from another run file: its config and changed_utc, and of its summary the steps,
  // the target and the time to accuracy. On the disk, all or nothing.
  void change_run(const runs::Run& run, const RunChange& change, const std::string& by = {});
  // Its idempotency key is another run's from here on.
  void drop_key(runs::RunNumber run);
  // All rows of the run, on a full disk, too: its series piece by piece, so that other writes wait
  // for milliseconds, then what is left of it in one transaction. Its number is not given to
  // another one while this object lives, and what is written for it later is not.
  void remove_run(const runs::Run& run, const std::string& by = {},
                  const std::optional<RequestKey>& key = {});

  // What happened and is written nowhere else: number and, where it is 0, utc are given here.
  void note(const Event& event);
  // Whether there may be events after this number; costs nothing.
  [[nodiscard]] bool has_events_after(std::int64_t number) const {
    return events_->newest() > number;
  }

  // Webhooks. told: an event of the change, in its transaction; null: there is none.
  void put_webhook(const WebhookPlace& place, const Event* told = nullptr);
  void remove_webhook(const std::string& name);

  // Launches and attempts.
  void put_launch(runs::RunNumber run, const runs::Launch& launch);
  // update_run() and put_launch(), both or neither. Code::Retry, and neither, where the run is over
  // with it and was changed since `run` was read: how it ended must be judged by what it is now.
  void end_launch(const runs::Run& run, const runs::Launch& launch);
  runs::AttemptNumber add_attempt(runs::RunNumber run, int number, const std::string& execution);
  // What the end of an attempt or a launch says of nodes. The attempt is judged with it, all or
  // nothing; without one the events alone are kept.
  void judge(const std::optional<runs::AttemptNumber>& attempt,
             const std::vector<slurm::NodeEvent>& events);
  // Another number once events of nodes were added. From any thread.
  [[nodiscard]] std::int64_t judgements() const { return judgements_; }
  // What has happened to nodes, and what is known of them from here on, all or nothing.
  void put_node_news(const slurm::NodeNews& news, double utc);
  // Writes the records of one read, and the attempt and the run as they are after them, all or
  // nothing. Records that the store already has are ignored.
  void append(const runs::Run& run, const runs::Attempt& attempt,
              const std::vector<trainer::contract::JournalRecord>& records);

  // Reference curves. False, and nothing changed, where the same is there, whenever it was
  // imported; Code::Conflict where another one has the name.
  bool add_reference(const runs::ReferenceCurve& curve, const std::string& by = {});
  // False where there is none. On a full disk, too.
  bool remove_reference(const std::string& name, const std::string& by = {});

  // Benches of nodes. False, and nothing changed, where the same is there. Of a node's the newest
  // kMostBenchesOfNode stay; Code::Conflict for one that is older than these, and for one more node
  // than kMostBenchedNodes.
  bool add_node_bench(const runs::NodeBench& bench, const std::string& by = {});
  // False where there is none. On a full disk, too.
  bool remove_node_bench(const std::string& node, const std::string& id,
                         const std::string& by = {});
  // Another number once benches were added or removed. From any thread.
  [[nodiscard]] std::int64_t bench_changes() const { return bench_changes_; }

  // What is kept of the steps of runs that have ended; roll_up() does a piece of it for one run,
  // and is false when nothing is left to do for it now.
  [[nodiscard]] std::vector<runs::RunNumber> runs_to_roll_up(const KeptSteps& kept, double now_utc);
  bool roll_up(runs::RunNumber run, const KeptSteps& kept, double now_utc);
  // Does so beside everything else, from now on.
  void roll_up_beside(const KeptSteps& kept, const LookTimes& looks);
  // Looks whether its pages are sound, beside everything else and once in its life.
  void check_beside();
  // What that has found so far.
  [[nodiscard]] IntegrityCheck::Result integrity() const;

  // Why the disk does not take what is written, in one line: what people see stands still, and the
  // journals wait.
  [[nodiscard]] std::optional<std::string> trouble() const { return trouble_.text(); }
  // Takes the room for a full disk again once there is some; often, it seldom has something to do.
  void keep_reserve();

  // What every statement has done so far; while nobody reads or writes.
  [[nodiscard]] std::vector<StatementFigures> figures();

 private:
  void take(const base::Path& directory);
  void open(const base::Path& path);
  // Every write begins with it.
  [[nodiscard]] std::unique_lock<std::mutex> lock_writes();
  void bound_log();
  // What is read from here on is answered to people: what a killed controller had left in the log
  // is on the disk, or this throws; and in the database, where that has room and nobody reads.
  void settle_log();
  void fold_log();
  void migrate();
  // False: nothing was left of its series.
  bool remove_piece(runs::RunNumber run);
  // What may use the room kept for a full disk.
  void write_anyhow(const std::function<void()>& write);
  void write_run(const runs::Run& run);
  void write_key(const std::optional<RequestKey>& key, runs::RunNumber run);
  void write_tags(runs::RunNumber run, const std::vector<std::string>& tags);
  void write_launch(runs::RunNumber run, const runs::Launch& launch);
  void write_launch_row(runs::RunNumber run, const runs::Launch& launch);
  void write_attempt(const runs::Run& run, const runs::Attempt& attempt);
  void write_step(const runs::Run& run, const runs::Attempt& attempt,
                  const trainer::contract::JournalRecord& record, BlockWriter* blocks);
  void write_checkpoint(const runs::Run& run, const runs::Attempt& attempt,
                        const trainer::contract::JournalRecord& record);
  void note_new(const runs::Run& run, const runs::Attempt& attempt,
                const trainer::contract::JournalRecord& record);
  void write_timeline(runs::AttemptNumber attempt,
                      const std::vector<trainer::contract::JournalRecord>& records);

  void write_rank_shares(runs::AttemptNumber attempt,
                         const std::vector<trainer::contract::JournalRecord>& records);

  StoreOptions options_;
  base::Clock& clock_;
  DiskTrouble trouble_;
  base::UniqueFd lock_;
  base::Path file_;
  std::mutex write_mutex_;
  std::unique_ptr<files::DiskReserve> reserve_;  // null where a VFS has the file
  std::unique_ptr<Database> writer_;
  std::unique_ptr<EventLog> events_;
  double next_log_look_ = 0;
  std::int64_t next_cursor_ = 1;
  std::int64_t next_run_ = 1, next_attempt_ = 1;
  std::set<runs::RunNumber> removed_;
  std::atomic<std::int64_t> bench_changes_ = 0, judgements_ = 0;
  std::unique_ptr<ReaderPool> own_readers_, request_readers_;
  std::unique_ptr<IntegrityCheck> check_;  // null: not asked for
  std::unique_ptr<RollUps> roll_ups_;      // null: not asked for
};

}  // namespace regatta::orchestrator::store
