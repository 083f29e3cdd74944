// Random numbers of a sweep: pure functions of (seed, trial, parameter, draw), by Philox4x32-10
// (README.md, "Random numbers").
#pragma once

#include <cstddef>
#include <cstdint>

#include "orchestrator/sweeps/space.h"

namespace regatta::orchestrator::sweeps {

// The draws of one parameter of one trial.
struct DrawKey {
  std::uint64_t seed = 0;
  int trial = 0;
  std::size_t parameter = 0;  // its place in the space
};

// Two numbers in [0, 1) of 53 bits each.
struct UnitPair {
  double first = 0;
  double second = 0;
};
[[nodiscard]] UnitPair draw(const DrawKey& key, std::uint32_t block);

// The parameter's value for u in [0, 1): even over its choices, or over its range by its scale.
[[nodiscard]] SweepValue prior_value(const SweepParameter& parameter, double u);
// Of a whole trial, of which block 0 decides (Bergstra & Bengio, Random Search for Hyper-Parameter
// Optimization, JMLR 13, 2012).
[[nodiscard]] SweepValues random_values(const Space& space, std::uint64_t seed, int trial);

}  // namespace regatta::orchestrator::sweeps
