// Runs that the controller finds: those of an earlier one, and those that somebody started by hand.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "base/digest.h"
#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/run_removal.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/slurm/job_book.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {
namespace {

constexpr double kLookForNewSeconds = 10;        // between two looks at the runs directory
constexpr double kOldRunSeconds = 30 * 86400.0;  // after which an old run is not started again
constexpr int kTokenBytes = 8;
constexpr int kLooksForOld = 6;  // every how many also at runs that are over
constexpr std::uint64_t kMostRecordBytes = std::uint64_t{1} << 20U;
constexpr std::size_t kMostAtOnce = 32;   // directories read at once, beside those of open runs
constexpr std::size_t kMostAdopted = 64;  // whose journals are read at once
// A submission is made under a temporary name within seconds; what bears one for longer was left.
constexpr double kTemporarySeconds = 25;
constexpr std::int64_t kMostNamed = 20;  // runs found at the start, in the log
constexpr int kNewestLookedFor = 20;     // beside those that have not ended, at the start
constexpr double kLookedForSeconds = 1;
constexpr double kHungSeconds = 5;  // after which others do not wait for a directory any more

constexpr double kMostAheadSeconds = 86400;  // that the clock may be which a time was written by

bool is_temporary(const std::string& name) { return name.find(".tmp-") != std::string::npos; }
bool is_run_name(const std::string& name) { return name.front() != '.' && !is_temporary(name); }

// A name is the run's id: on the page, in a terminal and in an address it has to be what it is.
void check_name(const std::string& name) {
  if (base::printable(name) == name && name.find('\t') == std::string::npos) return;
  throw base::Error(base::Code::User,
                    "its name has bytes that are not UTF-8, or characters that are not seen; "
                    "rename the directory (mv -i -- *PART-OF-ITS-NAME* NEW-NAME)");
}

// Of an older controller's run: the scheduler that made the launch.
std::string scheduler_of(const runs::Launch& launch) {
  if (slurm::parse_job_handle(launch.handle)) return "slurm";
  const std::vector<std::string> parts = base::split(launch.handle, ':');
  return parts.size() == 3 && base::parse_integer(parts[0]) ? "local" : "";
}

// Times are sorted by, subtracted and shown: one that cannot be counts as not known.
std::optional<double> known_time(std::optional<double> utc, double now) {
  const bool can_be = utc && std::isfinite(*utc) && *utc > 0 && *utc <= now + kMostAheadSeconds;
  return can_be ? utc : std::nullopt;
}

FoundRun with_known_times(FoundRun found, double now) {
  found.began_utc = known_time(found.began_utc, now);
  double created = found.began_utc.value_or(now);
  if (found.submission) {
    runs::SubmissionRecord& submission = *found.submission;
    created = known_time(submission.created_utc, now).value_or(created);
    submission.created_utc = created;
    // That it was changed holds all the same.
    if (submission.changed_utc)
      submission.changed_utc = known_time(*submission.changed_utc, now).value_or(now);
  }
  if (found.state) found.state->ended_utc = known_time(found.state->ended_utc, now);
  for (runs::Launch& launch : found.launches) {
    launch.started_utc = known_time(launch.started_utc, now).value_or(created);
    launch.ended_utc = known_time(launch.ended_utc, now);
  }
  return found;
}

// Whether the attempt's journal has a whole record behind `offset`.
bool has_more(base::FileSystem& files, const trainer::contract::RunDirectory& directory,
              const trainer::contract::AttemptName& attempt, std::int64_t offset) {
  const base::Path journal = directory.journal_path(attempt);
  if (!files.exists(journal)) return false;
  const std::string text =
      files.read_at(journal, static_cast<std::uint64_t>(offset), kMostRecordBytes);
  return text.find('\n') != std::string::npos;
}

// What had ended stays ended: its state was written down, or its newest launch says so. Else the
// journal of its newest launch decides, whatever was written of that.
void take_state(const FoundRun& found, store::NewRun* run, std::vector<runs::Launch>* launches) {
  if (!launches->empty() || found.attempts > 0) {
    run->state = runs::RunState::Starting;  // until its journal is read
  } else if (run->wanted != runs::Wanted::Run) {
    run->state =
        run->wanted == runs::Wanted::Cancel ? runs::RunState::Stopping : runs::RunState::Stopped;
  }
  if (found.state) {
    run->state = found.state->state;
    run->error = found.state->error;
    run->ended_utc = found.state->ended_utc;
    run->failures = found.state->failures;
    run->progress_step = found.state->progress_step;
    run->settled = runs::is_over(run->state);
    // Of a run that was extended it may be from before: its journal knows.
    const bool may_go_further = run->state == runs::RunState::Succeeded && run->changed_utc &&
                                run->changed_utc != found.state->changed_utc;
    if (!launches->empty()) {
      launches->back().over = launches->back().number <= found.state->launch && !may_go_further;
    }
    // Written when an earlier one ended, or before the run was resumed: what became of the newest
    // is known after a visit.
    if (!launches->empty() && !launches->back().over) {
      run->state = runs::RunState::Starting;
      run->error.clear();
      run->ended_utc.reset();
      run->settled = false;
    }
  } else if (!launches->empty() && launches->back().over && !launches->back().handle.empty()) {
    const bool ended = launches->back().exit_code == 0;
    run->state = ended                                 ? runs::RunState::Succeeded
                 : run->wanted == runs::Wanted::Cancel ? runs::RunState::Cancelled
                                                       : runs::RunState::Stopped;
    run->ended_utc = launches->back().ended_utc;
    if (run->state == runs::RunState::Stopped) {
      run->error =
          "its last attempt had ended when the controller's store was lost; `regatta resume` lets "
          "it go on";
    }
  }
  if (runs::is_over(run->state)) {
    for (runs::Launch& launch : *launches) launch.over = true;
  }
}

}  // namespace

