#include "orchestrator/store/store.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/files/directory_lock.h"
#include "orchestrator/files/network_file_system.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/store/backup.h"
#include "orchestrator/store/migration.h"
#include "orchestrator/store/on_disk.h"
#include "orchestrator/store/roll_ups.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/run_nodes.h"
#include "orchestrator/store/schema.h"

namespace regatta::orchestrator::store {
namespace {

// Old ones fade to nothing (node_suspicion.h); this many are some megabytes at most.
constexpr std::int64_t kMostNodeEvents = 20000;

// Connections: of requests as many as can be of use to a machine's cores, and some for the
// controller and submissions.
constexpr int kRequestReaders = 8;
constexpr int kOwnReaders = 2;

// Of a long series that is removed.
constexpr int kRowsOfAPiece = 2000;
constexpr std::chrono::milliseconds kBetweenPieces(2);

constexpr double kLogLookSeconds = 1;  // between two looks at the length of the log

}  // namespace

std::string kind_of(const trainer::contract::RunConfig& config) {
  trainer::contract::RunConfig same;  // all else as by default
  same.model = config.model, same.data = config.data;
  same.batch_size = config.batch_size, same.growth = config.growth;
  same.max_batch = config.max_batch, same.from = config.from;
  return base::digest_of(trainer::contract::to_json(same) + trainer::contract::metric_of(config));
}

void take_config(const trainer::contract::RunConfig& config, NewRun* run) {
  run->name = config.name;
  run->config = trainer::contract::to_json(config);
  run->kind = kind_of(config);
  run->summary.steps = config.steps;
  run->summary.metric = trainer::contract::metric_of(config);
  if (!config.target) return;
  run->summary.target = config.target->value;
  run->summary.target_times_baseline = config.target->times_baseline;
}

void remove_rows(Database& database, runs::RunNumber run) {
  const auto remove = [&](const std::string& from) {
    database.prepare("DELETE FROM " + from).bind(runs::row_of(run)).run();
  };
  for (const char* const table : {"timelines", "rank_shares", "step_blocks"}) {
    remove(std::string(table) + " WHERE attempt IN (SELECT row FROM attempts WHERE run = ?1)");
  }
  for (const char* const table :
       {"steps", "evaluations", "checkpoints", "warnings", "attempts", "launches", "run_tags",
        "run_nodes", "run_resolutions", "changes"}) {
    remove(std::string(table) + " WHERE run = ?1");
  }
  remove("runs WHERE number = ?1");
}

Store::Store(const base::Path& directory, const StoreOptions& options)
    : options_(options),
      clock_(options.clock != nullptr ? *options.clock : base::system_clock()),
      trouble_(clock_) {
  if (options_.vfs.empty()) take(directory);
  try {
    open(directory / "store.sqlite");
  } catch (const DiskFull&) {
    if (!reserve_ || !reserve_->release()) throw;
    open(directory / "store.sqlite");
  }
}

Store::~Store() = default;

void Store::take(const base::Path& directory) {
  std::error_code error;
  if (directory.has_parent_path()) {
    std::filesystem::create_directories(directory.parent_path(), error);
  }
  base::posix_file_system().create_directory(directory);
  files::refuse_network_file_system(directory, "the controller's store");
  lock_ = files::take_lock(directory / "lock", "the store in " + directory.string());
  settle_restore(directory);
  reserve_ = std::make_unique<files::DiskReserve>(directory / "reserve");
}

void Store::check_beside() {
  if (options_.vfs.empty()) check_ = std::make_unique<IntegrityCheck>(file_);
}

IntegrityCheck::Result Store::integrity() const {
  return check_ ? check_->result() : IntegrityCheck::Result{};
}

void Store::open(const base::Path& path) {
  file_ = path;
  writer_ = std::make_unique<Database>(path, Database::Access::ReadWrite, options_.vfs);
  writer_->on_disk_failure([this](const std::string& text) { trouble_.note(text); });
  migrate();
  settle_log();
  events_ = std::make_unique<EventLog>(*writer_, clock_);
  own_readers_ = std::make_unique<ReaderPool>(path, kOwnReaders, options_.vfs);
  request_readers_ = std::make_unique<ReaderPool>(path, kRequestReaders, options_.vfs);
  pool_ = own_readers_.get();
}

void Store::migrate() {
  Transaction transaction(*writer_);
  check_version(version_of(*writer_), "update regatta, or name another directory with --data");
  bring_up_to_date(*writer_);
  for (const char* table : kTablesWithCursor) {
    Statement newest = writer_->prepare(std::string("SELECT max(cursor) FROM ") + table);
    if (newest.step()) next_cursor_ = std::max(next_cursor_, newest.integer(0) + 1);
    newest.run();
  }
  const auto next = [this](const std::string& column, const char* table) {
    Statement newest = writer_->prepare("SELECT max(" + column + ") FROM " + table);
    const std::int64_t number = newest.step() ? newest.integer(0) + 1 : 1;
    newest.run();
    return number;
  };
  // A key outlives its run, and must not become another one's.
  next_run_ = std::max(next("number", "runs"), next("run", "changes"));
  next_attempt_ = next("row", "attempts");
  transaction.commit();
}

void Store::place_runs(const base::Path& runs) {
  runs_ = runs;
  // Those of older stores, which have whole paths; with this prefix, and nothing behind the id.
  const std::string from = runs.string() + "/", to = runs.string() + "0";  // '0' is '/' + 1
  const auto lock = lock_writes();
  try {
    writer_
        ->prepare(
            "UPDATE runs SET directory = id "
            "WHERE directory >= ?1 AND directory < ?2 AND directory = ?1 || id")
        .bind(from, to)
        .run();
  } catch (const DiskFull&) {  // the next start does it; until then it may not be moved
  }
}

runs::RunNumber Store::add_run(const NewRun& run, const std::vector<runs::Launch>& launches) {
  const auto lock = lock_writes();
  Transaction transaction(*writer_);
  static const std::string sql =
      insertion("INSERT INTO runs", {"idempotency_key", "body_digest"}, columns_of<runs::Run>());
  runs::Run added = run;
  added.number = runs::RunNumber{next_run_};
  const base::Path directory = run.directory;
  if (directory.parent_path() == runs_) added.directory = directory.filename().string();
  write_row(*writer_, sql, RowBinder::Which::All, added, run.idempotency_key, run.body_digest);
  events_->note_added(added, run.by);
  write_tags(added.number, added.tags);
  for (const runs::Launch& launch : launches) write_launch_row(added.number, launch);
  transaction.commit();
  ++next_run_;
  return added.number;
}

void Store::update_run(const runs::Run& run) {
  const auto lock = lock_writes();
  Transaction transaction(*writer_);
  write_run(run);
  transaction.commit();
}

void Store::note(const Event& event) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  events_->note(event);
}

