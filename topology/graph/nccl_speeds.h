// The speeds that NCCL 2.28 assigns to links, in GB/s of one direction, and what else follows from
// a device's generation alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace regatta::topology::graph {

// One NVLink of a GPU with this compute capability (90 for 9.0); nothing before Pascal.
[[nodiscard]] std::optional<double> nvlink_gb_per_s(std::int64_t compute_capability);

// The NVLinks of the largest GPU of an architecture: a sum over more of them is a switch's.
inline constexpr int kMostNvlinks = 18;
[[nodiscard]] int nvlinks_of(std::int64_t compute_capability);  // kMostNvlinks when not known

// Of a name like "NVIDIA H100 80GB HBM3"; nothing when it names no GPU that is known.
[[nodiscard]] std::optional<std::int64_t> compute_capability_of(std::string_view model);

// The GT/s of "32.0 GT/s PCIe" or "16 GT/s"; nothing for other text.
[[nodiscard]] std::optional<double> parse_pcie_speed(std::string_view text);
// A PCIe link. NCCL takes Gen3 for a speed that it does not know (0 here), and 16 lanes for width
// 0.
[[nodiscard]] double nccl_pcie_gb_per_s(double gt_per_s, std::int64_t width);

struct CpuModel {
  std::string_view arch;    // "x86_64", "arm64", "ppc64"
  std::string_view vendor;  // "GenuineIntel"
  std::int64_t family = 0;
  std::int64_t model = 0;
};
// Between two sockets or NUMA domains; nothing for a CPU that NCCL does not know.
[[nodiscard]] std::optional<double> smp_gb_per_s(const CpuModel& cpu);

// A port; NCCL takes 10 Gbit/s for one of unknown speed.
[[nodiscard]] double nic_gb_per_s(std::int64_t mbit_per_s);

}  // namespace regatta::topology::graph
