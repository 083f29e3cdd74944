#include "orchestrator/plan/stage_network.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/wording.h"

namespace regatta::orchestrator::plan {
namespace {

using topology::nccl::Allocation;
using topology::nccl::Collective;
using topology::nccl::CommunicationCurve;
using trainer::contract::RankGrid;

constexpr double kMostBytes = 64e9;

// Of `all`, a part with other ranks: what a dump says of the channels of all is not true of it.
Allocation part_of(const Allocation& all, int nodes, int ranks_per_node) {
  Allocation part = all;
  part.nodes = nodes;
  part.ranks_per_node = ranks_per_node;
  part.ring = part.tree = part.nvls = std::nullopt;
  return part;
}

// Two ranks, of one node or of two; in that case `senders` of a node use its NICs at once.
Allocation pair_of(const Allocation& all, bool is_across, int senders) {
  if (!is_across) return part_of(all, 1, 2);
  Allocation pair = part_of(all, 2, 1);
  pair.gb_per_s_a_nic *= std::min(1.0, static_cast<double>(all.nics) / senders);
  pair.nics = 1;
  return pair;
}

CommunicationCurve curve_between(const Allocation& pair, Collective collective) {
  const topology::nccl::CostModel model(pair);
  return CommunicationCurve::sampled(
      [&](double bytes) {
        const auto size = static_cast<std::uint64_t>(std::llround(bytes));
        return 1e-6 * model.choice({.collective = collective, .bytes = size}).us;
      },
      kMostBytes);
}

}  // namespace

StageNetwork stage_network(const Allocation& allocation, const DeviceFigures* device,
                           const RankGrid& grid,
                           const std::vector<topology::nccl::NcclTestLog>& logs) {
  const int on_node = allocation.ranks_per_node, ranks = allocation.nodes * on_node;
  const auto fail = [](const std::string& what) { throw base::Error(base::Code::User, what); };
  if (grid.ranks() != ranks) {
    fail("data " + std::to_string(grid.data) + " x pipeline " + std::to_string(grid.stages) +
         " has " + std::to_string(grid.ranks()) + " ranks, and the machines have " +
         std::to_string(ranks) + "; use a number of stages that divides them");
  }
  if (grid.data % on_node != 0 && on_node % grid.data != 0) {
    fail("the " + base::plural(grid.data, "replica") + " of a stage neither fill nodes of " +
         std::to_string(on_node) + " ranks nor do several stages fill one; use another " +
         "parallel.pipeline or ranks_per_node");
  }
  const int stages_of_node = std::max(1, on_node / grid.data);
  const int senders = std::min(grid.data, on_node);
  StageNetwork network;
  network.sums = network_of(part_of(allocation, std::max(1, grid.data / on_node), senders), device,
                            false, logs);
  for (int stage = 1; stage < grid.stages; ++stage) {
    const bool is_across = stage % stages_of_node == 0;
    network.sends.push_back(
        curve_between(pair_of(allocation, is_across, senders), Collective::Broadcast));
  }
  if (grid.stages > 1) {
    network.ends =
        curve_between(pair_of(allocation, ranks > on_node, senders), Collective::AllReduce);
  }
  return network;
}

StageNetwork no_stage_network(int stages) {
  StageNetwork network;
  network.sends.assign(static_cast<std::size_t>(stages - 1), no_network().sum);
  return network;
}

}  // namespace regatta::orchestrator::plan
