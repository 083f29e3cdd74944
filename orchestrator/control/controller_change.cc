// A run whose file is changed: extended when it is over, or changed while it is under way. The
// store first, in one transaction with the key and the wish: until then all is as it was, and from
// there on the next controller does the rest. Nothing is started before run.json says the same.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/wording.h"
#include "checkpoint/store.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/plan/run_changes.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/store/series.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {
namespace {

std::string command(const char* verb, const runs::Run& run) {
  return "`" + base::shown_command(verb, run.id) + "`";
}

// "120 steps", and of a batch that grew "40 steps (worth 120 of the first batch)".
std::string trained_text(const runs::RunSummary& summary, double steps) {
  const std::string whole = base::formatted("%.0f", std::floor(steps));
  if (!summary.progress) return whole + " steps";
  return std::to_string(summary.step) + " steps (worth " + whole + " of the first batch)";
}

trainer::contract::RunConfig config_of(const runs::Run& run) {
  return trainer::contract::parse_run_config(run.config, "run.json");
}

bool is_over(const runs::Run& run) {
  return runs::is_over(run.state) && run.wanted != runs::Wanted::Resume;
}

// The step of the newest checkpoint that is whole by its manifest; -1: there is none.
std::int64_t newest_checkpoint(base::FileSystem& files, const base::Path& run_directory) {
  for (const checkpoint::Entry& entry :
       checkpoint::CheckpointStore(files, run_directory / "checkpoints").list()) {
    if (entry.status == checkpoint::Status::Valid) return entry.step;
  }
  return -1;
}

// That it was changed before the change: whoever has only the directory asks the journals then
// whether the run has come to the end of its file (take_state).
void write_records(base::FileSystem& files, const runs::Run& run, bool resumes) {
  const base::Path directory = run.directory;
  if (auto submission = runs::read_submission(files, directory)) {
    submission->changed_utc = run.changed_utc;
    if (resumes) {
      submission->wanted = runs::Wanted::Run;
      submission->archived = false;
    }
    runs::write_submission(files, directory, *submission);
  }
  if (trainer::contract::RunDirectory::open(files, directory).run_json() != run.config) {
    base::replace_file(files, directory / "run.json", run.config);
  }
  auto state = resumes ? runs::read_state(files, directory) : std::nullopt;
  if (!state) return;
  state->state = runs::RunState::Queued;
  state->error.clear();
  state->ended_utc.reset();
  state->failures = 0;
  state->changed_utc = run.changed_utc;
  runs::write_state(files, directory, *state);
}

}  // namespace

bool Controller::extend(const std::string& run, const std::string& changes,
                        const std::optional<std::string>& idempotency_key, const std::string& by) {
  return alter(Alteration::Extend, run, changes, idempotency_key, by);
}

bool Controller::change(const std::string& run, const std::string& changes,
                        const std::optional<std::string>& idempotency_key, const std::string& by) {
  return alter(Alteration::Change, run, changes, idempotency_key, by);
}

bool Controller::alter(Alteration what, const std::string& name, const std::string& changes,
                       const std::optional<std::string>& key, const std::string& by) {
  const bool extends = what == Alteration::Extend;
  check_lease();
  const std::string id = find(name).id;
  const auto request =
      key_for(key, (extends ? "extend " : "change ") + id + " " + plan::canonical_json(changes));
  const files::NameLocks::Held held = hold(id, request);
  const runs::Run run = find(id);
  if (was_done(request)) return false;
  if (run.wanted == runs::Wanted::Observe) {
    refuse(run, "was started by hand; change its run file with `" +
                    base::shown_command("regatta-train run --directory", run.directory) +
                    " FILE`, which goes on with it");
  }
  if (const std::string why = why_not_ours(run); !why.empty()) refuse(run, why);
  refuse_gone(run);
  const plan::ChangedRunFile file =
      extends ? plan::with_extension(run.config, changes) : plan::with_changes(run.config, changes);
  const runs::Run changed = changed_run(run, file.text);
  const bool other_steps = !extends && changed.summary.steps != config_of(run).steps;
  if (extends) {
    refuse_extension(run, changed);
  } else if (file.words.empty()) {
    return nothing_to_do(run, request);
  } else if (other_steps) {
    if (is_over(run))
      refuse(run, "is over; " + command("regatta extend --steps N", run) + " continues it");
    if (static_cast<double>(changed.summary.steps) <= runs::steps_done(run.summary)) {
      refuse(run, "has trained " + trained_text(run.summary, runs::steps_done(run.summary)) +
                      "; give more, or " + command("regatta cancel", run) + " it");
    }
  }
  store_.change_run(changed, {file.words, extends, other_steps, request}, by);
  write_change(changed, what);
  base::log(base::LogLevel::Info, "run " + run.id + (extends ? " is extended" : " is changed") +
                                      (file.words.empty() ? "" : ": " + file.words));
  wake(run.number);
  return true;
}

// With this run file: what it is to reach, and whether its evaluations have.
runs::Run Controller::changed_run(const runs::Run& run, const std::string& config) {
  runs::Run changed = run;
  changed.config = config;
  changed.changed_utc = clock_.utc_seconds();
  store::take_changes(&changed);
  changed.summary.time_to_accuracy_seconds = runs::time_to_accuracy(store::evaluation_points(
      store::RunAxis(store_.attempts(run.number)), store_.evaluations(run.number, 0), changed));
  return changed;
}

