// Host values of ranks that are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "trainer/ranks/host_collectives.h"

namespace regatta::tests {

// One for each rank. Plain: a rank that is lost lets the others wait for ever.
[[nodiscard]] std::vector<std::unique_ptr<trainer::ranks::HostCollectives>> make_thread_hosts(
    int ranks);

}  // namespace regatta::tests
