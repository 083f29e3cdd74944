#include "orchestrator/sweeps/tpe.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "orchestrator/sweeps/draws.h"
#include "orchestrator/sweeps/parzen.h"

namespace regatta::orchestrator::sweeps {
namespace {

using Trials = std::vector<const SweepTrial*>;

struct Parts {
  Trials good, others;
};

// Those with an objective, by it and then by number; so many of them are good that there is one.
Parts parts_of(const SweepSettings& settings, const SweepHistory& history) {
  std::vector<std::pair<double, const SweepTrial*>> known;
  for (const SweepTrial& trial : history.trials) {
    if (const auto objective = objective_at(trial, trial.goal)) {
      known.emplace_back(*objective, &trial);
    }
  }
  std::sort(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    if (comes_before(a.first, b.first, settings.better)) return true;
    if (comes_before(b.first, a.first, settings.better)) return false;
    return a.second->number < b.second->number;
  });
  const std::size_t share = (known.size() * kTpeGoodPercent + 99) / 100;
  const std::size_t good = std::min<std::size_t>(share, kTpeMostGood);
  Parts parts;
  for (std::size_t i = 0; i < known.size(); ++i) {
    (i < good ? parts.good : parts.others).push_back(known[i].second);
  }
  return parts;
}

}  // namespace

SweepValues tpe_values(const Sweep& sweep, const SweepHistory& history, int trial) {
  const Parts parts = parts_of(sweep.settings, history);
  const std::uint64_t seed = sweep.settings.seed;
  if (parts.good.size() + parts.others.size() < kTpeRandomTrials) {
    return random_values(sweep.space, seed, trial);
  }
  const TrialDensity l(sweep.space, parts.good), g(sweep.space, parts.others);
  const std::size_t beyond = sweep.space.parameters().size();  // no parameter's draws
  std::optional<SweepValues> best;
  double most = 0;
  for (std::uint32_t candidate = 0; candidate < kTpeCandidates; ++candidate) {
    const auto number = [&](std::size_t place) {
      return draw({seed, trial, place}, 1 + candidate).first;
    };
    SweepValues values = l.drawn(number(beyond), number);
    const double ratio = l.log_at(values) - g.log_at(values);
    if (best && !(ratio > most)) continue;
    best = std::move(values);
    most = ratio;
  }
  return *best;
}

}  // namespace regatta::orchestrator::sweeps
