// All combinations of a space's points.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "orchestrator/sweeps/space.h"

namespace regatta::orchestrator::sweeps {

// A parameter's values in a grid, in order, each once: choices, all integers of a range without
// `points`, or `points` of them, evenly spaced by its scale from low to high and rounded where it
// is an integer (so that there may be fewer). At most `most` are made. The program ends for a
// continuous range without points.
[[nodiscard]] std::vector<SweepValue> grid_values(const SweepParameter& parameter,
                                                  std::size_t most);

// How many combinations of active parameters' values there are, counted up to `most`.
[[nodiscard]] std::size_t grid_size(const Space& space, std::size_t most);
// The combination of this place, from 0; nothing past the last one. The last parameter varies
// fastest.
[[nodiscard]] std::optional<SweepValues> grid_point(const Space& space, std::size_t place);

}  // namespace regatta::orchestrator::sweeps
