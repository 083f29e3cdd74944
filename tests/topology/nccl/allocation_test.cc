#include "topology/nccl/allocation.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/topology/nccl/allocations.h"
#include "tests/topology/sources/examples.h"
#include "topology/graph/node_shape.h"

namespace regatta::topology {
namespace {

using testing::HasSubstr;

std::vector<graph::VertexIndex> first_nodes(const graph::Graph& graph, std::size_t count) {
  std::vector<graph::VertexIndex> nodes = graph.of_kind(graph::Kind::Node);
  nodes.resize(std::min(count, nodes.size()));
  return nodes;
}

struct Row {
  const char* example;
  std::size_t nodes;
  int ranks;
  nccl::Allocation expected;
};

nccl::Allocation hopper(int nodes) {
  nccl::Allocation allocation = h100_nodes(nodes);
  if (nodes == 1) allocation.nics = 0;
  return allocation;
}

TEST(AllocationOf, DescribedClusters) {
  nccl::Allocation l40s;
  l40s.nodes = 2;
  l40s.ranks_per_node = 4;
  l40s.compute_capability = 89;
  l40s.within = graph::PathType::Sys;
  l40s.nics = 2;
  l40s.gb_per_s_a_nic = 12.5;
  nccl::Allocation h200 = hopper(2);
  h200.host = nccl::HostCpu::Amd;
  const Row rows[] = {
      {"dgx-a100", 4, 8, a100_nodes(4, 8)},   {"dgx-h100", 1, 8, hopper(1)},
      {"dgx-h100", 2, 8, hopper(2)},          {"hgx-h200", 2, 8, h200},
      {"gb200-nvl72", 18, 4, gb200_racks(1)}, {"pcie-100gbe", 2, 4, l40s},
      {"gb200-nvl72", 36, 4, gb200_racks(2)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.example);
    const graph::Graph graph = sources::generate(example(row.example), static_cast<int>(row.nodes));
    const nccl::Allocation found =
        nccl::allocation_of(graph, first_nodes(graph, row.nodes), row.ranks);
    const nccl::Allocation& expected = row.expected;
    EXPECT_EQ(found.nodes, expected.nodes);
    EXPECT_EQ(found.ranks_per_node, expected.ranks_per_node);
    EXPECT_EQ(found.compute_capability, expected.compute_capability);
    EXPECT_TRUE(found.one_capability);
    EXPECT_EQ(found.host, expected.host);
    EXPECT_STREQ(graph::name_of(found.within), graph::name_of(expected.within));
    if (expected.gb_per_s_within > 0) {
      EXPECT_NEAR(found.gb_per_s_within, expected.gb_per_s_within, 1e-9);
    }
    EXPECT_EQ(found.nvswitch, expected.nvswitch);
    if (expected.nodes > 1) {
      EXPECT_EQ(found.nics, expected.nics);
      EXPECT_NEAR(found.gb_per_s_a_nic, expected.gb_per_s_a_nic, 1e-9);
      // A module's GPU reaches its NIC through its own CPU's chip link.
      EXPECT_LE(found.to_nic, row.example == std::string("gb200-nvl72") ? graph::PathType::P2c
                                                                        : graph::PathType::Pxb);
    }
    EXPECT_GT(nccl::CostModel(found).choice({nccl::Collective::AllReduce, 1 << 20}).us, 0);
  }
}

TEST(AllocationOf, SaysWhatIsMissing) {
  const graph::Graph graph = sources::cluster_graph(example("dgx-h100"));
  graph::Graph bare;
  const std::uint32_t source = bare.add_source(graph::Source::User, "t");
  const graph::VertexIndex node = bare.add(graph::Kind::Node, "n1");
  const graph::VertexIndex gpu = bare.add(graph::Kind::Gpu, "n1/gpu#0", node);
  const auto error_of = [](const graph::Graph& of, const std::vector<graph::VertexIndex>& nodes,
                           int ranks) {
    try {
      (void)nccl::allocation_of(of, nodes, ranks);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      return std::string(error.what());
    }
    return std::string("it was found");
  };
  EXPECT_THAT(error_of(graph, {}, 8), HasSubstr("at least one node"));
  EXPECT_THAT(error_of(graph, first_nodes(graph, 1), 0), HasSubstr("one rank"));
  EXPECT_THAT(error_of(graph, first_nodes(graph, 1), 9), HasSubstr("has 8 GPUs for 9 ranks"));
  EXPECT_THAT(error_of(graph, {graph.of_kind(graph::Kind::Gpu)[0]}, 1), HasSubstr("is not a node"));
  EXPECT_THAT(error_of(bare, {node}, 1), HasSubstr("n1/gpu#0: its compute capability"));
  bare.set(gpu, graph::key::kComputeCapability, std::int64_t{90}, source);
  EXPECT_EQ(error_of(bare, {node}, 1), "it was found");
  bare.set(bare.add(graph::Kind::Gpu, "n1/gpu#1", node), graph::key::kComputeCapability,
           std::int64_t{80}, source);
  EXPECT_THAT(error_of(bare, {node}, 2), HasSubstr("no bandwidth to n1/gpu#0 is known"));
  const graph::VertexIndex other = bare.add(graph::Kind::Node, "n2");
  bare.set(bare.add(graph::Kind::Gpu, "n2/gpu#0", other), graph::key::kComputeCapability,
           std::int64_t{80}, source);
  EXPECT_THAT(error_of(bare, {node, other}, 1), HasSubstr("n1: no NIC is known"));
  const graph::VertexIndex nic = bare.add(graph::Kind::Nic, "n1/nic:mlx5_0", node);
  EXPECT_THAT(error_of(bare, {node, other}, 1), HasSubstr("mlx5_0: its speed is not known"));
  bare.set(nic, graph::key::kSpeed, std::int64_t{400'000}, source);
  bare.set(bare.add(graph::Kind::Nic, "n2/nic:mlx5_0", other), graph::key::kSpeed,
           std::int64_t{200'000}, source);
  const nccl::Allocation found = nccl::allocation_of(bare, {node, other}, 1);
  EXPECT_EQ(found.gb_per_s_a_nic, 25) << "the slower one's";
  EXPECT_EQ(found.compute_capability, 80);
  EXPECT_FALSE(found.one_capability);
}

// All nodes of an example look alike but the one that is changed.
TEST(NodeShape, IsOfWhatANodeIsAndNotOfItsName) {
  for (const char* name : {"dgx-a100", "dgx-h100", "hgx-h200", "pcie-100gbe", "gb200-nvl72"}) {
    SCOPED_TRACE(name);
    graph::Graph graph = sources::generate(example(name), 6);
    const auto links = graph::links_by_vertex(graph);
    const auto nodes = graph.of_kind(graph::Kind::Node);
    const std::string shape = graph::shape_of(graph, nodes[0], links);
    EXPECT_NE(shape, "");
    for (const graph::VertexIndex node : nodes)
      EXPECT_EQ(graph::shape_of(graph, node, links), shape);
    const std::uint32_t source = graph.add_source(graph::Source::User, "test");
    graph.set(graph.below(nodes[3], graph::Kind::Nic).back(), graph::key::kSpeed,
              std::int64_t{1000}, source);
    EXPECT_NE(graph::shape_of(graph, nodes[3], links), shape);
    EXPECT_EQ(graph::shape_of(graph, nodes[4], links), shape);
  }
}

}  // namespace
}  // namespace regatta::topology
