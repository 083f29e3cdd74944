#include "orchestrator/plan/cluster_machines.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/figures.h"
#include "topology/nccl/allocation.h"
#include "topology/nccl/measured_curve.h"
#include "topology/sources/read_any.h"

namespace regatta::orchestrator::plan {
namespace {

using topology::graph::Kind;
using topology::nccl::Collective;

// NVIDIA's data sheets of each product (dense figures, without sparsity) and its architecture white
// papers (multiprocessors). Words are those of topology/graph/figures.h.
constexpr DeviceFigures kDevices[] = {
    {"GB200", 80 * kTera, 2500 * kTera, 8.0 * kTera, 148},
    {"B200", 75 * kTera, 2250 * kTera, 8.0 * kTera, 148},
    {"GH200", 67 * kTera, 989 * kTera, 4.0 * kTera, 132},
    {"H200", 67 * kTera, 989 * kTera, 4.8 * kTera, 132},
    {"H100 PCIE", 51 * kTera, 756 * kTera, 2.0 * kTera, 114},
    {"H100", 67 * kTera, 989 * kTera, 3.35 * kTera, 132},
    {"L40S", 91.6 * kTera, 362 * kTera, 0.864 * kTera, 142},
    {"A100 SXM4", 19.5 * kTera, 312 * kTera, 2.039 * kTera, 108},
    {"A100 PCIE", 19.5 * kTera, 312 * kTera, 1.935 * kTera, 108},
    {"V100 SXM2", 15.7 * kTera, 125 * kTera, 0.9 * kTera, 80},
    {"V100 PCIE", 14 * kTera, 112 * kTera, 0.9 * kTera, 80},
};
constexpr int kFirstWithTf32 = 80;

}  // namespace

const DeviceFigures* device_figures(const std::string& model) {
  const topology::graph::GpuFigures* const known = topology::graph::gpu_figures(model);
  if (known == nullptr) return nullptr;
  for (const DeviceFigures& device : kDevices) {
    if (std::string_view(device.words) == known->words) return &device;
  }
  return nullptr;
}

double peak_flops(const DeviceFigures& device, trainer::contract::Precision precision) {
  switch (precision) {
    case trainer::contract::Precision::Float32:
      break;
    case trainer::contract::Precision::Tf32: {
      const topology::graph::GpuFigures* const known = topology::graph::gpu_figures(device.words);
      const bool has_tf32 = known != nullptr && known->compute_capability >= kFirstWithTf32;
      return has_tf32 ? device.half_flops / 2 : device.float32_flops;
    }
    case trainer::contract::Precision::BFloat16:
    case trainer::contract::Precision::Float16:
      return device.half_flops;
  }
  return device.float32_flops;
}

Cluster Cluster::read(const std::string& text, const std::string& source) {
  Cluster cluster;
  cluster.source_ = source;
  topology::sources::Reading reading = topology::sources::read_any(text, source);
  if (reading.format == "cluster description") {
    cluster.description_ = topology::sources::parse_cluster(text, source);
  } else {
    cluster.graph_ = std::move(reading.graph);
    if (cluster.graph_.of_kind(Kind::Node).empty()) {
      throw base::Error(base::Code::User, base::printable(source) +
                                              ": describes no node; give a cluster "
                                              "description or a graph with its nodes");
    }
  }
  return cluster;
}

Machines Cluster::machines(int nodes, int ranks_per_node) const {
  if (nodes < 1 || nodes > kMostNodes) {
    throw base::Error(base::Code::User, "cannot simulate " + std::to_string(nodes) +
                                            " nodes; use 1 to " + std::to_string(kMostNodes));
  }
  topology::graph::Graph made;
  if (description_) made = topology::sources::generate(*description_, nodes);
  const topology::graph::Graph& graph = description_ ? made : graph_;
  std::vector<topology::graph::VertexIndex> found = graph.of_kind(Kind::Node);
  if (static_cast<int>(found.size()) < nodes) {
    throw base::Error(base::Code::User, base::printable(source_) + ": has " +
                                            std::to_string(found.size()) + " nodes for " +
                                            std::to_string(nodes) +
                                            "; ask for fewer, or describe the cluster in YAML");
  }
  found.resize(static_cast<std::size_t>(nodes));
  const std::vector<topology::graph::VertexIndex> gpus = graph.below(found.front(), Kind::Gpu);
  Machines machines;
  machines.nodes = nodes;
  machines.ranks_per_node = ranks_per_node > 0 ? ranks_per_node : static_cast<int>(gpus.size());
  if (gpus.empty()) {
    throw base::Error(base::Code::User, base::printable(graph.vertex(found.front()).id) +
                                            ": has no GPU; only runs on GPUs are simulated");
  }
  machines.gpu_model = topology::graph::text_of(graph, graph.vertex(gpus.front()).facts,
                                                topology::graph::key::kModel);
  machines.device = device_figures(machines.gpu_model);
  machines.allocation = topology::nccl::allocation_of(graph, found, machines.ranks_per_node);
  return machines;
}

double slowdown_of(const topology::nccl::CostModel& model, Collective collective,
                   const DeviceFigures* device) {
  if (device == nullptr || device->multiprocessors < 1) return kSlowdown;
  // Those are what computing meets.
  constexpr std::uint64_t kLarge = std::uint64_t{256} << 20U;
  const topology::nccl::Choice choice = model.choice({collective, kLarge});
  return std::min(0.9, model.channels_of(choice.way.algorithm) / double(device->multiprocessors));
}

Network network_of(const topology::nccl::Allocation& allocation, const DeviceFigures* device,
                   bool is_sharded, const std::vector<topology::nccl::NcclTestLog>& logs) {
  if (allocation.nodes * allocation.ranks_per_node == 1) return no_network();
  topology::nccl::CalibratedModel model{topology::nccl::CostModel(allocation)};
  const Collective summing = is_sharded ? Collective::ReduceScatter : Collective::AllReduce;
  bool is_measured = false;
  for (const topology::nccl::NcclTestLog& log : logs) {
    if (topology::nccl::misfit(model.model(), log)) continue;
    topology::nccl::CurveKey key;
    key.collective = *log.collective;
    model.add(
        topology::nccl::MeasuredCurve::fit(model.model(), key, topology::nccl::samples_of(log)));
    is_measured = is_measured || *log.collective == summing;
  }
  const auto curve = [&](Collective collective) {
    constexpr double kMostBytes = 64e9;
    return topology::nccl::CommunicationCurve::sampled(
        [&](double bytes) {
          topology::nccl::CurveKey key;
          key.collective = collective;
          return 1e-6 * model.predict(key, static_cast<std::uint64_t>(bytes)).us;
        },
        kMostBytes);
  };
  Network network{curve(summing), curve(Collective::AllGather)};
  network.measured = is_measured;
  network.slowdown = slowdown_of(model.model(), summing, device);
  return network;
}

Network no_network() {
  const topology::nccl::CommunicationCurve nothing({{0, 0}});
  return {nothing, nothing};
}

}  // namespace regatta::orchestrator::plan