// Or its removal was cut short. True where nobody can say.
bool Controller::any_is_there(const std::vector<runs::Run>& runs) {
  try {
    std::set<std::string> ids;
    for (const runs::Run& run : runs) {
      const auto found = std::make_shared<bool>(false);  // with a work that may come later
      do_beside(run.directory, kLookedForSeconds,
                [found, files = &files_, file = base::Path(run.directory) / "run.json"] {
                  *found = files->exists(file);
                });
      if (*found) return true;
      ids.insert(run.id);
    }
    const auto names = std::make_shared<std::vector<std::string>>();
    do_beside(options_.runs_directory, kLookedForSeconds,
              [names, files = &files_, directory = options_.runs_directory] {
                *names = files->list(directory);
              });
    return std::any_of(names->begin(), names->end(), [&ids](const std::string& name) {
      const auto removed = id_of_removed(name);
      return removed && ids.count(*removed) > 0;
    });
  } catch (const base::Error&) {
    return true;
  }
}

// A run whose directory is not there for a minute is given up. Where none is there, it is not the
// runs that are gone: it is another runs directory, or its file system is not mounted.
void Controller::refuse_other_runs() {
  std::vector<runs::Run> looked_for = store_.unfinished_runs();
  std::erase_if(looked_for, [](const runs::Run& run) {
    return runs::is_over(run.state) && run.wanted != runs::Wanted::Resume;
  });
  if (looked_for.empty()) return;  // nothing is given up
  const std::size_t unfinished = looked_for.size();
  store::RunFilter newest;
  newest.limit = kNewestLookedFor;
  newest.archived = store::Archived::Also;
  for (store::RunRow& row : store_.list(newest).rows) looked_for.push_back(std::move(row.run));
  if (any_is_there(looked_for)) return;
  throw base::Error(
      base::Code::Operator,
      "the runs directory " + base::printable(options_.runs_directory.string()) +
          " has none of the store's runs, of which " + std::to_string(unfinished) + " " +
          (unfinished == 1 ? "has" : "have") +
          " not ended; mount its file system, or name the right one with --runs; if they were "
          "removed by hand, move store.sqlite* out of the data directory: the controller makes a "
          "new store from what is in the runs directory");
}

