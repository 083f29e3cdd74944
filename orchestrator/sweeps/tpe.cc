#include "orchestrator/sweeps/tpe.h"

#include <algorithm>
#include <cmath>

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

// What the trials in which the parameter was active had of it.
std::vector<SweepValue> values_in(const Trials& trials, const SweepParameter& parameter) {
  std::vector<SweepValue> values;
  for (const SweepTrial* const trial : trials) {
    const auto found = trial->values.find(parameter.key);
    if (found != trial->values.end() && can_be(parameter, found->second)) {
      values.push_back(found->second);
    }
  }
  return values;
}

std::vector<double> probabilities_in(const Trials& trials, const SweepParameter& parameter) {
  std::vector<int> counts(parameter.choices.size(), 0);
  for (const SweepValue& value : values_in(trials, parameter)) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      counts[i] += same_value(parameter.choices[i], value) ? 1 : 0;
    }
  }
  return choice_probabilities(counts);
}

SweepValue best_choice(const SweepParameter& parameter, const Parts& parts, const DrawKey& key) {
  const std::vector<double> l = probabilities_in(parts.good, parameter);
  const std::vector<double> g = probabilities_in(parts.others, parameter);
  std::size_t best = l.size();
  for (std::uint32_t candidate = 0; candidate < kTpeCandidates; ++candidate) {
    double left = draw(key, 1 + candidate).first;
    std::size_t at = 0;
    while (at + 1 < l.size() && left >= l[at]) left -= l[at++];
    if (best == l.size() || l[at] / g[at] > l[best] / g[best]) best = at;
  }
  return parameter.choices.at(best);
}

ParzenEstimator estimator_of(const Trials& trials, const SweepParameter& parameter,
                             const NumberScale& scale) {
  std::vector<double> centres;
  for (const SweepValue& value : values_in(trials, parameter)) {
    if (const auto number = number_in(value)) centres.push_back(scale.position(*number));
  }
  return {scale.low(), scale.high(), std::move(centres)};
}

// log l/g; of an integer k the mass from k − ½ to k + ½ is compared.
double log_ratio(const ParzenEstimator& l, const ParzenEstimator& g, const NumberScale& scale,
                 const SweepValue& value, bool whole) {
  const double number = number_in(value).value_or(0);
  if (whole) {
    const double from = scale.position(number - 0.5), to = scale.position(number + 0.5);
    return std::log(l.mass(from, to)) - std::log(g.mass(from, to));
  }
  const double at = scale.position(number);
  return std::log(l.density(at)) - std::log(g.density(at));
}

SweepValue best_number(const SweepParameter& parameter, const Parts& parts, const DrawKey& key) {
  const NumberScale scale(parameter);
  const ParzenEstimator l = estimator_of(parts.good, parameter, scale);
  const ParzenEstimator g = estimator_of(parts.others, parameter, scale);
  std::optional<SweepValue> best;
  double most = 0;
  for (std::uint32_t candidate = 0; candidate < kTpeCandidates; ++candidate) {
    const UnitPair u = draw(key, 1 + candidate);
    const SweepValue value = scale.value(l.point(u.first, u.second));
    const double ratio = log_ratio(l, g, scale, value, parameter.kind == ParameterKind::Integer);
    if (!best || ratio > most) {
      best = value;
      most = ratio;
    }
  }
  return *best;
}

}  // namespace

SweepValues tpe_values(const Sweep& sweep, const SweepHistory& history, int trial) {
  const Parts parts = parts_of(sweep.settings, history);
  const std::uint64_t seed = sweep.settings.seed;
  if (parts.good.size() + parts.others.size() < kTpeRandomTrials) {
    return random_values(sweep.space, seed, trial);
  }
  SweepValues values;
  const auto& parameters = sweep.space.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const SweepParameter& parameter = parameters[i];
    if (!is_active(parameter, values)) continue;
    const DrawKey key{seed, trial, i};
    values[parameter.key] = parameter.kind == ParameterKind::Choice
                                ? best_choice(parameter, parts, key)
                                : best_number(parameter, parts, key);
  }
  return values;
}

}  // namespace regatta::orchestrator::sweeps
