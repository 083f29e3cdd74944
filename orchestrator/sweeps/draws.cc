#include "orchestrator/sweeps/draws.h"

#include <algorithm>

#include "base/philox.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr std::uint32_t kSweepSite = 0x53575031;  // no site of the trainer's

// The upper 53 bits of the two words, the first one leading.
double unit_of(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32U | low) >> 11U;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace

UnitPair draw(const DrawKey& key, std::uint32_t block) {
  const base::PhiloxCounter words =
      base::philox(key.seed, {block, static_cast<std::uint32_t>(key.parameter),
                              static_cast<std::uint32_t>(key.trial), kSweepSite});
  return {unit_of(words[0], words[1]), unit_of(words[2], words[3])};
}

SweepValue prior_value(const SweepParameter& parameter, double u) {
  if (parameter.kind == ParameterKind::Choice) {
    const std::size_t count = parameter.choices.size();
    const auto place = static_cast<std::size_t>(u * static_cast<double>(count));
    return parameter.choices.at(std::min(place, count - 1));
  }
  const NumberScale scale(parameter);
  return scale.value(scale.low() + u * (scale.high() - scale.low()));
}

SweepValues random_values(const Space& space, std::uint64_t seed, int trial) {
  SweepValues values;
  const auto& parameters = space.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!is_active(parameters[i], values)) continue;
    values[parameters[i].key] = prior_value(parameters[i], draw({seed, trial, i}, 0).first);
  }
  return values;
}

}  // namespace regatta::orchestrator::sweeps