// A directory in which somebody may train by hand.
struct Controller::Look {
  bool submitted = false;  // through a controller
  std::vector<trainer::contract::AttemptName> attempts;
  bool more = false;  // the newest attempt's journal has news
};

void Controller::adopt() {
  listed_ = true;
  const base::Path runs = options_.runs_directory;
  const bool begun = side_.begin<std::vector<std::string>>(
      runs,
      [files = &files_, runs] {
        files->sync_directory(runs);  // whoever made what is found may have been killed before that
        return files->list(runs);
      },
      [this](files::Outcome<std::vector<std::string>> names) { take_names(names); });
  if (!begun) listed_ = false;
  adopt_some();
}

void Controller::take_names(const files::Outcome<std::vector<std::string>>& names) {
  listed_ = false;  // again, unless all of this succeeds
  unread_.clear();
  if (!names.value) {
    troubles_.tell("controller", names.error->what(), clock_.monotonic_seconds());
    return;
  }
  const std::vector<std::string> ids = store_.ids();
  const std::set<std::string> in_store(ids.begin(), ids.end());
  for (const std::string& name : *names.value) {
    if (is_temporary(name)) temporaries_[name] = clock_.monotonic_seconds();
    if (is_run_name(name) && in_store.count(name) == 0) unread_.push_back(name);
  }
  take_leftovers(*names.value);
  found_ = static_cast<std::int64_t>(unread_.size());
  listed_ = names_taken_ = true;
}

void Controller::adopt_some() {
  if (adopted_all_ || !names_taken_) return;
  const double now = clock_.monotonic_seconds();
  std::size_t answering = 0;
  for (const auto& [name, since] : reading_) answering += now - since < kHungSeconds ? 1 : 0;
  while (!unread_.empty() && answering < kMostAtOnce && adopted_.size() < kMostAdopted) {
    const std::string name = unread_.front();
    const base::Path directory = options_.runs_directory / name;
    reading_[name] = now;
    const bool begun = side_.begin<std::optional<FoundRun>>(
        directory, [files = &files_, directory] { return read_found(*files, directory); },
        [this, name](files::Outcome<std::optional<FoundRun>> found) {
          reading_.erase(name);
          ++read_;
          take_found(name, found);
        });
    if (!begun) {
      reading_.erase(name);
      // One that cannot be read now must not keep the others waiting.
      std::rotate(unread_.begin(), unread_.begin() + 1, unread_.end());
      return;
    }
    unread_.pop_front();
    if (reading_.count(name) > 0) ++answering;
  }
  if (unread_.empty() && answering == 0) {
    // What hangs may be a run that is to be known before another is made in its place.
    for (const auto& [name, since] : reading_) {
      note_unadopted(name, base::Error(base::Code::Retry, "it has not answered so far"));
    }
    adopted_all_ = true;
    if (found_ > 0) {
      base::log(base::LogLevel::Info, "the runs directory was read: " + std::to_string(read_) +
                                          " directories that the store did not know");
    }
  }
}

void Controller::take_found(const std::string& name,
                            const files::Outcome<std::optional<FoundRun>>& outcome) {
  try {
    if (outcome.error) throw base::Error(*outcome.error);
    if (!*outcome.value || store_.run(name) || forgotten_.count(name) > 0) {
      return note_unadopted(name, {});
    }
    const runs::RunNumber number = add_found(name, **outcome.value);
    OpenRun* const opened = open(*store_.run(number));
    opened->found = true;
    LaunchBook::write_again(opened, (*outcome.value)->launches);
    if (open_.count(number) > 0 && runs::is_over(open_.at(number).run.state))
      adopted_.insert(number);
    note_unadopted(name, {});
    troubles_.settle("cannot adopt " + name);
  } catch (const base::Error& error) {
    note_unadopted(name, error);
    troubles_.tell("cannot adopt " + name, error.what(), clock_.monotonic_seconds());
  }
}

