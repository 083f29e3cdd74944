// /sys and /proc of a Linux machine, from a capture: NUMA domains, the PCIe tree, GPUs, network
// cards and their ports. The layout is that of the kernel's Documentation/ABI.
#pragma once

#include <string>
#include <vector>

#include "topology/graph.h"

namespace regatta::topology {

struct Capture;

// Which of a directory's entries are read, for the collector: "*" stands for one name.
[[nodiscard]] const std::vector<std::string>& sysfs_patterns();
// Attributes of a PCI device that are read of GPUs, network cards, NVSwitches and of the bridges
// above them.
[[nodiscard]] const std::vector<std::string>& pci_attributes();
// Whether devices of this class are of interest: "0x030200".
[[nodiscard]] bool is_wanted_pci_class(const std::string& text);

// Bus ids above `device` that stand for a PCIe switch of their own, outermost first. `device` is a
// resolved path: /sys/devices/pci0000:3a/0000:3a:00.0/…. A switch is two bridges, of which the
// upper one names it; the root port belongs to the CPU (as NCCL counts, topology.md section 3).
[[nodiscard]] std::vector<std::string> switches_above(const std::string& device);

[[nodiscard]] Graph read_sysfs(const Capture& capture);

}  // namespace regatta::topology
