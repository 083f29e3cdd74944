#include "topology/nccl/allocation.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/topology/nccl/allocations.h"
#include "tests/topology/sources/examples.h"
#include "topology/graph/node_shape.h"

namespace regatta::topology {
namespace {

using testing::HasSubstr;

std::vector<VertexIndex> first_nodes(const Graph& graph, std::size_t count) {
  std::vector<VertexIndex> nodes = graph.of_kind(Kind::Node);
  nodes.resize(std::min(count, nodes.size()));
  return nodes;
}

struct Row {
  const char* example;
  std::size_t nodes;
  int ranks;
  Allocation expected;
};

Allocation hopper(int nodes) {
  Allocation allocation = h100_nodes(nodes);
  if (nodes == 1) allocation.nics = 0;
  return allocation;
}

TEST(AllocationOf, DescribedClusters) {
  Allocation l40s;
  l40s.nodes = 2;
  l40s.ranks_per_node = 4;
  l40s.compute_capability = 89;
  l40s.within = PathType::Sys;
  l40s.nics = 2;
  l40s.gb_per_s_a_nic = 12.5;
  Allocation h200 = hopper(2);
  h200.host = HostCpu::Amd;
  const Row rows[] = {
      {"dgx-a100", 4, 8, a100_nodes(4, 8)},   {"dgx-h100", 1, 8, hopper(1)},
      {"dgx-h100", 2, 8, hopper(2)},          {"hgx-h200", 2, 8, h200},
      {"gb200-nvl72", 18, 4, gb200_racks(1)}, {"pcie-100gbe", 2, 4, l40s},
      {"gb200-nvl72", 36, 4, gb200_racks(2)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.example);
    const Graph graph = generate(example(row.example), static_cast<int>(row.nodes));
    const Allocation found = allocation_of(graph, first_nodes(graph, row.nodes), row.ranks);
    const Allocation& expected = row.expected;
    EXPECT_EQ(found.nodes, expected.nodes);
    EXPECT_EQ(found.ranks_per_node, expected.ranks_per_node);
    EXPECT_EQ(found.compute_capability, expected.compute_capability);
    EXPECT_TRUE(found.one_capability);
    EXPECT_EQ(found.host, expected.host);
    EXPECT_STREQ(name_of(found.within), name_of(expected.within));
    if (expected.gb_per_s_within > 0) {
      EXPECT_NEAR(found.gb_per_s_within, expected.gb_per_s_within, 1e-9);
    }
    EXPECT_EQ(found.nvswitch, expected.nvswitch);
    if (expected.nodes > 1) {
      EXPECT_EQ(found.nics, expected.nics);
      EXPECT_NEAR(found.gb_per_s_a_nic, expected.gb_per_s_a_nic, 1e-9);
      // A module's GPU reaches its NIC through its own CPU's chip link.
      EXPECT_LE(found.to_nic,
                row.example == std::string("gb200-nvl72") ? PathType::P2c : PathType::Pxb);
    }
    EXPECT_GT(CostModel(found).choice({Collective::AllReduce, 1 << 20}).us, 0);
  }
}

TEST(AllocationOf, SaysWhatIsMissing) {
  const Graph graph = cluster_graph(example("dgx-h100"));
  Graph bare;
  const std::uint32_t source = bare.add_source(Source::User, "t");
  const VertexIndex node = bare.add(Kind::Node, "n1");
  const VertexIndex gpu = bare.add(Kind::Gpu, "n1/gpu#0", node);
  const auto error_of = [](const Graph& of, const std::vector<VertexIndex>& nodes, int ranks) {
    try {
      (void)allocation_of(of, nodes, ranks);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      return std::string(error.what());
    }
    return std::string("it was found");
  };
  EXPECT_THAT(error_of(graph, {}, 8), HasSubstr("at least one node"));
  EXPECT_THAT(error_of(graph, first_nodes(graph, 1), 0), HasSubstr("one rank"));
  EXPECT_THAT(error_of(graph, first_nodes(graph, 1), 9), HasSubstr("has 8 GPUs for 9 ranks"));
  EXPECT_THAT(error_of(graph, {graph.of_kind(Kind::Gpu)[0]}, 1), HasSubstr("is not a node"));
  EXPECT_THAT(error_of(bare, {node}, 1), HasSubstr("n1/gpu#0: its compute capability"));
  bare.set(gpu, key::kComputeCapability, std::int64_t{90}, source);
  EXPECT_EQ(error_of(bare, {node}, 1), "it was found");
  bare.set(bare.add(Kind::Gpu, "n1/gpu#1", node), key::kComputeCapability, std::int64_t{80},
           source);
  EXPECT_THAT(error_of(bare, {node}, 2), HasSubstr("no bandwidth to n1/gpu#0 is known"));
  const VertexIndex other = bare.add(Kind::Node, "n2");
  bare.set(bare.add(Kind::Gpu, "n2/gpu#0", other), key::kComputeCapability, std::int64_t{80},
           source);
  EXPECT_THAT(error_of(bare, {node, other}, 1), HasSubstr("n1: no NIC is known"));
  const VertexIndex nic = bare.add(Kind::Nic, "n1/nic:mlx5_0", node);
  EXPECT_THAT(error_of(bare, {node, other}, 1), HasSubstr("mlx5_0: its speed is not known"));
  bare.set(nic, key::kSpeed, std::int64_t{400'000}, source);
  bare.set(bare.add(Kind::Nic, "n2/nic:mlx5_0", other), key::kSpeed, std::int64_t{200'000}, source);
  const Allocation found = allocation_of(bare, {node, other}, 1);
  EXPECT_EQ(found.gb_per_s_a_nic, 25) << "the slower one's";
  EXPECT_EQ(found.compute_capability, 80);
  EXPECT_FALSE(found.one_capability);
}

// All nodes of an example look alike but the one that is changed.
TEST(NodeShape, IsOfWhatANodeIsAndNotOfItsName) {
  for (const char* name : {"dgx-a100", "dgx-h100", "hgx-h200", "pcie-100gbe", "gb200-nvl72"}) {
    SCOPED_TRACE(name);
    Graph graph = generate(example(name), 6);
    const auto links = links_by_vertex(graph);
    const auto nodes = graph.of_kind(Kind::Node);
    const std::string shape = shape_of(graph, nodes[0], links);
    EXPECT_NE(shape, "");
    for (const VertexIndex node : nodes) EXPECT_EQ(shape_of(graph, node, links), shape);
    const std::uint32_t source = graph.add_source(Source::User, "test");
    graph.set(graph.below(nodes[3], Kind::Nic).back(), key::kSpeed, std::int64_t{1000}, source);
    EXPECT_NE(shape_of(graph, nodes[3], links), shape);
    EXPECT_EQ(shape_of(graph, nodes[4], links), shape);
  }
}

}  // namespace
}  // namespace regatta::topology
