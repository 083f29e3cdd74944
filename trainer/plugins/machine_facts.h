// What this machine is: section `machine` of environment.json, and what is measured of it now.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "trainer/plugins/machine_files.h"

namespace regatta::trainer::plugins {

// processor_facts(), memory, huge pages, limits of the control group, kernel, operating system,
// container and product; each only where it was found.
[[nodiscard]] nlohmann::ordered_json machine_facts(const MachineFiles& files);

// The limits that the control groups of this process set, version 2 and 1: "processors" (how many
// at once, such as 1.5) and "memory_bytes", the least of the group and those it lies in. Empty
// where none does.
[[nodiscard]] nlohmann::ordered_json group_limits(const MachineFiles& files);

// mean_mhz, throttled (how often since the machine started), processor_pressure (percent of the
// last 10 s in which something waited for a processor), threads (ran_seconds and waited_seconds for
// a processor, of this process's threads together); each only where it was found.
[[nodiscard]] nlohmann::ordered_json clocks_now(const MachineFiles& files);
// How often processors were throttled between two answers of clocks_now(), by the kernel's names
// for it; empty where neither says.
[[nodiscard]] nlohmann::ordered_json throttled_between(const nlohmann::ordered_json& before,
                                                       const nlohmann::ordered_json& after);

// Percent of the time in which threads ran or could have run that they waited for a processor,
// between two answers of clocks_now(); nothing where either does not tell.
[[nodiscard]] std::optional<double> waited_between(const nlohmann::ordered_json& before,
                                                   const nlohmann::ordered_json& after);

}  // namespace regatta::trainer::plugins
