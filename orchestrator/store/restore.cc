#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "orchestrator/files/directory_lock.h"
#include "orchestrator/files/network_file_system.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/store/backup.h"
#include "orchestrator/store/copy.h"
#include "orchestrator/store/event_log.h"
#include "orchestrator/store/integrity.h"
#include "orchestrator/store/migration.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/schema.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::store {
namespace {

constexpr const char* kStoreName = "store.sqlite";
constexpr const char* kStagedName = "store.sqlite.restoring";
// The staged one, once it is to be the store whatever happens: no rename moves a store and its log
// at once.
constexpr const char* kDecidedName = "store.sqlite.restoring-decided";
constexpr const char* kBefore = ".before-";
// Files of a database beside itself; what they hold is replayed over whatever has its name.
constexpr const char* kBeside[] = {"-wal", "-journal", "-shm"};
// A database, and of what is beside it that which is not made again.
constexpr const char* kKept[] = {"", "-wal", "-journal"};

base::Path with(const base::Path& path, const std::string& suffix) {
  return path.string() + suffix;
}

// "table.column" of all tables.
std::vector<std::string> columns_of_all(Database& database) {
  std::vector<std::string> columns;
  for (const std::string& table : tables_of(database)) {
    Statement ask = database.prepare("SELECT name FROM pragma_table_info(?1)");
    ask.bind(table);
    while (ask.step()) columns.push_back(table + "." + ask.text(0));
  }
  std::sort(columns.begin(), columns.end());
  return columns;
}

// Of another program's database even the version may look like one.
bool has_tables_of(Database& database, std::int64_t version) {
  Database made(":memory:", Database::Access::ReadWrite);
  for (std::int64_t i = 0; i < version; ++i) made.execute(kVersions[i]);
  return version > 0 && columns_of_all(database) == columns_of_all(made);
}

void refuse_unusable(Database& backup, const std::string& name) {
  const std::int64_t version = version_of(backup);
  if (version > kSchemaVersion) check_version(version, "update regatta and restore it then");
  if (version < 0 || !has_tables_of(backup, version)) {
    throw base::Error(base::Code::User,
                      name +
                          " is a database, but no store of regatta; name a file that `regatta "
                          "backup` has written");
  }
  if (const std::string damage = damage_of(backup, Thoroughness::Whole); !damage.empty()) {
    throw base::Error(base::Code::User, name + " is damaged (" + damage +
                                            "); restore another backup, or none: without a "
                                            "store the controller reads the run directories");
  }
}

void stage(const base::Path& file, const base::Path& staged) {
  const std::string name = base::printable(file.string());
  try {
    Database backup(file, Database::Access::ReadOnly);
    refuse_unusable(backup, name);
    write_copy(backup, staged);
  } catch (const Damaged& error) {
    throw base::Error(base::Code::User,
                      name + " cannot be restored: it is damaged, or no store of regatta (" +
                          error.reason() + "); name another file");
  }
}

// What the directory of a run that is over has to say where nothing has become of it since.
runs::RecordedState recorded(Database& database, const runs::Run& run) {
  Statement ask =
      database.prepare("SELECT ifnull(max(number), 0) FROM launches WHERE run = ?1 AND over");
  ask.bind(runs::row_of(run.number));
  const int launch = ask.step() ? static_cast<int>(ask.integer(0)) : 0;
  return {run.state, run.error, run.ended_utc, run.failures, run.progress_step, launch};
}

enum class Fate { Same, Changed, Gone };
Fate fate_of(Database& database, const runs::Run& run, base::FileSystem& files,
             const base::Path& directory) {
  try {
    if (!files.exists(directory / "run.json")) return Fate::Gone;
    const auto submission = runs::read_submission(files, directory);
    if (submission && (submission->wanted != run.wanted || submission->archived != run.archived ||
                       submission->tags != run.tags || submission->note != run.note ||
                       submission->changed_utc != run.changed_utc)) {
      return Fate::Changed;
    }
    const auto state = runs::read_state(files, directory);
    return state && *state != recorded(database, run) ? Fate::Changed : Fate::Same;
  } catch (const base::Error&) {
    return Fate::Changed;  // the controller says what is wrong with it, and waits until it is
                           // mended
  }
}

std::vector<runs::Run> runs_of(Database& database) {
  Statement ask = database.prepare("SELECT " + selection(columns_of<runs::Run>(), "runs") +
                                   " FROM runs ORDER BY number");
  return read_rows<runs::Run>(ask);
}

// As a controller does with a run whose directory is gone: it is history, which cannot go on.
void give_up(Database& database, EventLog* events, runs::Run run, const base::Path& directory) {
  if (!runs::is_over(run.state)) {
    run.state = runs::RunState::Failed;
    run.error = "its directory " + base::printable(directory.string()) + " is gone";
    run.ended_utc = base::system_clock().utc_seconds();
  }
  run.drained = run.settled = true;
  events->note_run(run);
  write_row(database, change("runs", "number", columns_of<runs::Run>()), RowBinder::Which::NotFixed,
            run, runs::row_of(run.number));
  database.prepare("UPDATE launches SET over = 1 WHERE run = ?1")
      .bind(runs::row_of(run.number))
      .run();
  database.prepare("UPDATE runs SET wanted = ?2 WHERE number = ?1 AND wanted = ?3")
      .bind(runs::row_of(run.number), static_cast<int>(runs::Wanted::Run),
            static_cast<int>(runs::Wanted::Resume))
      .run();
}

// As a controller finds what somebody starts by hand: its journal is read anew. Its tags and its
// note are in no directory.
void begin_anew(Database& database, const runs::Run& run) {
  runs::Run found = run;
  found.found_utc = base::system_clock().utc_seconds();  // what was before is told of already
  found.state = runs::RunState::Starting;                // until its journal is read
  found.reason.clear();
  found.wait = {};
  found.error.clear();
  found.ended_utc.reset();
  found.failures = 0;
  found.progress_step = -1;
  found.drained = found.settled = false;
  found.summary = {};
  found.summary.steps = run.summary.steps;
  found.summary.metric = run.summary.metric;
  found.summary.target = run.summary.target;
  found.summary.target_times_baseline = run.summary.target_times_baseline;
  remove_rows(database, run.number);
  write_row(database, insertion("INSERT INTO runs", {"body_digest"}, columns_of<runs::Run>()),
            RowBinder::Which::All, found, base::digest_of(run.config));
  for (const std::string& tag : run.tags) {
    database.prepare("INSERT INTO run_tags(tag, run) VALUES(?1, ?2)")
        .bind(tag, runs::row_of(run.number))
        .run();
  }
}

// What is read anew comes after every row that somebody has asked for the rows after, as events do
// (EventLog): the newest row that is left gets the microseconds since 1970 as its number.
void raise_cursors(Database& database) {
  std::int64_t newest = 0;
  for (const char* table : kTablesWithCursor) {
    Statement ask = database.prepare(std::string("SELECT max(cursor) FROM ") + table);
    if (ask.step()) newest = std::max(newest, ask.integer(0));
  }
  constexpr double kMicroseconds = 1e6;
  const auto now = static_cast<std::int64_t>(base::system_clock().utc_seconds() * kMicroseconds);
  if (newest == 0 || newest >= now) return;
  for (const char* table : kTablesWithCursor) {
    database.prepare(std::string("UPDATE ") + table + " SET cursor = ?2 WHERE cursor = ?1")
        .bind(newest, now)
        .run();
  }
  database.prepare("UPDATE step_blocks SET cursor = ?2 WHERE cursor = ?1").bind(newest, now).run();
}

// Leaves what the run directories cannot know better.
void drop_what_goes_on(Database& database, base::FileSystem& files, const base::Path& runs,
                       Restored* restored) {
  std::int64_t found = 0;
  Transaction transaction(database);
  EventLog events(database, base::system_clock());
  const std::vector<runs::Run> all_runs = runs_of(database);
  for (const runs::Run& run : all_runs) {
    const Fate fate = fate_of(database, run, files, runs / run.directory);
    found += fate == Fate::Gone ? 0 : 1;
    const bool ended = runs::is_over(run.state) && run.settled && run.drained &&
                       run.wanted != runs::Wanted::Resume;
    if (ended && fate != Fate::Changed) continue;
    if (fate == Fate::Gone) {
      give_up(database, &events, run, runs / run.directory);
      ++restored->given_up;
      continue;
    }
    if (fate == Fate::Same && run.wanted == runs::Wanted::Observe) {
      begin_anew(database, run);
    } else {
      remove_rows(database, run.number);
    }
    ++restored->dropped;
  }
  if (found == 0 && !all_runs.empty()) {
    throw base::Error(base::Code::Operator, "none of the " + std::to_string(all_runs.size()) +
                                                " runs of the backup is in the runs directory " +
                                                base::printable(runs.string()) +
                                                "; name the right one with --runs");
  }
  restored->runs = static_cast<std::int64_t>(all_runs.size()) - restored->dropped;
  raise_cursors(database);
  transaction.commit();
}

// A name that nothing has, nor anything beside it.
base::Path name_to_keep(base::FileSystem& disk, const base::Path& store) {
  std::string time = base::iso8601(base::system_clock().utc_seconds()).substr(0, 19);
  std::replace(time.begin(), time.end(), ':', '-');
  const base::Path first = with(store, kBefore + time);
  const auto is_taken = [&disk](const base::Path& name) {
    return std::any_of(std::begin(kKept), std::end(kKept),
                       [&](const char* part) { return disk.exists(with(name, part)); });
  };
  base::Path kept = first;
  for (int i = 2; is_taken(kept); ++i) kept = with(first, "-" + std::to_string(i));
  return kept;
}

// As far as that goes: what a reader, a full disk or damage leaves in it is kept with it.
void fold_log(const base::Path& store) {
  try {
    Database database(store, Database::Access::ReadWrite);
    database.execute("PRAGMA busy_timeout = " + std::to_string(Database::kReadersMilliseconds));
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (const base::Error&) {
  }
}

// The store that is there, by another name as well, with its log; or the log alone, where somebody
// has moved its store away.
base::Path keep_aside(base::FileSystem& disk, const base::Path& store) {
  if (disk.exists(store)) fold_log(store);
  const base::Path kept = name_to_keep(disk, store);
  base::Path first;
  for (const char* const part : kKept) {
    if (!disk.exists(with(store, part))) continue;
    if (::link(with(store, part).c_str(), with(kept, part).c_str()) != 0) {
      base::throw_errno(errno, "cannot keep the store as " + base::printable(kept.string()));
    }
    if (first.empty()) first = with(kept, part);
  }
  return first;
}

// Second names of what is there: beside them no log stays the right one.
void remove_second_names(base::FileSystem& disk, const base::Path& data) {
  for (const std::string& name : disk.list(data)) {
    if (name.rfind(std::string(kStoreName) + kBefore, 0) != 0) continue;
    for (const char* const part : kKept) {
      std::error_code absent;
      if (std::filesystem::equivalent(data / name, with(data / kStoreName, part), absent)) {
        disk.remove_file(data / name);
        break;
      }
    }
  }
}

// Of a restore that was not decided.
void discard(base::FileSystem& disk, const base::Path& data) {
  for (const base::Path& path : {data / kStagedName, data / kDecidedName}) {
    disk.remove_file(path);
    for (const char* const beside : kBeside) disk.remove_file(with(path, beside));
  }
  remove_second_names(disk, data);
}

// The log is gone for good before the store is, which has another name as well.
void finish(base::FileSystem& disk, const base::Path& data) {
  const base::Path store = data / kStoreName;
  for (const char* const beside : kBeside) disk.remove_file(with(store, beside));
  disk.sync_directory(data);
  disk.rename(data / kDecidedName, store);
  disk.sync_directory(data);
}

}  // namespace

void settle_restore(const base::Path& data, base::FileSystem& disk) {
  if (disk.exists(data / kDecidedName)) finish(disk, data);
  discard(disk, data);
}

Restored restore(const base::Path& file, const base::Path& data, base::FileSystem& files,
                 const base::Path& runs, base::FileSystem& disk) {
  if (!disk.exists(file)) {
    throw base::Error(base::Code::NotFound, "there is no file " + base::printable(file.string()));
  }
  Restored restored;
  restored.made_data = disk.create_directory(data);
  files::refuse_network_file_system(data, "the controller's store");
  const base::UniqueFd lock =
      files::take_lock(data / "lock", "the store in " + base::printable(data.string()));
  settle_restore(data, disk);
  const base::Path staged = data / kStagedName;
  try {
    stage(file, staged);
    {
      Database database(staged, Database::Access::ReadWrite);
      Transaction transaction(database);
      bring_up_to_date(database);
      transaction.commit();
      drop_what_goes_on(database, files, runs, &restored);
      database.execute("PRAGMA journal_mode = DELETE");  // one file, which one rename moves
    }
    disk.open(staged, base::FileSystem::Open::Append)->sync();
    restored.kept = keep_aside(disk, data / kStoreName);
    disk.sync_directory(data);
    disk.rename(staged, data / kDecidedName);
    disk.sync_directory(data);
  } catch (const base::Error&) {
    discard(disk, data);
    if (restored.made_data) disk.remove_tree(data);
    throw;
  }
  finish(disk, data);
  return restored;
}

}  // namespace regatta::orchestrator::store
