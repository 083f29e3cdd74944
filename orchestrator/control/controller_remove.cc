// What becomes of runs that are over: removed, or archived.
#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/log.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/runs/run_records.h"
#include "trainer/contract/retention_policy.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::control {
namespace {

constexpr double kLookSeconds = 5;      // for a directory to be looked at
constexpr double kMoveSeconds = 2;      // to be renamed
constexpr double kRemoveSeconds = 5;    // for its files to be gone; they go on being removed
constexpr double kArchiveSeconds = 60;  // with a checkpoint that is read
constexpr std::uint64_t kMostRead = 256'000'000;  // bytes of it
constexpr double kForgottenSeconds = 60;  // for which what was read of a removed run may come late

void refuse_checkpoints(const runs::Run& run, const RunDirectoryLook& look,
                        const RemoveOptions& options) {
  if (!look.read.empty()) {
    refuse(run, "has a checkpoint that is being read: " + base::join(look.read, ", ") +
                    "; try again when that is done");
  }
  if (look.pinned.empty() || options.pinned_too) return;
  refuse(run, "has pinned checkpoints: " + base::join(look.pinned, ", ") +
                  "; unpin them (`regatta ckpt unpin`), or remove them with --pinned-too");
}

}  // namespace

runs::Run Controller::find_over(const std::string& name) {
  const runs::Run run = find(name);
  if (!runs::is_over(run.state) || run.wanted == runs::Wanted::Resume) {
    refuse(run, "is not over; `" + base::shown_command("regatta cancel", run.id) + "` stops it");
  }
  if (const std::string why = why_not_ours(run); !why.empty()) refuse(run, why);
  return run;
}

void Controller::refuse_removal(const runs::Run& run) {
  const std::vector<std::string> waiting = store_.waiting_after(run.id);
  if (!waiting.empty()) {
    refuse(run, "is waited for by " + base::join(waiting, ", ") + "; `" +
                    base::shown_command("regatta cancel", waiting.front()) +
                    "` first, or let it begin");
  }
  if (run.wanted != runs::Wanted::Observe) return;
  // Nobody here knows its process.
  const std::vector<runs::Attempt> attempts = store_.attempts(run.number);
  if (attempts.empty() || attempts.back().exit_code) return;
  refuse(run,
         "was started by hand, and its journal does not say that its process has ended; when "
         "it has, remove " +
             run.directory + " and then the run");
}

// With the run's name held. Whoever has given up waiting for it finds it as it was, but where
// the file system hangs in the renaming itself.
base::Path Controller::move_away(const runs::Run& run, const RemoveOptions& options) {
  enum class Fate { Waiting, Begun, GivenUp };
  const auto fate = std::make_shared<std::atomic<Fate>>(Fate::Waiting);  // the work may come later
  const auto moved = std::make_shared<base::Path>();
  const double now = clock_.utc_seconds();
  try {
    do_beside(run.directory, kMoveSeconds, [=, files = &files_] {
      Fate waiting = Fate::Waiting;
      if (!fate->compare_exchange_strong(waiting, Fate::Begun)) return;
      const RunDirectoryLook look = look_at_directory(*files, run.directory, now);
      if (!look.exists) return;
      refuse_checkpoints(run, look, options);
      *moved = move_run_away(*files, run.directory);
    });
  } catch (const base::Error&) {
    Fate waiting = Fate::Waiting;
    fate->compare_exchange_strong(waiting, Fate::GivenUp);
    throw;
  }
  return *moved;
}

Removal Controller::remove(const std::string& name, const RemoveOptions& options) {
  check_lease();
  Removal removal;
  const auto key =
      options.dry_run ? std::nullopt : key_for(options.idempotency_key, "remove " + name);
  std::optional<files::NameLocks::Held> request = hold_key(key);
  if (was_done(key)) {  // it is gone, and so is what its name was short for
    removal.run.id = name;
    removal.run.directory = (options_.runs_directory / name).string();
    removal.had_directory = false;
    return removal;
  }
  removal.run = find_over(name);
  refuse_removal(removal.run);
  removal.dry_run = options.dry_run;
  const base::Path directory = removal.run.directory;
  const auto look = std::make_shared<RunDirectoryLook>();  // with a work that may come later
  do_beside(directory, kLookSeconds,
            [look, directory, files = &files_, now = clock_.utc_seconds()] {
              *look = look_at_directory(*files, directory, now);
            });
  removal.had_directory = look->exists;
  removal.use = look->use;
  removal.pinned = look->pinned;
  refuse_checkpoints(removal.run, *look, options);
  if (options.dry_run) return removal;

  base::Path moved;
  bool forgotten = true;
  {
    const files::NameLocks::Held held = hold(removal.run.id, std::nullopt);
    removal.run = find_over(removal.run.id);
    refuse_removal(removal.run);
    // The name first: from here on it is no run, and the next controller does the rest.
    moved = move_away(removal.run, options);
    try {
      forget(removal.run, options.by, key);
    } catch (const base::Error&) {  // a full disk has room when the files are gone
      forgotten = false;
    }
  }
  if (forgotten) request.reset();
  base::log(base::LogLevel::Info, "run " + removal.run.id + " was removed");
  unpin_origin(removal.run);
  if (!moved.empty()) remove_files(moved, &removal);
  if (!forgotten) forget(removal.run, options.by, key);
  return removal;
}