// why: what kept it from being adopted; nothing: it is.
void Controller::note_unadopted(const std::string& name, const std::optional<base::Error>& why) {
  const std::scoped_lock lock(wake_mutex_);
  const bool unreadable =
      why && (why->code() == base::Code::Operator || why->code() == base::Code::Retry);
  if (unreadable) {
    unreadable_.insert(name);
  } else {
    unreadable_.erase(name);
  }
  if (why) {
    unadopted_[name] = why->what();
  } else {
    unadopted_.erase(name);
  }
}

// What was removed, or moved away, needs no mending any more. names: that the runs directory has.
void Controller::forget_unadopted(const std::vector<std::string>& names) {
  const std::set<std::string> there(names.begin(), names.end());
  std::vector<std::string> removed;
  for (const auto& [name, why] : unadopted_) {
    if (there.count(name) == 0) removed.push_back(name);
  }
  for (const std::string& name : removed) {
    note_unadopted(name, {});
    troubles_.settle("cannot adopt " + name);
  }
}

// Of two runs of one key the newer one is the run that its user was told of: the older one is what
// a submission left that failed half way and could not be removed again, and does not begin.
void Controller::take_key(const std::string& key, store::NewRun* found) {
  const auto known = store_.submitted_with(key);
  if (!known) {
    found->idempotency_key = key;
    return;
  }
  const std::optional<runs::Run> other = store_.run(known->id);
  const bool older = other && found->created_utc < other->created_utc;
  base::log(base::LogLevel::Warning,
            "runs " + known->id + " and " + found->id + " were submitted with one key; " +
                (older ? found->id : known->id) + ", the older one, is cancelled");
  if (older) {
    found->wanted = runs::Wanted::Cancel;
  } else if (other) {
    store_.drop_key(other->number);
    found->idempotency_key = key;
    if (runs::is_over(other->state)) return;
    store_.set_wanted(other->number, runs::Wanted::Cancel);
    wake(other->number);
  }
}

runs::RunNumber Controller::add_found(const std::string& name, const FoundRun& as_written) {
  check_name(name);
  const FoundRun found = with_known_times(as_written, clock_.utc_seconds());
  const trainer::contract::RunConfig config =
      trainer::contract::parse_run_config(found.run_json, "run.json");
  const std::optional<runs::SubmissionRecord>& submission = found.submission;
  store::NewRun run;
  run.id = name;
  store::take_config(config, &run);
  run.directory = (options_.runs_directory / name).string();
  run.created_utc =
      submission ? submission->created_utc : found.began_utc.value_or(clock_.utc_seconds());
  run.found_utc = clock_.utc_seconds();
  run.wanted = submission ? submission->wanted : runs::Wanted::Observe;
  run.body_digest = submission ? submission->body_digest : base::digest_of(run.config);
  if (submission && submission->idempotency_key) take_key(*submission->idempotency_key, &run);
  // Of a run made by hand the journal alone decides, however often it is found: what a controller
  // noted beside it was read there, too.
  std::vector<runs::Launch> launches;
  if (submission) {
    launches = found.launches;
    const int newest = launches.empty() ? 0 : launches.back().number;
    if (found.state && found.state->launch > newest) {
      // It never began, as its file could not be written; its number is not another's.
      runs::Launch lost;
      lost.number = found.state->launch;
      lost.token = options_.random_hex(kTokenBytes);
      lost.started_utc = run.created_utc;
      lost.attempts_before = found.attempts;
      launches.push_back(lost);
    }
    run.scheduler = submission->scheduler;
    run.after = submission->after;
    run.archived = submission->archived;
    run.owner = submission->owner;
    run.tags = submission->tags;
    run.note = submission->note;
    run.changed_utc = submission->changed_utc;
    run.forked_from = submission->forked_from;
    run.forked_checkpoint = submission->forked_checkpoint;
    for (runs::Launch& launch : launches) {
      if (run.scheduler.empty()) run.scheduler = scheduler_of(launch);
      // Another was made when this one was over, whether or not that was written down.
      if (&launch != &launches.back()) launch.over = true;
    }
  }
  take_state(found, &run, &launches);
  const runs::RunNumber number = store_.add_run(run, launches);
  if (found_ <= kMostNamed) {
    base::log(base::LogLevel::Info, "run " + name + " was found in the runs directory");
  }
  return number;
}

