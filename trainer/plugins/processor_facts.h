// The processors of this machine, as the kernel tells them: part of section `machine` of
// environment.json (docs/formats/environment.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainer/plugins/machine_files.h"

namespace regatta::trainer::plugins {

// processor, sockets, cores, threads, usable_threads, instruction_sets, caches, numa_nodes,
// frequency, hypervisor; each only where it was found. Nothing that changes from one moment to the
// next.
[[nodiscard]] nlohmann::ordered_json processor_facts(const MachineFiles& files);

}  // namespace regatta::trainer::plugins
