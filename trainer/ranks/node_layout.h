// Which ranks share a host.
#pragma once

#include <array>
#include <vector>

#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::ranks {

using HostName = std::array<char, 256>;  // zeros behind the name

[[nodiscard]] HostName this_host_name();

// The number of ranks of each host, where every host has the same number and its ranks follow one
// another; else 1. `names` has the host of each rank, and at least one.
[[nodiscard]] int ranks_per_node(const std::vector<HostName>& names);

// The same, asked of all ranks.
[[nodiscard]] int ranks_per_node(HostCollectives& host);

}  // namespace regatta::trainer::ranks