// Seldom: of what came into the runs directory since adopt(), and of runs made by hand that are
// over, those that go on.
void Controller::look_for_new() {
  const double now = clock_.monotonic_seconds();
  if (!adopted_all_ || looking_ || now < next_look_ || !to_look_at_.empty()) return;
  next_look_ = now + kLookForNewSeconds;
  looking_ = true;
  const base::Path runs = options_.runs_directory;
  const bool begun = side_.begin<std::vector<std::string>>(
      runs, [files = &files_, runs] { return files->list(runs); },
      [this](files::Outcome<std::vector<std::string>> names) { take_look(names); });
  if (!begun) looking_ = false;
}

void Controller::take_look(const files::Outcome<std::vector<std::string>>& names) {
  looking_ = false;
  if (!names.value) {
    troubles_.tell("controller", names.error->what(), clock_.monotonic_seconds());
    return;
  }
  forget_unadopted(*names.value);
  const bool at_old_ones = ++looks_ % kLooksForOld == 0;
  const double now = clock_.monotonic_seconds();
  std::map<std::string, double> temporaries;
  for (const std::string& name : *names.value) {
    if (is_temporary(name)) {
      const auto before = temporaries_.find(name);
      temporaries[name] = before == temporaries_.end() ? now : before->second;
    }
    if (!is_run_name(name) || known_.count(name) > 0) continue;
    if (unadopted_.count(name) > 0) {
      read_again(name);
      continue;
    }
    const std::optional<runs::Run> run = store_.run(name);
    if (run &&
        (run->wanted != runs::Wanted::Observe ||
         clock_.utc_seconds() - run->ended_utc.value_or(clock_.utc_seconds()) > kOldRunSeconds)) {
      known_.insert(name);
    } else if (!run || (runs::is_over(run->state) && at_old_ones)) {
      to_look_at_.push_back(name);
    }
  }
  temporaries_ = std::move(temporaries);
  look_at_some();
}

void Controller::look_at_some() {
  while (!to_look_at_.empty() && looked_at_now_.size() < kMostAtOnce) {
    const std::string name = to_look_at_.front();
    to_look_at_.pop_front();
    if (!looked_at_now_.insert(name).second) continue;  // that look has not come back yet
    const base::Path directory = options_.runs_directory / name;
    std::map<std::string, std::int64_t> read;
    if (const auto run = store_.run(name)) {
      for (const runs::Attempt& attempt : store_.attempts(run->number)) {
        read[trainer::contract::AttemptName{attempt.number, attempt.execution}.text()] =
            attempt.offset;
      }
    }
    const auto work = [files = &files_, directory, read] {
      Look look;
      // What is being submitted has a submission.json before it has a row.
      look.submitted = files->exists(directory / runs::kSubmissionName);
      if (look.submitted || !files->exists(directory / "run.json")) return look;
      const auto opened = trainer::contract::RunDirectory::open(*files, directory);
      look.attempts = opened.attempts();
      if (look.attempts.empty()) return look;
      const auto known = read.find(look.attempts.back().text());
      look.more =
          has_more(*files, opened, look.attempts.back(), known == read.end() ? 0 : known->second);
      return look;
    };
    const bool begun = side_.begin<Look>(
        directory, work, [this, name](files::Outcome<Look> look) { take_one_look(name, look); });
    if (!begun) looked_at_now_.erase(name);
  }
  const double now = clock_.monotonic_seconds();
  for (auto& [name, since] : temporaries_) {
    if (now - since < kTemporarySeconds) continue;
    since = now;  // once a minute, until it is not there any more
    const base::Path path = options_.runs_directory / name;
    (void)side_.begin<bool>(
        path,
        [files = &files_, path] {
          files->remove_tree(path);
          return true;
        },
        [path](const files::Outcome<bool>& outcome) {
          if (!outcome.value) return;
          base::log(base::LogLevel::Info, "removed what a submission left: " + path.string());
        });
  }
}

