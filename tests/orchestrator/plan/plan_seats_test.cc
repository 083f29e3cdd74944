#include "orchestrator/plan/plan_seats.h"

#include <gmock/gmock.h>

#include "tests/shared_data.h"
#include "topology/sources/nccl_xml.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using topology::graph::Graph;
using topology::graph::Kind;
using topology::graph::VertexIndex;
namespace key = topology::graph::key;

std::vector<std::string> nics_of(const Graph& graph, const std::string& node, int ranks) {
  std::vector<std::string> nics;
  for (const topology::plan::Seat& seat : plan::seats_of(graph, {graph.find(node)}, ranks)) {
    nics.push_back(seat.nic);
  }
  return nics;
}

// Each GPU shares a PCIe switch with one adapter of two ports.
TEST(PlanSeats, PortsOfAnAdapterAreNicsOfTheirOwn) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  Graph graph;
  graph.merge(topology::sources::read_nccl_xml(
      tests::file_text(tests::shared_path("topologies/nccl-xml/oci-H100-topology.xml")),
      {"n1", "oci-H100-topology.xml"}));
  EXPECT_EQ(graph.of_kind(Kind::Nic).size(), 16U);
  EXPECT_THAT(nics_of(graph, "n1", 8), ElementsAre("mlx5_0", "mlx5_3", "mlx5_5", "mlx5_7",
                                                   "mlx5_10", "mlx5_12", "mlx5_14", "mlx5_16"));
}

// A GPU at NUMA domain 0 with a socket interface beside it; the RDMA NIC is at domain 1.
Graph far_from_its_nic(bool has_rdma) {
  Graph graph;
  const auto source = graph.add_source(topology::graph::Source::Sysfs, "n1");
  const VertexIndex node = graph.add(Kind::Node, "n1");
  const VertexIndex near = graph.add(Kind::Numa, "n1/numa:0", node);
  const VertexIndex far = graph.add(Kind::Numa, "n1/numa:1", node);
  graph.set(graph.add(Kind::Gpu, "n1/gpu#0", near), key::kIndex, std::int64_t{0}, source);
  const VertexIndex card = graph.add(Kind::Nic, "n1/nic:eth0", near);
  graph.set(card, key::kName, "eth0", source);
  graph.set(card, key::kLinkLayer, "Ethernet", source);
  if (!has_rdma) return graph;
  const VertexIndex nic = graph.add(Kind::Nic, "n1/nic:mlx5_0", far);
  graph.set(nic, key::kName, "mlx5_0", source);
  graph.set(nic, key::kLinkLayer, "InfiniBand", source);
  return graph;
}

// Below each of so many leaves four nodes with one NIC each, all leaves below one spine.
Graph tree_of(int leaves) {
  Graph graph;
  const VertexIndex fabric = graph.add(Kind::Fabric, "fabric:ib");
  const VertexIndex spine = graph.add(Kind::FabricSwitch, "switch:spine", fabric);
  for (int i = 0; i < leaves; ++i) {
    const VertexIndex leaf = graph.add(Kind::FabricSwitch, "switch:" + std::to_string(i), fabric);
    graph.connect(topology::graph::LinkKind::Fabric, leaf, spine);
    for (int j = 0; j < 4; ++j) {
      const std::string name = "n" + std::to_string(4 * i + j);
      const VertexIndex nic = graph.add(Kind::Nic, name + "/nic:0", graph.add(Kind::Node, name));
      graph.connect(topology::graph::LinkKind::Fabric, nic, leaf);
    }
  }
  return graph;
}

TEST(PlanSeats, NodesOfATreeWaitForOneSwitch) {
  const auto switches = [](int leaves, std::size_t nodes) {
    const Graph graph = tree_of(leaves);
    auto all = graph.of_kind(Kind::Node);
    all.resize(nodes);
    return plan::placement_of(graph, all).switches;
  };
  EXPECT_EQ(switches(2, 2), "1@10");
  EXPECT_EQ(switches(2, 4), "1@10") << "as many as are below a leaf";
  EXPECT_EQ(switches(2, 5), "") << "no leaf has five";
  EXPECT_EQ(switches(2, 1), "");
  EXPECT_EQ(switches(1, 4), "") << "there is no other leaf";
}

TEST(PlanSeats, SocketInterfacesAreTakenOnlyWhereThereIsNothingElse) {
  EXPECT_THAT(nics_of(far_from_its_nic(true), "n1", 1), ElementsAre("mlx5_0"));
  EXPECT_THAT(nics_of(far_from_its_nic(false), "n1", 1), ElementsAre("eth0"));
}

}  // namespace
}  // namespace regatta::orchestrator
