// What NVML said (nvml_calls.h), as a graph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::sources {

// GPUs with bus id, model, UUID, compute capability, PCIe width, NVLinks (to GPUs, to NVSwitches,
// or to `host`/nvswitch#0 where the far end has no bus id), state of the NVLink fabric, and their
// NVLink domain beyond the node. A line that is not of the format is passed over: the child may
// have been killed in the middle of one.
[[nodiscard]] graph::Graph read_nvml(std::string_view lines, const std::string& host);

// Calls that began and never ended.
[[nodiscard]] std::vector<std::string> nvml_timeouts(std::string_view lines);
// Why there is no NVML; empty when there is.
[[nodiscard]] std::string nvml_missing(std::string_view lines);

}  // namespace regatta::topology::sources
