// /sys and /proc of a Linux machine, from a capture: NUMA domains, the PCIe tree, GPUs, network
// cards and their ports. The layout is that of the kernel's Documentation/ABI.
#pragma once

#include <string>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::sources {

struct Capture;

// Which of a directory's entries are read, for the collector: "*" stands for one name.
[[nodiscard]] const std::vector<std::string>& sysfs_patterns();
// Attributes of a PCI device that are read of GPUs, network cards, NVSwitches and of the bridges
// above them. Beside them a capture has kAcsControl of bridges, which is no file of its own.
[[nodiscard]] const std::vector<std::string>& pci_attributes();
inline constexpr const char* kAcsControl = "acs_control";  // the register as text: "0x001d"
// Whether devices of this class are of interest: "0x030200".
[[nodiscard]] bool is_wanted_pci_class(const std::string& text);

// The PCIe switches above `device`, outermost first. `device` is a resolved path:
// /sys/devices/pci0000:3a/0000:3a:00.0/…. A switch is two bridges, of which the upper one names it;
// the root port belongs to the CPU (as NCCL counts).
struct PciSwitchPorts {
  std::string upstream, downstream;  // bus ids; the device is behind the downstream port
  bool operator==(const PciSwitchPorts&) const = default;
};
[[nodiscard]] std::vector<PciSwitchPorts> switches_above(const std::string& device);

// Whether a device of this class is a bridge, or a GPU: "0x060400", "0x030200".
[[nodiscard]] bool is_pci_bridge(const std::string& text);
[[nodiscard]] bool is_pci_gpu(const std::string& text);

[[nodiscard]] graph::Graph read_sysfs(const Capture& capture);

}  // namespace regatta::topology::sources