void Controller::remove_files(const base::Path& moved, Removal* removal) {
  try {
    do_beside(moved, kRemoveSeconds, [moved, files = &files_] { remove_moved(*files, moved); });
  } catch (const base::Error& error) {
    removal->left = error.code() == base::Code::Retry
                        ? "its files are still being removed, in " + moved.string()
                        : error.what();
    base::log(base::LogLevel::Warning, "run " + removal->run.id + ": " + removal->left);
  }
}

void Controller::forget(const runs::Run& run, const std::string& by,
                        const std::optional<store::RequestKey>& key) {
  {
    const std::scoped_lock lock(wake_mutex_);
    told_forgotten_.push_back(run.id);
  }
  store_.remove_run(run, by, key);
  wake(run.number);
}

void Controller::take_forgotten() {
  const double now = clock_.monotonic_seconds();
  std::vector<std::string> ids;
  {
    const std::scoped_lock lock(wake_mutex_);
    ids.swap(told_forgotten_);
  }
  for (const std::string& id : ids) {
    forgotten_[id] = now;
    known_.erase(id);
    note_unadopted(id, {});
  }
  for (auto it = forgotten_.begin(); it != forgotten_.end();) {
    it = now - it->second > kForgottenSeconds ? forgotten_.erase(it) : std::next(it);
  }
}

// Of removals that were cut short: where the run's row is still there, it goes, too.
void Controller::take_leftovers(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto id = id_of_removed(name);
    if (!id) continue;
    leftovers_.push_back(name);
    const auto run = store_.run(*id);
    if (!run || std::find(names.begin(), names.end(), *id) != names.end()) continue;
    if (open_.count(run->number) > 0) close(run->number);
    store_.remove_run(*run);
    base::log(base::LogLevel::Info, "run " + *id + " was removed");
  }
}

void Controller::remove_leftovers() {
  std::vector<std::string> names;
  names.swap(leftovers_);
  for (const std::string& name : names) {
    const base::Path path = options_.runs_directory / name;
    const bool begun = side_.begin<bool>(
        path,
        [files = &files_, path] {
          remove_moved(*files, path);
          return true;
        },
        [](const files::Outcome<bool>& outcome) {
          if (outcome.value) return;
          base::log(base::LogLevel::Warning,
                    "what is left of a removed run stays until the next start: " +
                        std::string(outcome.error->what()));
        });
    if (!begun) leftovers_.push_back(name);
  }
}

Archival Controller::archive(const std::string& name, DryRun dry_run, const std::string& by,
                             const std::optional<std::string>& idempotency_key) {
  check_lease();
  Archival archival;
  archival.run = find(name);
  const auto key = dry_run == DryRun::Yes ? std::nullopt
                                          : key_for(idempotency_key, "archive " + archival.run.id);
  const std::optional<files::NameLocks::Held> request = hold_key(key);
  if (was_done(key)) return archival;  // it may have been resumed since
  archival.run = find_over(name);
  const runs::Run& run = archival.run;
  if (run.wanted == runs::Wanted::Observe) {
    refuse(run, "was started by hand, and its directory is left alone; `" +
                    base::shown_command("regatta ckpt gc --directory", run.directory) +
                    "` removes checkpoints");
  }
  using Mode = checkpoint::RetentionRound::Mode;
  const auto found = std::make_shared<ArchivedFiles>();  // with a work that may come later
  const auto policy = trainer::contract::retention_policy(
      trainer::contract::parse_run_config(run.config, "run.json"));
  do_beside(
      run.directory, kArchiveSeconds,
      [found, policy, files = &files_, directory = base::Path(run.directory),
       mode = dry_run == DryRun::Yes ? Mode::Preview : Mode::Check, now = clock_.utc_seconds()] {
        *found = archive_files(*files, directory, policy, mode, kMostRead, now);
      });
  archival.files = *found;
  if (dry_run == DryRun::Yes) return archival;

  const files::NameLocks::Held held = hold(run.id, std::nullopt);
  archival.run = find_over(run.id);  // it may have been resumed
  store_.set_archived(run.number, true, by, key);
  archival.run.archived = true;
  do_beside(run.directory, kMoveSeconds, [files = &files_, run = archival.run] {
    auto submission = runs::read_submission(*files, run.directory);
    if (!submission) return;
    submission->archived = true;
    runs::write_submission(*files, run.directory, *submission);
  });
  base::log(base::LogLevel::Info, "run " + run.id + " was archived");
  wake(run.number);
  return archival;
}

}  // namespace regatta::orchestrator::control
