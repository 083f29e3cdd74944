// What data sheets and standards say of parts: the one table from which figures are derived when
// nobody has measured. Bandwidth: GB/s (10^9 bytes), one direction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace regatta::topology::graph {

enum class NvlinkForm : std::uint8_t {
  None,
  Bridge,  // a card that may have a bridge to its neighbour
  Board,   // all links are wired on the board, or in the rack
};

struct GpuFigures {
  const char* words;  // that must stand in the name, each as a word of its own
  int compute_capability;
  NvlinkForm form;
  int nvlinks;               // at most
  double gb_per_s_a_nvlink;  // of each
  int pcie_generation;       // ×16 always
  double c2c_gb_per_s;       // to its CPU; 0: none
};

// The row whose words all stand in the name ("NVIDIA H100 80GB HBM3", "H100-SXM5"), the most
// special one first; null for a GPU that is not in the table.
[[nodiscard]] const GpuFigures* gpu_figures(std::string_view model);

// Bytes that pass after the line code, before packet headers; 0 where a figure is. PCIe generations
// 1 to 6.
[[nodiscard]] double pcie_gb_per_s(double gt_s, double lanes);
[[nodiscard]] std::optional<double> pcie_gt_s(int generation);

struct NetworkRate {
  std::int64_t mbit_per_s;
  int lanes;
  const char* link_layer;  // "InfiniBand", "Ethernet"
};
// "NDR" (4 lanes), "HDR100", "1X SDR", "100GbE"; nothing for what is no rate.
[[nodiscard]] std::optional<NetworkRate> network_rate(std::string_view name);

// Between two sockets, as NCCL reckons it for this vendor (cpuid's text).
[[nodiscard]] double socket_gb_per_s(std::string_view vendor);

// Bytes that all-reduce moves over each GPU's slowest link, for a guess at the time that a step
// loses: the gradient of BERT-Large in bfloat16 (336 million weights) through a ring, 2·(n−1)/n ≈ 2
// times.
inline constexpr double kGradientBytesMoved = 2.0 * 2.0 * 336e6;
// Share of bandwidth that is left when data goes through host memory instead of GPUDirect: 33 of 93
// GB/s, two nodes of 8 GPUs (NVIDIA/nccl issue 1412).
inline constexpr double kShareWithoutGpuDirect = 33.0 / 93.0;

}  // namespace regatta::topology::graph