// In a transaction, as all that writes an event, too. What somebody changed of whom the writer does
// not know yet stays.
void Store::write_run(const runs::Run& run) {
  runs::Run written = run;
  {
    Statement ask = writer_->prepare(
        "SELECT steps, target, target_times_baseline, time_to_accuracy, "
        "changed_utc > ifnull(?2, 0), wanted = ?3 FROM runs WHERE number = ?1");
    ask.bind(runs::row_of(run.number), run.changed_utc, static_cast<int>(runs::Wanted::Resume));
    const bool found = ask.step();
    if (found && ask.integer(5) != 0) written.drained = false;  // it is to be taken up
    if (found && ask.integer(4) != 0) {
      const auto number = [&ask](int column) {
        return ask.is_null(column) ? std::nullopt : std::optional(ask.number(column));
      };
      written.summary.steps = ask.integer(0);
      written.summary.target = number(1);
      written.summary.target_times_baseline = number(2);
      written.summary.time_to_accuracy_seconds = number(3);
      written.drained = false;
    }
  }
  events_->note_run(written);
  static const std::string sql = change("runs", "number", columns_of<runs::Run>());
  write_row(*writer_, sql, RowBinder::Which::NotFixed, written, runs::row_of(run.number));
}

std::unique_lock<std::mutex> Store::lock_writes() {
  std::unique_lock lock(write_mutex_);
  bound_log();
  return lock;
}

void Store::keep_reserve() {
  const std::unique_lock lock(write_mutex_, std::try_to_lock);
  if (lock.owns_lock() && reserve_) reserve_->restore(clock_.monotonic_seconds());
}

