// The machines of a simulation: any number of nodes of a described kind, or the first nodes of a
// cluster that was read from them; and what a device can do by its data sheet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/graph/graph.h"
#include "topology/nccl/communication_curve.h"
#include "topology/nccl/cost_model.h"
#include "topology/nccl/nccl_tests_log.h"
#include "topology/sources/cluster_file.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

inline constexpr double kTera = 1e12;  // of FLOP/s and bytes/s, as data sheets have them

struct DeviceFigures {
  const char* words;                 // of topology/graph/figures.h
  double float32_flops, half_flops;  // per second: plain float32, and dense 16-bit products
  double memory_bytes_per_second;
  int multiprocessors;
};

// Null for a model that is not in the table.
[[nodiscard]] const DeviceFigures* device_figures(const std::string& model);
// Of products in this precision. TF32 is half of 16 bits where there is TF32.
[[nodiscard]] double peak_flops(const DeviceFigures& device,
                                trainer::contract::Precision precision);

struct Machines {
  int nodes = 1;
  int ranks_per_node = 1;
  std::string gpu_model;
  const DeviceFigures* device = nullptr;  // null where nobody knows it
  topology::nccl::Allocation allocation;
  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

class Cluster {
 public:
  // Any file that `regatta topo` reads. Throws Code::User where it describes no node.
  [[nodiscard]] static Cluster read(const std::string& text, const std::string& source);

  // `ranks_per_node` of 0: every GPU of the first node. Throws Code::User for no nodes, for more
  // than a graph has (a description has as many as are asked for, of its first kind), and for what
  // allocation_of() refuses.
  [[nodiscard]] Machines machines(int nodes, int ranks_per_node) const;
  static constexpr int kMostNodes = 16384;

 private:
  std::string source_;
  std::optional<topology::sources::ClusterDescription> description_;
  topology::graph::Graph graph_;
};

// Of computing while large collectives of this kind run: the share of the GPU's multiprocessors
// that NCCL's channels keep busy; 0.15 (20 of 132) where the device is not known.
inline constexpr double kSlowdown = 0.15;
[[nodiscard]] double slowdown_of(const topology::nccl::CostModel& model,
                                 topology::nccl::Collective collective,
                                 const DeviceFigures* device);

// What sums and gathers take on these machines.
struct Network {
  topology::nccl::CommunicationCurve sum;  // all-reduce, or reduce-scatter where state is sharded
  topology::nccl::CommunicationCurve gather;  // all-gather of what was sharded
  double slowdown = 0;                        // slowdown_of() the sum
  bool measured = false;                      // the sum, else by NCCL's model
};
// By the logs that fit (topology::misfit()), else by NCCL's model.
[[nodiscard]] Network network_of(const topology::nccl::Allocation& allocation,
                                 const DeviceFigures* device, bool is_sharded,
                                 const std::vector<topology::nccl::NcclTestLog>& logs = {});
// Nothing takes any time: of one rank, or of a link without limits.
[[nodiscard]] Network no_network();

}  // namespace regatta::orchestrator::plan
