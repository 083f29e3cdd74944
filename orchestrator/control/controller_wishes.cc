// What somebody asks of a run: that it end, go on, or begin anew elsewhere; and what is written on
// it. A wish is in the store before anything is done for it.
#include <memory>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/request_key.h"
#include "orchestrator/plan/run_changes.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/runs/run_records.h"

namespace regatta::orchestrator::control {
namespace {

[[noreturn]] void refuse_wish(const runs::Run& run, const std::string& why) {
  throw base::Error(base::Code::Conflict, "run " + run.id + " " + why);
}

}  // namespace

std::optional<store::RequestKey> Controller::key_for(const std::optional<std::string>& key,
                                                     const std::string& asked) {
  if (!key) return std::nullopt;
  check_key(*key);
  return store::RequestKey{*key, base::digest_of(asked)};
}

files::NameLocks::Held Controller::hold(const std::string& run,
                                        const std::optional<store::RequestKey>& key) {
  std::vector<std::string> names{run};
  if (key) names.push_back(lock_name(key->key));
  return changing_.take(names, kChangeSeconds);
}

std::optional<files::NameLocks::Held> Controller::hold_key(
    const std::optional<store::RequestKey>& key) {
  if (!key) return std::nullopt;
  return changing_.take({lock_name(key->key)}, kChangeSeconds);
}

bool Controller::was_done(const std::optional<store::RequestKey>& key) {
  if (!key) return false;
  const auto before = store_.changed_with(key->key);
  if (!before) {
    if (const auto made = store_.submitted_with(key->key)) refuse_key_of_submission(made->id);
    return false;
  }
  if (before->body_digest == key->digest) return true;
  refuse_key_of_change(before->id);
}

// Nor the next time that the same request comes, whatever has become of the run by then.
bool Controller::nothing_to_do(const runs::Run& run, const std::optional<store::RequestKey>& key) {
  if (key) store_.keep_key(run.number, *key);
  return false;
}

bool Controller::cancel(const std::string& name, const std::string& by,
                        const std::optional<std::string>& idempotency_key) {
  check_lease();
  wait_for_first_visit(name);
  const std::string id = find(name).id;
  const auto key = key_for(idempotency_key, "cancel " + id);
  const files::NameLocks::Held held = hold(id, key);
  const runs::Run run = find(id);
  if (was_done(key)) return false;
  const bool over = runs::is_over(run.state) && run.wanted != runs::Wanted::Resume;
  if (over || run.wanted == runs::Wanted::Cancel) {
    if (!over) wake(run.number);  // the loop may have missed it
    return nothing_to_do(run, key);
  }
  const std::vector<runs::Launch> launches = store_.launches(run.number);
  if (!launches.empty() && !launches.back().over && launches.back().handle == kByJournal) {
    throw base::Error(base::Code::Conflict,
                      "run " + run.id + " was started by hand elsewhere, so only its journal is " +
                          "known here; end its process or its job (scancel)");
  }
  const std::string why = why_not_ours(run);
  if (!why.empty() && !launches.empty() && !launches.back().over) {
    throw base::Error(base::Code::Conflict, "run " + run.id + " " + why);
  }
  // The store first: it works on a full disk, and the run directory is written when that can be.
  store_.set_wanted(run.number, runs::Wanted::Cancel, by, key);
  try {
    do_beside(run.directory, options_.cancel_seconds, [files = &files_, run] {
      auto submission = runs::read_submission(*files, run.directory);
      if (!submission) submission = runs::submission_of(run);
      submission->wanted = runs::Wanted::Cancel;
      runs::write_submission(*files, run.directory, *submission);
    });
  } catch (const base::Error&) {  // the loop tries again, and tells
  }
  base::log(base::LogLevel::Info, "run " + run.id + " is to be cancelled");
  wake(run.number);
  return true;
}

bool Controller::requeue(const std::string& name, const std::string& changes, const std::string& by,
                         const std::optional<std::string>& idempotency_key) {
  check_lease();
  const std::string id = find(name).id;
  const auto key = key_for(idempotency_key, "requeue " + id + " " + plan::canonical_json(changes));
  const files::NameLocks::Held held = hold(id, key);
  const runs::Run run = find(id);
  if (was_done(key)) return false;
  if (run.wanted == runs::Wanted::Observe) {
    refuse_wish(run, "was started by hand; end its process or its job, and start another");
  }
  refuse_gone(run);
  if (runs::is_over(run.state) && run.wanted != runs::Wanted::Resume) {
    refuse_wish(run,
                "is over; `" + base::shown_command("regatta resume", run.id) + "` lets it go on");
  }
  if (run.wanted == runs::Wanted::Cancel) refuse_wish(run, "is stopping");
  if (const std::string why = why_not_ours(run); !why.empty()) refuse_wish(run, why);
  const std::vector<runs::Launch> launches = store_.launches(run.number);
  const bool idle = launches.empty() || launches.back().over;
  if (!idle && launches.back().handle == kByJournal) {
    refuse_wish(run,
                "goes on elsewhere, and only its journal is known here; end its job (scancel)");
  }
  const std::string config = plan::with_slurm_changes(run.config, changes);
  const bool changed = config != run.config;
  const bool ends = !idle && run.wanted != runs::Wanted::Requeue;
  if (!changed && !ends) return nothing_to_do(run, key);
  if (changed) {
    const runs::Run other = changed_run(run, config);
    store_.change_run(
        other, {plan::changed_keys(run.config, config), false, false, ends ? std::nullopt : key},
        by);
    write_change(other, Alteration::Change);
  }
  if (ends) store_.set_wanted(run.number, runs::Wanted::Requeue, by, key);
  base::log(base::LogLevel::Info, "run " + run.id + " is to be requeued" +
                                      (changed ? ", and asks Slurm for something else" : ""));
  wake(run.number);
  return true;
}

bool Controller::resume(const std::string& name, const std::string& changes, const std::string& by,
                        const std::optional<std::string>& idempotency_key) {
  check_lease();
  const std::string id = find(name).id;
  const auto key = key_for(idempotency_key, "resume " + id + " " + plan::canonical_json(changes));
  const files::NameLocks::Held held = hold(id, key);
  const runs::Run run = find(id);
  if (was_done(key)) return false;
  const auto refuse = [&run](const std::string& why) { refuse_wish(run, why); };
  if (run.wanted == runs::Wanted::Observe) {
    refuse("was started by hand; go on with `" +
           base::shown_command("regatta-train run --directory", run.directory) + "`");
  }
  const std::string config = plan::with_slurm_changes(run.config, changes);
  const bool changed = config != run.config;
  if (!runs::is_over(run.state)) {
    if (run.wanted == runs::Wanted::Cancel) refuse("is stopping; resume it when it has stopped");
    if (changed) refuse("is not over, so what it asks for stays; cancel it first");
    return nothing_to_do(run, key);
  }
  if (run.state == runs::RunState::Succeeded)
    refuse("has reached its end; there is nothing to resume");
  if (const std::string why = why_not_ours(run); !why.empty()) refuse(why);
  refuse_gone(run);
  if (changed) {
    if (run.wanted == runs::Wanted::Resume) {
      refuse("is resumed already, so what it asks for stays; cancel it first");
    }
    const runs::Run other = changed_run(run, config);
    store_.change_run(other, {plan::changed_keys(run.config, config), false, false, {}}, by);
    write_change(other, Alteration::Change);
  }
  store_.set_wanted(run.number, runs::Wanted::Resume, by, key);
  if (run.archived) store_.set_archived(run.number, false, by);
  try {
    do_beside(run.directory, options_.cancel_seconds, [files = &files_, run] {
      auto submission = runs::read_submission(*files, run.directory);
      if (submission && (submission->wanted != runs::Wanted::Run || submission->archived)) {
        submission->wanted = runs::Wanted::Run;
        submission->archived = false;
        runs::write_submission(*files, run.directory, *submission);
      }
      auto state = runs::read_state(*files, run.directory);
      if (!state) return;
      state->state = runs::RunState::Queued;
      state->error.clear();
      state->ended_utc.reset();
      state->failures = 0;
      runs::write_state(*files, run.directory, *state);
    });
  } catch (const base::Error&) {  // the loop tries again, and tells
  }
  base::log(base::LogLevel::Info, "run " + run.id + " is to be resumed" +
                                      (changed ? ", and asks Slurm for something else" : ""));
  wake(run.number);
  return true;
}

runs::Labels Controller::label(const std::string& name, const runs::LabelChange& change,
                               const std::string& by) {
  check_lease();
  const files::NameLocks::Held held = changing_.take({find(name).id}, kChangeSeconds);
  const runs::Run run = find(name);
  const runs::Labels labels = runs::changed({run.tags, run.note}, change);
  if (labels == runs::Labels{run.tags, run.note}) return labels;
  // The directory first: from there the store can be made again. One that was made by hand has no
  // place for them.
  do_beside(run.directory, options_.cancel_seconds, [files = &files_, run, labels] {
    auto submission = runs::read_submission(*files, run.directory);
    if (!submission) return;
    submission->tags = labels.tags;
    submission->note = labels.note;
    runs::write_submission(*files, run.directory, *submission);
  });
  store_.set_labels(run.number, labels, by);
  wake(run.number);
  return labels;
}

// What was asked of a run that is over: it waits for a place like one that has never run. Not
// before the store says so: else a controller that has only the store would take it up once more
// when it is over.
void Controller::take_up(OpenRun* open) {
  runs::Run run = open->run;
  run.wanted = runs::Wanted::Run;
  run.state = runs::RunState::Queued;
  run.reason = "was resumed";
  if (const auto stored = store_.run(run.id)) {
    const bool succeeded = open->run.state == runs::RunState::Succeeded;
    if (succeeded || stored->summary.steps > run.summary.steps) run.reason = "was extended";
    run.config = stored->config;
    run.changed_utc = stored->changed_utc;
  }
  follower_.take_changes(&run, open->attempts);
  run.wait = {};
  run.error.clear();
  run.ended_utc.reset();
  run.failures = 0;
  run.drained = run.settled = run.archived = false;
  try {
    if (!store_.take_up(run)) return;  // who wanted something else has told
  } catch (const base::Error& error) {
    troubles_.tell("run " + run.id, error.what(), clock_.monotonic_seconds());
    const std::scoped_lock lock(wake_mutex_);
    told_.push_back(run.number);  // again with the next round
    return;
  }
  open->run = std::move(run);
  open->unsaved = false;
  open->not_before = 0;
  open->stop_sent.reset();
  open->stop_asked.reset();
  open->unwritten.submission = open->unwritten.state = true;
  open->unwritten.config = open->run.changed_utc.has_value();
}

// Nothing is under way any more.
void Controller::end_requeue(OpenRun* open) {
  if (store_.end_requeue(open->run.number)) {
    open->run.wanted = runs::Wanted::Run;
  } else if (const auto stored = store_.run(open->run.number)) {
    open->run.wanted = stored->wanted;
  }
}

}  // namespace regatta::orchestrator::control