// Of a run that is over: whether the store has all that its journals say, which after a loss of the
// store comes with its first visits.
bool Controller::is_read(const runs::Run& run) {
  if (run.drained) return true;
  const std::vector<runs::Attempt> attempts = store_.attempts(run.number);
  return !attempts.empty() && attempts.back().exit_code;
}

void Controller::refuse_extension(const runs::Run& run, const runs::Run& changed) {
  if (!is_over(run)) {
    refuse(run, "is under way; " + command("regatta change", run) + " changes its steps or target");
  }
  if (!is_read(run)) {
    throw base::Error(base::Code::Retry,
                      "run " + run.id +
                          " is still being read, and how far it has trained is not "
                          "known yet; try again in a moment");
  }
  const auto newest = std::make_shared<std::int64_t>(-1);  // with a work that may come later
  do_beside(run.directory, kListSeconds, [newest, files = &files_, directory = run.directory] {
    *newest = newest_checkpoint(*files, directory);
  });
  if (*newest < 0) {
    refuse(run, "has no checkpoint to go on from" +
                    (run.state == runs::RunState::Succeeded
                         ? "; submit it anew"
                         : "; " + command("regatta resume", run) + " begins it again"));
  }
  // A step is worth at least one of the first batch.
  const double trained = std::max(static_cast<double>(*newest), runs::steps_done(run.summary));
  if (static_cast<double>(changed.summary.steps) <= trained) {
    refuse(run, "has trained " + trained_text(run.summary, trained) + " and would end at " +
                    std::to_string(changed.summary.steps) + "; give more steps");
  }
  if (changed.summary.time_to_accuracy_seconds && config_of(changed).stop_at_target) {
    refuse(run,
           "has met this target already, and would stop at it again; give a harder one, or have it "
           "train on with --past-target (in the API {\"target\": {\"stop\": false}})");
  }
}

// Who gives up waiting for it leaves it to the loop.
void Controller::write_change(const runs::Run& run, Alteration what) {
  const auto given_up = std::make_shared<std::atomic<bool>>(false);
  try {
    do_beside(run.directory, options_.cancel_seconds,
              [given_up, files = &files_, run, resumes = what == Alteration::Extend] {
                if (!*given_up) write_records(*files, run, resumes);
              });
  } catch (const base::Error&) {  // the loop tries again, and tells
    *given_up = true;
  }
}

// From whoever changed it.
void Controller::take_change(const runs::Run& stored, OpenRun* open) {
  runs::Run& run = open->run;
  if (run.changed_utc == stored.changed_utc) return;
  run.config = stored.config;
  run.changed_utc = stored.changed_utc;
  follower_.take_changes(&run, open->attempts);
  run.drained = false;  // until it is written
  open->unsaved = true;
  open->unwritten.config = open->unwritten.submission = true;
  open->unwritten.again = 0;
}

// The newest: whoever has changed it since may have written it already.
std::string Controller::config_to_write(OpenRun* open) {
  if (const auto stored = store_.run(open->run.number)) open->run.config = stored->config;
  return open->run.config;
}

// Whether an attempt has come to the end that its run file had when it began, and not to the one
// that it has now.
bool Controller::goes_further(const runs::Run& run, const runs::Attempt& attempt) {
  const runs::RunSummary& summary = run.summary;
  if (!run.changed_utc || runs::steps_done(summary) >= static_cast<double>(summary.steps)) {
    return false;
  }
  if (attempt.exit_code != static_cast<int>(trainer::contract::ExitCode::Finished)) return false;
  if (attempt.reason == "steps") return true;
  if (attempt.reason != "target") return false;
  return !summary.time_to_accuracy_seconds || !config_of(run).stop_at_target;
}

std::optional<std::int64_t> Controller::time_limit_of(const runs::Run& run) const {
  if (runs::family_of(scheduler_.name()) != "slurm") return std::nullopt;
  return trainer::contract::slurm_resources_of(config_of(run)).time_limit_minutes;
}

// A job that waits or runs gets the limit that its run has now. What was refused is not asked
// again.
void Controller::keep_time_limit(OpenRun* open, runs::Launch* launch, runs::ProcessState process) {
  if (!open->run.changed_utc || !launch->time_limit || launch->handle.empty()) return;
  if (process != runs::ProcessState::Waiting && process != runs::ProcessState::Running) return;
  const auto answer = scheduler_.take_limit_answer(launch->handle);
  if (answer) {
    const bool refused = !answer->refusal.empty();
    store::Event event;
    event.kind = refused ? "launch.limit_refused" : "launch.limited";
    event.run = open->run.id;
    event.launch = launch->number;
    event.words =
        std::to_string(answer->minutes) + " minutes" + (refused ? ": " + answer->refusal : "");
    store_.note(event);
    launch->time_limit = answer->minutes;
    put_launch(open, *launch);
  }
  const std::int64_t wanted = time_limit_of(open->run).value_or(0);
  if (wanted > 0 && wanted != *launch->time_limit) scheduler_.limit(launch->handle, wanted);
}

}  // namespace regatta::orchestrator::control
