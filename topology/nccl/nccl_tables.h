// The constants of NCCL's tuning model, one table per version that is known: what it takes a hop,
// a channel and an algorithm for. Microseconds; GB/s (10^9 bytes), one direction.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace regatta::topology::nccl {

// The order of all three is NCCL's: it decides between equal times, and indexes its tables.
enum class Collective : std::uint8_t { Broadcast, Reduce, AllGather, ReduceScatter, AllReduce };
enum class Algorithm : std::uint8_t {
  Tree,
  Ring,
  CollNetDirect,
  CollNetChain,
  Nvls,
  NvlsTree,
  Pat
};
enum class Protocol : std::uint8_t { Ll, Ll128, Simple };
inline constexpr int kCollectives = 5;
inline constexpr int kAlgorithms = 7;
inline constexpr int kProtocols = 3;

// As NCCL writes them: "AllReduce", "CollNetDirect", "LL128".
[[nodiscard]] const char* name_of(Collective collective);
[[nodiscard]] const char* name_of(Algorithm algorithm);
[[nodiscard]] const char* name_of(Protocol protocol);

struct NcclTables {
  const char* version;  // "2.28"

  // What a call takes at least, and a hop over NVLink, over PCIe and over the network.
  double base_us[kAlgorithms][kProtocols];
  double nvlink_us[kAlgorithms][kProtocols];
  double pcie_us[kAlgorithms][kProtocols];
  double network_us[kAlgorithms][kProtocols];

  // Bandwidth at most. Rows: Volta and older, Ampere, Hopper, Blackwell; columns: on one node, on
  // two, on more. LL is of the whole bus, the others of one channel.
  double ll_gb_per_s[4][3];
  double ring_ll128_gb_per_s[4][3];
  double tree_ll128_gb_per_s[4][3];
  double tree_gb_per_s[4][3];
  double nvls_tree_gb_per_s[4][3];
  double nvls_efficiency[4];

  // Trees miss the model at middle sizes: a share of the bandwidth for each power of two from 64 B.
  static constexpr int kTreeSizes = 23;
  double tree_share[kProtocols][kTreeSizes];
};

// For "2.28" or "2.28.9"; null for a version whose constants are not known.
[[nodiscard]] const NcclTables* nccl_tables(std::string_view version);
[[nodiscard]] const NcclTables& newest_nccl_tables();

// The speeds of one channel that NCCL's search tries, fastest first, ended by 0.
[[nodiscard]] const double* channel_speeds_within_node(int compute_capability);
[[nodiscard]] const double* channel_speeds_between_nodes(int compute_capability);

}  // namespace regatta::topology::nccl