void Store::settle_log() {
  writer_->sync_log();
  fold_log();
}

// Seldom more than the milliseconds of one read, for which writes wait: whoever comes meanwhile
// reads what is folded in.
void Store::bound_log() {
  const double now = base::system_clock().monotonic_seconds();
  if (!options_.vfs.empty() || now < next_log_look_) return;
  next_log_look_ = now + kLogLookSeconds;
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(file_.string() + "-wal", error);
  if (!error && bytes >= options_.longest_log) fold_log();
}

void Store::fold_log() {
  try {
    // With a patience of its own: a reader that stays longer is waited for by the next look.
    writer_->execute("PRAGMA busy_timeout = " + std::to_string(Database::kReadersMilliseconds));
    writer_->execute("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (const base::Error&) {  // a full disk, of which the next write says more
  }
  writer_->execute("PRAGMA busy_timeout = " + std::to_string(Database::kBusyMilliseconds));
}

void Store::set_wanted(runs::RunNumber run, runs::Wanted wanted, const std::string& by,
                       const std::optional<RequestKey>& key) {
  const bool resumes = wanted == runs::Wanted::Resume;
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  write_anyhow([&] {
    Transaction transaction(*writer_);
    writer_
        ->prepare(
            "UPDATE runs SET wanted = ?2, drained = CASE WHEN ?3 THEN 0 ELSE drained END "
            "WHERE number = ?1")
        .bind(runs::row_of(run), static_cast<int>(wanted), resumes)
        .run();
    if (wanted == runs::Wanted::Cancel) events_->note_wish(run, "run.cancel_asked", by);
    if (resumes) events_->note_wish(run, "run.resume_asked", by);
    if (wanted == runs::Wanted::Requeue) events_->note_wish(run, "run.requeue_asked", by);
    write_key(key, run);
    transaction.commit();
  });
}

void Store::write_key(const std::optional<RequestKey>& key, runs::RunNumber run) {
  if (!key) return;
  writer_->prepare("INSERT INTO changes(idempotency_key, run, body_digest) VALUES(?1, ?2, ?3)")
      .bind(key->key, runs::row_of(run), key->digest)
      .run();
}

void Store::keep_key(runs::RunNumber run, const RequestKey& key) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  write_key(key, run);
}

bool Store::end_requeue(runs::RunNumber run) {
  const auto lock = lock_writes();
  writer_->prepare("UPDATE runs SET wanted = ?2 WHERE number = ?1 AND wanted = ?3")
      .bind(runs::row_of(run), static_cast<int>(runs::Wanted::Run),
            static_cast<int>(runs::Wanted::Requeue))
      .run();
  return writer_->changes() > 0;
}

bool Store::take_up(const runs::Run& run) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  Transaction transaction(*writer_);
  writer_->prepare("UPDATE runs SET wanted = ?2 WHERE number = ?1 AND wanted = ?3")
      .bind(runs::row_of(run.number), static_cast<int>(runs::Wanted::Run),
            static_cast<int>(runs::Wanted::Resume))
      .run();
  if (writer_->changes() == 0) return false;
  write_run(run);
  transaction.commit();
  return true;
}

void Store::set_archived(runs::RunNumber run, bool archived, const std::string& by,
                         const std::optional<RequestKey>& key) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  Transaction transaction(*writer_);
  writer_->prepare("UPDATE runs SET archived = ?2 WHERE number = ?1")
      .bind(runs::row_of(run), archived)
      .run();
  events_->note_wish(run, archived ? "run.archived" : "run.unarchived", by);
  write_key(key, run);
  transaction.commit();
}

void Store::set_labels(runs::RunNumber run, const runs::Labels& labels, const std::string& by) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  Transaction transaction(*writer_);
  std::string text;
  for (const std::string& tag : labels.tags) text += tag + "/";
  writer_->prepare("UPDATE runs SET tags = ?2, note = ?3 WHERE number = ?1")
      .bind(runs::row_of(run), text, labels.note)
      .run();
  write_tags(run, labels.tags);
  events_->note_wish(run, "run.labelled", by, runs::words_of(labels));
  transaction.commit();
}

