#include "orchestrator/sweeps/next_actions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "orchestrator/sweeps/asha.h"
#include "orchestrator/sweeps/draws.h"
#include "orchestrator/sweeps/grid.h"
#include "orchestrator/sweeps/tpe.h"

namespace regatta::orchestrator::sweeps {
namespace {

int next_number(const SweepHistory& history) {
  int number = 1;
  for (const SweepTrial& trial : history.trials) number = std::max(number, trial.number + 1);
  return number;
}

// Nothing where there are no more: all trials were tried, or all points of the grid.
std::optional<StartTrial> next_start(const Sweep& sweep, const SweepHistory& history) {
  const SweepSettings& settings = sweep.settings;
  const int number = next_number(history);
  if (number > settings.trials) return std::nullopt;
  const std::int64_t budget = rung_budgets(settings).front();
  switch (settings.method) {
    case SweepMethod::Grid: {
      auto point = grid_point(sweep.space, static_cast<std::size_t>(number - 1));
      if (!point) return std::nullopt;
      return StartTrial{number, std::move(*point), budget};
    }
    case SweepMethod::Tpe:
      return StartTrial{number, tpe_values(sweep, history, number), budget};
    case SweepMethod::Random:
    case SweepMethod::Asha:
      break;
  }
  return StartTrial{number, random_values(sweep.space, settings.seed, number), budget};
}

std::optional<StopTrial> stop_at_goal(const SweepHistory& history) {
  std::optional<StopTrial> next;
  for (const SweepTrial& trial : history.trials) {
    if (is_at_goal(trial) && (!next || trial.number < next->number)) {
      next = StopTrial{trial.number, AfterStop::Release};
    }
  }
  return next;
}

bool has_free_slot(const SweepSettings& settings, const SweepHistory& history) {
  const auto training =
      std::count_if(history.trials.begin(), history.trials.end(), [](const SweepTrial& trial) {
        return trial.state == TrialState::Running && !is_at_goal(trial);
      });
  return training < settings.concurrency;
}

// Free slots first, so that a promoted trial goes on without a stop.
std::optional<SweepAction> next_action(const Sweep& sweep, const SweepHistory& history) {
  const bool asha = sweep.settings.method == SweepMethod::Asha;
  if (has_free_slot(sweep.settings, history)) {
    if (asha) {
      if (const auto promotion = next_promotion(sweep.settings, history)) return *promotion;
    }
    if (auto start = next_start(sweep, history)) return std::move(*start);
  }
  const auto stop = asha ? next_stop(sweep.settings, history) : stop_at_goal(history);
  if (stop) return *stop;
  return std::nullopt;
}

SweepTrial* find(SweepHistory* history, int number) {
  const auto found = std::find_if(history->trials.begin(), history->trials.end(),
                                  [&](const SweepTrial& each) { return each.number == number; });
  return found == history->trials.end() ? nullptr : &*found;
}

SweepTrial& known(SweepHistory* history, int number) {
  SweepTrial* const trial = find(history, number);
  base::check(trial != nullptr, "an action is about a trial of the history");
  return *trial;
}

}  // namespace

void carry_out(const SweepAction& action, SweepHistory* history) {
  if (const auto* const start = std::get_if<StartTrial>(&action)) {
    base::check(find(history, start->number) == nullptr, "a trial starts once");
    SweepTrial trial;
    trial.number = start->number;
    trial.values = start->values;
    trial.goal = start->budget;
    history->trials.push_back(std::move(trial));
  } else if (const auto* const on = std::get_if<ContinueTrial>(&action)) {
    SweepTrial& trial = known(history, on->number);
    trial.goal = on->budget;
    trial.state = TrialState::Running;
  } else if (const auto* const stop = std::get_if<StopTrial>(&action)) {
    known(history, stop->number).state =
        stop->checkpoints == AfterStop::Keep ? TrialState::Paused : TrialState::Finished;
  }
}

NextActions next_actions(const Sweep& sweep, const SweepHistory& history) {
  base::check(sweep.settings.trials > 0 && sweep.settings.concurrency > 0,
              "a sweep has trials and slots");
  NextActions next;
  SweepHistory then = history;
  while (auto action = next_action(sweep, then)) {
    carry_out(*action, &then);
    next.actions.push_back(std::move(*action));
  }
  // A slot is free if nothing runs, so that nothing is left to start or to promote.
  next.done = std::none_of(then.trials.begin(), then.trials.end(), [](const SweepTrial& trial) {
    return trial.state == TrialState::Running || trial.state == TrialState::Paused;
  });
  return next;
}

}  // namespace regatta::orchestrator::sweeps