void Controller::take_one_look(const std::string& name, const files::Outcome<Look>& outcome) {
  looked_at_now_.erase(name);
  try {
    if (outcome.error) throw base::Error(*outcome.error);
    if (outcome.value->more) consider(name, *outcome.value);
    troubles_.settle("directory " + name);
  } catch (const base::Error& error) {
    troubles_.tell("directory " + name, std::string("cannot adopt it: ") + error.what(),
                   clock_.monotonic_seconds());
  }
}

// What could not be read or understood may be put right; what came later was not there to be read.
void Controller::read_again(const std::string& name) {
  const base::Path directory = options_.runs_directory / name;
  (void)side_.begin<std::optional<FoundRun>>(
      directory, [files = &files_, directory] { return read_found(*files, directory); },
      [this, name](files::Outcome<std::optional<FoundRun>> found) { take_found(name, found); });
}

void Controller::consider(const std::string& name, const Look& look) {
  std::optional<runs::Run> run = store_.run(name);
  if (!run) return read_again(name);
  if (open_.count(run->number) > 0) return;  // its visits read it
  const std::vector<runs::Attempt> before = store_.attempts(run->number);
  const auto find = [&](const std::string& execution) {
    return std::find_if(before.begin(), before.end(), [&](const runs::Attempt& attempt) {
      return attempt.execution == execution;
    });
  };
  const auto known = find(look.attempts.back().execution);
  if (known != before.end() && known->exit_code) return;
  if (!before.empty() && find(look.attempts.front().execution) == before.end()) {
    throw base::Error(base::Code::Conflict,
                      "it was removed and made anew; only the old run is shown under this name, so "
                      "train in a directory of another name");
  }
  run->drained = false;
  store_.update_run(*run);
  open(*run)->found = true;  // its journal is read first, then its process is looked for
}

// An attempt that this controller did not start: watched like its own if it lives, else judged by
// its journal.
bool Controller::watch_successor(OpenRun* open) {
  const std::vector<runs::Attempt>& attempts = open->attempts;
  const std::vector<runs::Launch>& launches = open->launches;
  if (attempts.empty()) return false;
  // Two that began at once have one number, and one of them was fenced.
  const runs::Attempt* newest = &attempts.back();
  for (const runs::Attempt& attempt : attempts) {
    if (attempt.number == attempts.back().number && !attempt.exit_code) newest = &attempt;
  }
  // What a launch has watched to its end is over; a later one may have begun and ended unseen.
  const bool seen = !launches.empty() && newest->number - 1 <= launches.back().attempts_before;
  if (newest->exit_code && seen) return false;
  std::optional<std::string> handle;
  const bool here = newest->host.empty() || newest->host == base::host_name();
  if (here) handle = scheduler_.adopt(newest->process, open->run.directory);
  // Where an end was written down, only what began after it is news. Of a journal that cannot be
  // read nothing is known.
  const runs::Run& known = open->run;
  const bool ended = runs::is_over(known.state) && known.wanted != runs::Wanted::Observe;
  const bool later = newest->started && newest->start_utc > known.ended_utc.value_or(0);
  if (!handle && ended && !later) return false;
  const bool gone = here && scheduler_.is_gone(newest->process);
  if (!handle && !gone && open->run.wanted == runs::Wanted::Observe) handle = kByJournal;
  if (!handle && !launches.empty()) return false;
  runs::Launch launch;
  launch.number = launches.empty() ? 1 : launches.back().number + 1;
  launch.handle = handle.value_or("");
  launch.attempts_before = newest->number - 1;
  launch.started_utc = newest->start_utc;
  put_launch(open, launch);
  runs::Run& run = open->run;
  run.state = runs::RunState::Running;
  run.error.clear();
  run.ended_utc.reset();
  run.settled = false;
  open->unsaved = true;
  return true;
}

}  // namespace regatta::orchestrator::control
