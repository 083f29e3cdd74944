// What a collective takes, by NCCL's own tuning model: the prior of every prediction, to be
// corrected by measurements (measured_curve.h). It is near for gigabytes and too optimistic by a
// third and more for the sizes of buckets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "topology/graph/paths.h"
#include "topology/nccl/nccl_tables.h"

namespace regatta::topology::nccl {

enum class HostCpu : std::uint8_t { Intel, Amd, Other };

// Channels that NCCL's search found, and the speed of one inside a node and between nodes.
struct NcclChannels {
  int count = 0;
  double gb_per_s_within = 0;
  double gb_per_s_between = 0;  // as within, on one node
};

// The GPUs of a communicator: all nodes alike.
struct Allocation {
  int nodes = 1;  // as NCCL counts: all GPUs of one NVLink domain are one node
  int ranks_per_node = 1;
  int compute_capability = 0;                     // 90 for 9.0; of the oldest GPU
  bool one_capability = true;                     // of all GPUs
  HostCpu host = HostCpu::Intel;                  // of mixed hosts: Amd
  double gb_per_s_within = 0;                     // out of one GPU to those of its node
  graph::PathType within = graph::PathType::Nvl;  // the worst path between two GPUs of a node
  bool nvswitch = false;                          // with multicast, where the GPUs have it
  int nics = 0;                                   // of a node
  double gb_per_s_a_nic = 0;
  graph::PathType to_nic =
      graph::PathType::Pix;   // the worst path from a GPU to the NIC of its channel
  double nic_latency_us = 0;  // "latency" of the NIC in NCCL's topology
  bool sharp = false;         // collectives in the network

  bool plain_tree = false;  // the search found no balanced or split tree (pattern 3)

  // From a graph dump, where there is one; else CostModel searches in the simple way of its
  // constructor.
  std::optional<NcclChannels> ring, tree, nvls;
};

enum class ReduceOp : std::uint8_t { Sum, PreMulSum, Other };  // averages are PreMulSum

struct Call {
  Collective collective = Collective::AllReduce;
  std::uint64_t bytes = 0;  // the greater of what a rank sends and receives
  ReduceOp op = ReduceOp::Sum;
  int calls_in_group = 1;  // that share one decision, with `bytes` of all of them
};

struct Way {
  Algorithm algorithm = Algorithm::Ring;
  Protocol protocol = Protocol::Simple;
  int channels = 0;  // 0: as many as NCCL takes
};

struct Choice {
  Way way;  // channels and threads as NCCL cuts them down for small calls
  int threads = 0;
  double us = 0;
};

class CostModel {
 public:
  // Throws Code::User for an allocation that cannot be: no ranks, no bandwidth, several nodes
  // without NICs, or more ranks than kMostRanks.
  //
  // Channels that are not given are found as NCCL's search finds them on machines without
  // bottlenecks: the speed from its list that gives the most in all, as many channels as the GPU's
  // links (and the NICs) carry at it, doubled where NCCL doubles them.
  //
  // `tables` must live as long: those of nccl_tables() do.
  explicit CostModel(const Allocation& allocation, const NcclTables& tables = newest_nccl_tables());

  // Nothing where NCCL does not offer the algorithm and protocol for the call. Fewer channels than
  // NCCL would take cost bandwidth in proportion; more give none (of this NCCL's model says
  // nothing: it is ours).
  [[nodiscard]] std::optional<double> time_us(const Call& call, const Way& way) const;
  // What NCCL itself would take, and the time that it reckons. For one rank: nothing to do, 0 µs.
  [[nodiscard]] Choice choice(const Call& call) const;

  [[nodiscard]] bool is_offered(const Call& call, const Way& way) const;
  [[nodiscard]] double latency_us(const Call& call, const Way& way) const;
  // Bytes of the call by second; what NCCL prints as algorithm bandwidth.
  [[nodiscard]] double gb_per_s(const Call& call, const Way& way) const;
  // Blocks that the kernel of a large call has, one per channel.
  [[nodiscard]] int channels_of(Algorithm algorithm) const;

  [[nodiscard]] int ranks() const { return allocation_.nodes * allocation_.ranks_per_node; }
  [[nodiscard]] const Allocation& allocation() const { return allocation_; }

  static constexpr int kMostRanks = 1 << 20;

 private:
  [[nodiscard]] const NcclChannels& found(Algorithm algorithm) const;
  [[nodiscard]] double bus_gb_per_s(const Call& call, const Way& way) const;
  [[nodiscard]] double nvls_gb_per_s(const Call& call, Algorithm algorithm) const;
  [[nodiscard]] double collnet_gb_per_s(const Call& call) const;

  Allocation allocation_;
  const NcclTables* tables_;
  NcclChannels ring_, tree_, nvls_;
  int row_ = 0, column_ = 0;  // of the tables of bandwidths
};

}  // namespace regatta::topology::nccl