void Store::write_tags(runs::RunNumber run, const std::vector<std::string>& tags) {
  writer_->prepare("DELETE FROM run_tags WHERE run = ?1").bind(runs::row_of(run)).run();
  for (const std::string& tag : tags) {
    writer_->prepare("INSERT OR IGNORE INTO run_tags(tag, run) VALUES(?1, ?2)")
        .bind(tag, runs::row_of(run))
        .run();
  }
}

void Store::change_run(const runs::Run& run, const RunChange& change, const std::string& by) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  Transaction transaction(*writer_);
  if (change.before_its_end) {
    Statement ask = writer_->prepare(
        "SELECT 1 FROM runs WHERE number = ?1 AND wanted <> ?2 AND "
        "state IN ('succeeded', 'stopped', 'failed', 'cancelled')");
    ask.bind(runs::row_of(run.number), static_cast<int>(runs::Wanted::Resume));
    const char* const why = " has ended meanwhile; `regatta extend --steps N` continues it";
    if (ask.step()) throw base::Error(base::Code::Conflict, "run " + run.id + why);
  }
  const runs::RunSummary& summary = run.summary;
  events_->note_changed(run, change.words, by);
  // Not drained: the controller reads it once more, and writes its file.
  writer_
      ->prepare(
          "UPDATE runs SET config = ?2, changed_utc = ?3, steps = ?4, target = ?5, "
          "target_times_baseline = ?6, time_to_accuracy = ?7, drained = 0 WHERE number = ?1")
      .bind(runs::row_of(run.number), run.config, run.changed_utc, summary.steps, summary.target,
            summary.target_times_baseline, summary.time_to_accuracy_seconds)
      .run();
  write_key(change.key, run.number);
  if (change.resumes) {
    writer_->prepare("UPDATE runs SET wanted = ?2, archived = 0 WHERE number = ?1")
        .bind(runs::row_of(run.number), static_cast<int>(runs::Wanted::Resume))
        .run();
    events_->note_wish(run.number, "run.extend_asked", by);
    if (run.archived) events_->note_wish(run.number, "run.unarchived", by);
  }
  transaction.commit();
}

void Store::drop_key(runs::RunNumber run) {
  const auto lock = lock_writes();
  writer_->prepare("UPDATE runs SET idempotency_key = NULL WHERE number = ?1")
      .bind(runs::row_of(run))
      .run();
}

void Store::remove_run(const runs::Run& run, const std::string& by,
                       const std::optional<RequestKey>& key) {
  // A mutex goes to who asks first: whoever waits must be able to.
  while (remove_piece(run.number)) std::this_thread::sleep_for(kBetweenPieces);
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  write_anyhow([&] {
    Transaction transaction(*writer_);
    events_->note_wish(run.number, "run.removed", by);
    remove_rows(*writer_, run.number);
    write_key(key, run.number);
    transaction.commit();
  });
  removed_.insert(run.number);
}

bool Store::remove_piece(runs::RunNumber run) {
  const auto lock = lock_writes();
  bool removed = false;
  write_anyhow([&] {
    Transaction transaction(*writer_);
    for (const char* const sql :
         {"DELETE FROM steps WHERE cursor IN (SELECT cursor FROM steps WHERE run = ?1 LIMIT ?2)",
          "DELETE FROM step_blocks WHERE rowid IN (SELECT rowid FROM step_blocks WHERE attempt IN "
          "(SELECT row FROM attempts WHERE run = ?1) LIMIT ?2)"}) {
      writer_->prepare(sql).bind(runs::row_of(run), kRowsOfAPiece).run();
      removed = writer_->changes() > 0;
      if (removed) break;
    }
    transaction.commit();
  });
  return removed;
}

void Store::write_anyhow(const std::function<void()>& write) {
  try {
    write();
  } catch (const DiskFull&) {
    // Often it is how the run that filled the disk is stopped.
    if (reserve_ && reserve_->release()) {
      base::log(base::LogLevel::Warning,
                "the disk of the store is full; a cancellation or a removal used the room kept for "
                "it");
    }
    // The log of writes begins anew where its room is, for this one and the next.
    writer_->execute("PRAGMA wal_checkpoint(RESTART)");
    write();
  }
}

