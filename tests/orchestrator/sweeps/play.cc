#include "tests/orchestrator/sweeps/play.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "base/philox.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr int kMostAsked = 100'000;

struct Training {
  double end = 0;
  std::int64_t goal = 0, from = 0;
};

SweepTrial& trial_of(SweepHistory* history, int number) {
  return *std::find_if(history->trials.begin(), history->trials.end(),
                       [&](const SweepTrial& each) { return each.number == number; });
}

class Player {
 public:
  Player(const Sweep& sweep, const World& world) : sweep_(sweep), world_(world) {}

  // Whether to go on.
  bool act(const NextActions& next) {
    for (const SweepAction& action : next.actions) {
      carry_out(action, &played_.history);
      if (const auto* const start = std::get_if<StartTrial>(&action)) {
        train(start->number, start->budget);
      } else if (const auto* const on = std::get_if<ContinueTrial>(&action)) {
        train(on->number, on->budget);
      }
    }
    played_.most_at_once = std::max(played_.most_at_once, static_cast<int>(training_.size()));
    played_.ended = next.done;
    return !next.done && !training_.empty();
  }

  // The next trial gets where it was to go.
  void pass() {
    const auto first =
        std::min_element(training_.begin(), training_.end(),
                         [](const auto& a, const auto& b) { return a.second.end < b.second.end; });
    const auto [number, done] = *first;
    training_.erase(first);
    now_ = done.end;
    SweepTrial& trial = trial_of(&played_.history, number);
    played_.trained += done.goal - done.from;
    if (world_.breaks(number, done.goal)) {
      trial.state = TrialState::Failed;
      trial.reason = "the node was lost";
      return;
    }
    const bool ends = world_.ends(number, done.goal);
    const std::int64_t reached = ends ? (done.from + done.goal) / 2 : done.goal;
    trial.reports.push_back({reached, world_.objective(trial, reached)});
    if (ends) trial.state = TrialState::Finished;
  }

  Played played_;

 private:
  void train(int number, std::int64_t goal) {
    Training& training = training_[number];
    const auto& reports = trial_of(&played_.history, number).reports;
    training.from = reports.empty() ? 0 : reports.back().budget;
    training.goal = goal;
    training.end = now_ + static_cast<double>(goal - training.from) * world_.pace(number);
  }

  const Sweep& sweep_;
  const World& world_;
  std::map<int, Training> training_;
  double now_ = 0;
};

}  // namespace

Played play(const Sweep& sweep, const World& world, const Watcher& watch) {
  Player player(sweep, world);
  for (int asked = 0; asked < kMostAsked; ++asked) {
    const NextActions next = next_actions(sweep, player.played_.history);
    watch(player.played_.history, next);
    if (!player.act(next)) break;
    player.pass();
  }
  return player.played_;
}

SweepTrial trial_at(int number, std::int64_t goal, TrialState state,
                    std::vector<TrialReport> reports) {
  SweepTrial trial;
  trial.number = number;
  trial.goal = goal;
  trial.state = state;
  trial.reports = std::move(reports);
  return trial;
}

double chance(std::uint32_t a, std::uint32_t b) {
  return base::philox(7, {a, b, 0, 0})[0] * 0x1p-32;
}

Space mixed_space() {
  SweepParameter rate{"rate", ParameterKind::LogUniform, 1e-5, 1e-1, true, {}, 4, {}};
  SweepParameter decay{"decay", ParameterKind::Uniform, -1, 2, false, {}, 3, {}};
  SweepParameter size{"size", ParameterKind::Integer, 1, 64, true, {}, 4, {}};
  SweepParameter name{"name", ParameterKind::Choice, 0, 0, false, {"adamw", "lamb", true}, 0, {}};
  SweepParameter beta{"beta", ParameterKind::Uniform, 0.5, 0.9, false, {}, 2, {}};
  beta.when = {{"name", {"lamb", true}}};
  SweepParameter layers{"layers", ParameterKind::Integer, 0, 3, false, {}, 0, {}};
  layers.when = {{"name", {true}}};
  SweepParameter above{"above", ParameterKind::Choice, 0, 0, false, {}, 0, {}};
  above.choices = {std::int64_t{32}, 0.5};
  above.when = {{"layers", {std::int64_t{2}, 3.0}}, {"name", {true, "lamb"}}};
  return Space({rate, decay, size, name, beta, layers, above});
}

Space unit_space(int parameters) {
  std::vector<SweepParameter> all;
  for (int i = 0; i < parameters; ++i) {
    SweepParameter each;
    each.key = "x" + std::to_string(i);
    each.high = 1;
    all.push_back(each);
  }
  return Space(all);
}

double number_of(const SweepTrial& trial, const char* key) {
  return number_in(trial.values.at(key)).value();
}

}  // namespace regatta::orchestrator::sweeps
