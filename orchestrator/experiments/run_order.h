// In which order an experiment's runs follow each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace regatta::orchestrator::experiments {

struct OrderSize {
  std::size_t layouts = 0, seeds = 0;
};

// Of each seed, its layouts in the order in which they run, so that what changes with time (a
// device that grows warm, a neighbour on the node) is no layout's alone: every layout once for each
// seed, and with two seeds or more the sums of places that layouts have over all seeds differ by at
// most one. A pure function; `draw` decides only which layout is which.
//
// As many seeds as layouts make a Latin square, in which every layout has every place once; rows
// are those of Williams (Australian Journal of Scientific Research 2, 1949), so that with an even
// number of layouts each also follows each other one once. Other seeds come in pairs, the second of
// a pair backwards, and at most once in a triple.
[[nodiscard]] std::vector<std::vector<std::size_t>> balanced_order(const OrderSize& size,
                                                                   std::uint64_t draw);

}  // namespace regatta::orchestrator::experiments
