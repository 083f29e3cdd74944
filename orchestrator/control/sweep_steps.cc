// One look at a sweep: what has become of its trials, what follows, and what is asked for.
#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "base/shell_words.h"
#include "orchestrator/control/sweep_driver.h"
#include "orchestrator/control/sweep_objective.h"

namespace regatta::orchestrator::control {
namespace {

using base::Code;
using sweeps::TrialState;

constexpr double kDiverged = std::numeric_limits<double>::quiet_NaN();
constexpr int kAskedAtOnce = 16;            // of one sweep, before the others have their turn
constexpr int kFailuresInARow = 5;          // trials, after which the next one waits
constexpr double kPauseAfterFailures = 60;  // seconds
constexpr int kInputsLookedAt = 8;

std::string key_of(const SweepRecord& record, const TrialRecord& trial) {
  return "sweep/" + record.id + "/" + std::to_string(trial.number);
}

sweeps::StartTrial start_of(const TrialRecord& trial) {
  return {trial.number, trial.values, trial.goal};
}

std::int64_t goal_steps(const SweepRecord& record, const TrialRecord& trial) {
  return sweeps::trial_config(record.file, start_of(trial)).steps;
}

// It trains no more, and all that it has trained is known.
bool is_over(const runs::Run& run) {
  return runs::is_over(run.state) && run.wanted != runs::Wanted::Resume && run.drained;
}

void end(TrialRecord* trial, TrialState state, std::string reason, double utc) {
  trial->state = state;
  trial->reason = std::move(reason);
  trial->ended = utc;
}

bool may_pass(const base::Error& error) {
  return error.code() == Code::Retry || error.code() == Code::Operator;
}

// Whether the trials that ended last have all failed: then it is more likely the machine than their
// values, and others would only follow them.
const TrialRecord* last_of_many_failures(const SweepRecord& record) {
  std::vector<const TrialRecord*> ended;
  for (const TrialRecord& each : record.trials) {
    if (each.ended && each.state != TrialState::Running) ended.push_back(&each);
  }
  std::sort(ended.begin(), ended.end(), [](const TrialRecord* a, const TrialRecord* b) {
    return std::pair(*b->ended, b->number) < std::pair(*a->ended, a->number);
  });
  if (ended.size() < kFailuresInARow) return nullptr;
  ended.resize(kFailuresInARow);
  const bool all = std::all_of(ended.begin(), ended.end(), [](const TrialRecord* each) {
    return each->state == TrialState::Failed;
  });
  return all ? ended.front() : nullptr;
}

std::string changed_words(const runs::Run& run, std::int64_t steps) {
  const std::string wanted = std::to_string(steps);
  return "its run was changed to end after " + std::to_string(run.summary.steps) +
         " steps, and the trial is to train " + wanted + "; `" +
         base::shown_command("regatta extend --steps " + wanted, run.id) + "` lets it go on";
}

bool any_runs(const SweepRecord& record) {
  return std::any_of(record.trials.begin(), record.trials.end(),
                     [](const TrialRecord& each) { return each.state == TrialState::Running; });
}

// Those whose datasets and `from` are looked at: the first one, or several where parameters are
// about these.
std::vector<trainer::contract::RunConfig> first_runs(const SweepRecord& record) {
  const auto is_about = [](const sweeps::SweepParameter& each) {
    return each.key.rfind("data.", 0) == 0 || each.key.rfind("from.", 0) == 0;
  };
  const auto& parameters = record.file.sweep.space.parameters();
  const bool several = std::any_of(parameters.begin(), parameters.end(), is_about);
  sweeps::Sweep asked = record.file.sweep;
  asked.settings.concurrency = several ? kInputsLookedAt : 1;
  std::vector<trainer::contract::RunConfig> runs;
  for (const sweeps::SweepAction& action : sweeps::next_actions(asked, {}).actions) {
    const auto* const start = std::get_if<sweeps::StartTrial>(&action);
    if (start != nullptr) runs.push_back(sweeps::trial_config(record.file, *start));
  }
  return runs;
}

}  // namespace

std::vector<std::string> SweepDriver::check_inputs(const SweepRecord& record) {
  std::vector<std::string> doubts;
  for (const trainer::contract::RunConfig& run : first_runs(record)) {
    for (const std::string& doubt : controller_.check_inputs(run)) {
      const bool known = std::find(doubts.begin(), doubts.end(), doubt) != doubts.end();
      if (!known) doubts.push_back(doubt);
    }
  }
  return doubts;
}

std::vector<PreviewCheck> SweepDriver::check(const SweepRecord& record) {
  std::vector<PreviewCheck> checks;
  for (const trainer::contract::RunConfig& run : first_runs(record)) {
    for (PreviewCheck& check : controller_.preview(trainer::contract::to_json(run), {}).checks) {
      const bool known = std::any_of(checks.begin(), checks.end(), [&](const PreviewCheck& other) {
        return other.name == check.name && other.detail == check.detail;
      });
      if (!known) checks.push_back(std::move(check));
    }
  }
  return checks;
}

// Decides, writes it down, then asks for what follows from it; true where there is more to ask for.
bool SweepDriver::advance(const std::string& id) {
  const Shown now = update(id, [this](SweepRecord* record) { return decide(record); });
  if (now == nullptr || now->state != SweepState::Running) return false;
  if (now->stops) {
    cancel_runs(*now);
    return false;
  }
  std::vector<TrialRecord> asked;
  bool more = false;
  try {
    for (TrialRecord trial : now->trials) {
      if (trial.state != TrialState::Running || !ask(*now, &trial)) continue;
      asked.push_back(trial);
      more = std::ssize(asked) == kAskedAtOnce;
      if (more) break;
    }
  } catch (const base::Error&) {
    keep(id, asked);
    throw;
  }
  keep(id, asked);
  const TrialRecord* const failed = last_of_many_failures(*now);
  if (failed != nullptr && !more) {
    throw base::Error(Code::Retry, "the newest " + std::to_string(kFailuresInARow) +
                                       " trials failed, so the next one begins a minute after "
                                       "them; of the last: " +
                                       failed->reason);
  }
  return more;
}

void SweepDriver::keep(const std::string& id, const std::vector<TrialRecord>& asked) {
  if (asked.empty()) return;
  (void)update(id, [&](SweepRecord* record) {
    for (const TrialRecord& each : asked) {
      record->trials[static_cast<std::size_t>(each.number - 1)] = each;
    }
    return true;
  });
}

bool SweepDriver::decide(SweepRecord* record) {
  bool changed = false;
  for (TrialRecord& trial : record->trials) {
    if (trial.state == TrialState::Running && observe(*record, &trial)) changed = true;
    if (trial.state == TrialState::Failed && goes_on(*record, trial)) {
      trial.state = TrialState::Running;
      trial.reason.clear();
      trial.ended.reset();
      changed = true;
    }
  }
  const double now = clock_.utc_seconds();
  if (!record->stops) {
    const TrialRecord* const failed = last_of_many_failures(*record);
    if (failed != nullptr && now < *failed->ended + kPauseAfterFailures) return changed;
    const sweeps::NextActions next = sweeps::next_actions(record->file.sweep, history_of(*record));
    for (const sweeps::SweepAction& action : next.actions) carry_out(action, now, record);
    if (next.done) record->state = SweepState::Done, record->ended_utc = now;
    return changed || next.done || !next.actions.empty();
  }
  if (any_runs(*record)) return changed;
  for (TrialRecord& trial : record->trials) {
    if (trial.state == TrialState::Paused) end(&trial, TrialState::Finished, "", now);
  }
  record->state = SweepState::Stopped;
  record->ended_utc = now;
  return true;
}

// Whether somebody has resumed the run of a trial that failed. One that has succeeded was resumed
// if it was to go as far as the trial; else it is as it was when the trial was refused to go on.
bool SweepDriver::goes_on(const SweepRecord& record, const TrialRecord& trial) {
  if (trial.run.empty()) return false;
  const auto run = controller_.store().run(trial.run);
  if (!run || run->wanted == runs::Wanted::Cancel) return false;
  if (run->wanted == runs::Wanted::Resume || !runs::is_over(run->state)) return true;
  return run->state == runs::RunState::Succeeded && run->summary.steps >= goal_steps(record, trial);
}

// Whether a run that is not known is not there. One that cannot be read at the moment may be.
bool SweepDriver::knows_all_runs() {
  const auto adoption = controller_.adoption();
  return adoption.done && adoption.refused == 0;
}

std::string SweepDriver::run_state(const std::string& id) {
  if (const auto run = controller_.store().run(id)) return runs::name_of(run->state);
  return knows_all_runs() ? kRemovedRun : "";
}

// What has become of the run of a trial that trains.
bool SweepDriver::observe(const SweepRecord& record, TrialRecord* trial) {
  const double now = clock_.utc_seconds();
  if (trial->run.empty()) return false;
  const auto run = controller_.store().run(trial->run);
  if (!run) {
    if (!knows_all_runs()) return false;
    end(trial, TrialState::Failed, "its run was removed", now);
    return true;
  }
  if (!is_over(*run)) return false;
  if (run->state == runs::RunState::Failed) {
    const std::vector<runs::Attempt> attempts = controller_.store().attempts(run->number);
    const bool diverged = !attempts.empty() && attempts.back().reason == "diverged";
    // What it had reached before counts no more: going on from there ends so.
    if (diverged) trial->reports.push_back({std::max<std::int64_t>(trial->goal, 1), kDiverged});
    end(trial, diverged ? TrialState::Finished : TrialState::Failed,
        diverged ? "diverged" : run->error, now);
    return true;
  }
  if (run->state != runs::RunState::Succeeded) {
    if (record.stops) {
      end(trial, TrialState::Finished, kStoppedReason, now);
    } else {
      end(trial, TrialState::Failed, "its run was cancelled", now);
    }
    return true;
  }
  const std::int64_t steps = goal_steps(record, *trial);
  if (run->summary.steps < steps) {  // it is to go on
    if (record.stops) end(trial, TrialState::Finished, kStoppedReason, now);
    return record.stops;
  }
  const sweeps::SweepSettings& settings = record.file.sweep.settings;
  const double objective = objective_of(controller_.store(), *run, settings.objective, steps);
  const bool in_steps = settings.unit == sweeps::BudgetUnit::Steps;
  const bool at_goal = run->summary.step >= steps;
  const std::int64_t trained = in_steps ? run->summary.step : run->summary.samples;
  const bool open_end = trial->goal == 0;  // as far as its file says
  trial->reports.push_back({at_goal && !open_end ? trial->goal : trained, objective});
  // One that stops at its target would not go on, whatever its goal, which is no longer this rung.
  const bool met = run->summary.time_to_accuracy_seconds && record.file.run.stop_at_target;
  if (met || !at_goal) {
    if (trial->goal > 0) trial->goal = sweeps::rung_budgets(settings).back();
    end(trial, TrialState::Finished, "met its target", now);
  } else if (open_end) {
    end(trial, TrialState::Finished, "", now);
  } else if (record.stops) {
    end(trial, TrialState::Finished, kStoppedReason, now);
  }
  return true;
}

// Those that train, of a sweep that stops; one may have been asked for without an answer.
void SweepDriver::cancel_runs(const SweepRecord& record) {
  std::vector<TrialRecord> ended;
  for (TrialRecord trial : record.trials) {
    if (trial.state != TrialState::Running) continue;
    std::string run = trial.run;
    if (run.empty()) {
      const auto before = controller_.store().submitted_with(key_of(record, trial));
      if (before) {
        trial.run = run = before->id;
      } else {
        end(&trial, TrialState::Finished, kStoppedReason, clock_.utc_seconds());
      }
      ended.push_back(trial);
    }
    const auto known = run.empty() ? std::nullopt : controller_.store().run(run);
    if (known && !runs::is_over(known->state)) (void)controller_.cancel(run, record.owner);
  }
  keep(record.id, ended);
}

// Has a run made, or go on, where the trial needs it. Whether something is to be kept of that.
bool SweepDriver::ask(const SweepRecord& record, TrialRecord* trial) {
  try {
    if (trial->run.empty()) {
      runs::LabelChange label;
      label.add_tags = {tag_of(record)};
      const std::string text =
          trainer::contract::to_json(sweeps::trial_config(record.file, start_of(*trial)));
      trial->run = controller_.submit(text, key_of(record, *trial), {}, record.owner, label).run.id;
      return true;
    }
    const auto run = controller_.store().run(trial->run);
    if (!run || !is_over(*run) || run->state != runs::RunState::Succeeded) return false;
    const std::int64_t steps = goal_steps(record, *trial);
    if (run->summary.steps >= steps) return false;
    const bool extended = controller_.extend(
        trial->run, "{\"steps\": " + std::to_string(steps) + "}",
        key_of(record, *trial) + "/" + std::to_string(trial->goal), record.owner);
    // It was before, and somebody has changed its steps since.
    if (!extended) throw base::Error(Code::Conflict, changed_words(*run, steps));
    return false;
  } catch (const base::Error& error) {
    if (may_pass(error)) throw;
    end(trial, TrialState::Failed, error.what(), clock_.utc_seconds());
    return true;
  }
}

}  // namespace regatta::orchestrator::control