std::vector<StatementFigures> Store::figures() {
  const std::lock_guard lock(write_mutex_);
  std::vector<StatementFigures> figures = writer_->figures();
  for (ReaderPool* pool : {own_readers_.get(), request_readers_.get()}) {
    for (StatementFigures& each : pool->figures()) figures.push_back(std::move(each));
  }
  return figures;
}

void Store::put_launch(runs::RunNumber run, const runs::Launch& launch) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  if (removed_.count(run) > 0) return;
  Transaction transaction(*writer_);
  write_launch(run, launch);
  transaction.commit();
}

void Store::end_launch(const runs::Run& run, const runs::Launch& launch) {
  const auto lock = lock_writes();
  if (removed_.count(run.number) > 0) return;
  Transaction transaction(*writer_);
  if (runs::is_over(run.state)) {
    Statement ask =
        writer_->prepare("SELECT 1 FROM runs WHERE number = ?1 AND changed_utc > ifnull(?2, 0)");
    ask.bind(runs::row_of(run.number), run.changed_utc);
    if (ask.step()) {
      throw base::Error(base::Code::Retry,
                        "it was changed just as it ended, and is judged once more");
    }
  }
  write_run(run);
  write_launch(run.number, launch);
  transaction.commit();
}

void Store::write_launch(runs::RunNumber run, const runs::Launch& launch) {
  events_->note_launch(run, launch);
  write_launch_row(run, launch);
}

void Store::write_launch_row(runs::RunNumber run, const runs::Launch& launch) {
  if (!launch.nodes.empty()) add_run_nodes(*writer_, runs::row_of(run), launch.nodes);
  static const std::string sql =
      insertion("INSERT OR REPLACE INTO launches", {"run"}, columns_of<runs::Launch>());
  write_row(*writer_, sql, RowBinder::Which::All, launch, runs::row_of(run));
}

runs::AttemptNumber Store::add_attempt(runs::RunNumber run, int number,
                                       const std::string& execution) {
  const auto lock = lock_writes();
  if (removed_.count(run) == 0) {
    writer_->prepare("INSERT INTO attempts(run, number, execution, row) VALUES(?1, ?2, ?3, ?4)")
        .bind(runs::row_of(run), number, execution, next_attempt_)
        .run();
  }
  return runs::AttemptNumber{next_attempt_++};
}

void Store::judge(const std::optional<runs::AttemptNumber>& attempt,
                  const std::vector<slurm::NodeEvent>& events) {
  const auto lock = lock_writes();
  static const std::string sql =
      insertion("INSERT INTO node_events", {}, columns_of<slurm::NodeEvent>());
  Transaction transaction(*writer_);
  for (const slurm::NodeEvent& event : events) {
    write_row(*writer_, sql, RowBinder::Which::All, event);
    events_->note_blame(event);
  }
  writer_->prepare("DELETE FROM node_events WHERE row <= (SELECT max(row) FROM node_events) - ?1")
      .bind(kMostNodeEvents)
      .run();
  if (attempt) {
    writer_->prepare("UPDATE attempts SET judged = 1 WHERE row = ?1")
        .bind(runs::row_of(*attempt))
        .run();
  }
  transaction.commit();
  if (!events.empty()) ++judgements_;
}

void Store::put_node_news(const slurm::NodeNews& news, double utc) {
  const auto lock = lock_writes();
  static const std::string sql =
      insertion("INSERT OR REPLACE INTO node_standings", {}, columns_of<slurm::NodeStanding>());
  Transaction transaction(*writer_);
  for (const slurm::NodeStanding& standing : news.changed) {
    write_row(*writer_, sql, RowBinder::Which::All, standing);
  }
  for (const std::string& node : news.forgotten) {
    writer_->prepare("DELETE FROM node_standings WHERE node = ?1").bind(node).run();
  }
  for (const slurm::NodeChange& change : news.told) events_->note_change(change, utc);
  transaction.commit();
}

void Store::write_attempt(const runs::Run& run, const runs::Attempt& attempt) {
  events_->note_end(run, attempt);
  static const std::string sql = change("attempts", "row", columns_of<runs::Attempt>());
  write_row(*writer_, sql, RowBinder::Which::NotFixed, attempt, runs::row_of(attempt.row));
}

}  // namespace regatta::orchestrator::store
