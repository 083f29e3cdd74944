#include "orchestrator/sweeps/tpe.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
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

// For one candidate: which component of a density, and where within it for each place in the space.
struct CandidateDraws {
  double component = 0;
  std::function<double(std::size_t place)> within;
};
using DrawsOf = std::function<CandidateDraws(std::uint32_t candidate)>;

// Of the candidates drawn from l that with the greatest l/g.
SweepValues most_promising(const Space& space, const Parts& parts, const DrawsOf& draws_of) {
  const TrialDensity l(space, parts.good), g(space, parts.others);
  std::optional<SweepValues> best;
  double most = 0;
  for (std::uint32_t candidate = 0; candidate < kTpeCandidates; ++candidate) {
    const CandidateDraws draws = draws_of(candidate);
    SweepValues values = l.drawn(draws.component, draws.within);
    const double ratio = l.log_at(values) - g.log_at(values);
    if (best && !(ratio > most)) continue;
    best = std::move(values);
    most = ratio;
  }
  return *best;
}

SweepValues all_together(const Sweep& sweep, const Parts& parts, int trial) {
  const std::size_t beyond = sweep.space.parameters().size();  // no parameter's draws
  return most_promising(sweep.space, parts, [&](std::uint32_t candidate) {
    const auto number = [seed = sweep.settings.seed, trial, candidate](std::size_t place) {
      return draw({seed, trial, place}, 1 + candidate).first;
    };
    return CandidateDraws{number(beyond), number};
  });
}

Trials having(const Trials& trials, const std::string& key) {
  Trials found;
  std::copy_if(trials.begin(), trials.end(), std::back_inserter(found),
               [&](const SweepTrial* trial) { return trial->values.contains(key); });
  return found;
}

SweepValues each_alone(const Sweep& sweep, const Parts& parts, int trial) {
  SweepValues values;
  for (std::size_t place = 0; place < sweep.space.parameters().size(); ++place) {
    SweepParameter parameter = sweep.space.parameters()[place];
    if (!is_active(parameter, values)) continue;
    parameter.when.clear();
    const Parts own{having(parts.good, parameter.key), having(parts.others, parameter.key)};
    values.merge(most_promising(Space({parameter}), own, [&](std::uint32_t candidate) {
      const UnitPair pair = draw({sweep.settings.seed, trial, place}, 1 + candidate);
      return CandidateDraws{pair.second, [pair](std::size_t) { return pair.first; }};
    }));
  }
  return values;
}

}  // namespace

SweepValues tpe_values(const Sweep& sweep, const SweepHistory& history, int trial) {
  const Parts parts = parts_of(sweep.settings, history);
  if (parts.good.size() + parts.others.size() < kTpeRandomTrials) {
    return random_values(sweep.space, sweep.settings.seed, trial);
  }
  return trial % kTpeAloneEvery == 0 ? each_alone(sweep, parts, trial)
                                     : all_together(sweep, parts, trial);
}

}  // namespace regatta::orchestrator::sweeps
