// The checks of the doctor, by theme. Each looks at one thing and leaves id and severity to the
// table in doctor.cc unless the case is milder or worse than usual.
#pragma once

#include <vector>

#include "topology/doctor/doctor_view.h"

namespace regatta::topology::doctor {

// A finding whose id is empty gets its check's, with the usual severity.
using Look = std::vector<graph::Finding> (*)(const ClusterView& view);

struct Check {
  CheckInfo info;
  Look look;
};

[[nodiscard]] std::vector<Check> pcie_checks();    // PCIe, and what is near to what
[[nodiscard]] std::vector<Check> nvlink_checks();  // NVLink and NVSwitch
[[nodiscard]] std::vector<Check> nic_checks();     // NICs and GPUDirect
[[nodiscard]] std::vector<Check> fabric_checks();  // switches and cables
[[nodiscard]] std::vector<Check> node_checks();    // CPUs, nodes that differ, machines and files
[[nodiscard]] std::vector<Check> environment_checks();  // variables

// For a finding that is milder or worse than its check usually is.
void set_severity(graph::Finding* finding, const char* id, graph::Severity severity);

}  // namespace regatta::topology::doctor
