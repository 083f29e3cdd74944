#include "topology/graph/graph.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "tests/topology/sources/examples.h"

namespace regatta::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Two GPUs on two NVSwitches, a NIC beside the first: each vertex added in the order of `order`.
graph::Graph small_node(const std::string& name, const std::vector<int>& order = {0, 1},
                        double link_speed = 100) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::Nvml, name);
  const graph::VertexIndex node = graph.add(graph::Kind::Node, name);
  for (const int numa : order) {
    const graph::VertexIndex domain =
        graph.add(graph::Kind::Numa, name + "/numa:" + std::to_string(numa), node);
    const std::string bus = "0000:" + std::to_string(numa + 1) + "b:00.0";
    const graph::VertexIndex gpu = graph.add(graph::Kind::Gpu, name + "/gpu:" + bus, domain);
    graph.set(gpu, graph::key::kBusId, bus, source);
    graph.set(gpu, graph::key::kIndex, std::int64_t{numa}, source);
    graph.set(gpu, graph::key::kModel, "H100", source);
    for (const int number : order) {
      const graph::VertexIndex nvswitch =
          graph.add(graph::Kind::NvSwitch, name + "/nvswitch:" + std::to_string(number), node);
      const auto link = graph.connect(graph::LinkKind::NvLink, gpu, nvswitch);
      graph.set_link(link, graph::key::kBandwidth, link_speed, source);
    }
    if (numa == 0) {
      const graph::VertexIndex nic = graph.add(graph::Kind::Nic, name + "/nic:mlx5_0", domain);
      graph.set(nic, graph::key::kName, "mlx5_0", source);
      graph.set(nic, graph::key::kSpeed, std::int64_t{400000}, source);
    }
  }
  return graph;
}

// What nvidia-smi's matrix tells of the same node: indexes and names only.
graph::Graph matrix_of(const std::string& name) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::NvidiaSmi, "topo.txt");
  const graph::VertexIndex node = graph.add(graph::Kind::Node, name);
  for (int index = 0; index < 2; ++index) {
    const graph::VertexIndex gpu =
        graph.add(graph::Kind::Gpu, name + "/gpu#" + std::to_string(index), node);
    graph.set(gpu, graph::key::kIndex, std::int64_t{index}, source);
    graph.set(gpu, graph::key::kNuma, std::int64_t{index}, source);
  }
  const graph::VertexIndex nic = graph.add(graph::Kind::Nic, name + "/nic#0", node);
  graph.set(nic, graph::key::kName, "mlx5_0", source);
  return graph;
}

TEST(Graph, AddsOnceAndFinds) {
  graph::Graph graph;
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  EXPECT_EQ(graph.add(graph::Kind::Node, "n1"), node);
  EXPECT_EQ(graph.find("n1"), node);
  EXPECT_EQ(graph.find("n2"), graph::kNoVertex);
  EXPECT_THROW(graph.add(graph::Kind::Gpu, "n1"), base::Error);
}

TEST(Graph, AParentCanOnlyBeMadeMoreExact) {
  graph::Graph graph;
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  const graph::VertexIndex numa = graph.add(graph::Kind::Numa, "n1/numa:0", node);
  const graph::VertexIndex other = graph.add(graph::Kind::Node, "n2");
  const graph::VertexIndex gpu = graph.add(graph::Kind::Gpu, "g", node);
  graph.add(graph::Kind::Gpu, "g", numa);
  EXPECT_EQ(graph.vertex(gpu).parent, numa);
  graph.add(graph::Kind::Gpu, "g", node);
  EXPECT_EQ(graph.vertex(gpu).parent, numa) << "not less exact";
  graph.add(graph::Kind::Gpu, "g", other);
  EXPECT_EQ(graph.vertex(gpu).parent, numa) << "not elsewhere";
  graph.add(graph::Kind::Numa, "n1/numa:0", gpu);
  EXPECT_EQ(graph.vertex(numa).parent, node) << "no loop";
  EXPECT_THAT(graph.children(numa), ElementsAre(gpu));
  EXPECT_THAT(graph.children(node), ElementsAre(numa));
  EXPECT_EQ(graph.node_of(gpu), node);
  EXPECT_THAT(graph.below(node, graph::Kind::Gpu), ElementsAre(gpu));
}

TEST(Graph, AFactHasOneValueForEachSource) {
  graph::Graph graph;
  const auto nvml = graph.add_source(graph::Source::Nvml, "n1");
  const auto user = graph.add_source(graph::Source::User, "cluster.yaml");
  EXPECT_EQ(graph.add_source(graph::Source::Nvml, "n1"), nvml);
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  graph.set(node, "x", 1.5, nvml);
  graph.set(node, "x", 2.5, nvml);
  graph.set(node, "x", std::int64_t{7}, user);
  const auto& facts = graph.vertex(node).facts;
  EXPECT_THAT(facts, SizeIs(2));
  EXPECT_DOUBLE_EQ(*graph::number_of(graph, facts, "x"), 7) << "the user knows best";
  EXPECT_EQ(graph::integer_of(graph, facts, "x"), 7);
  EXPECT_EQ(graph::text_of(graph, facts, "x"), "");
  EXPECT_FALSE(graph::number_of(graph, facts, "y"));
}

TEST(GraphMerge, JoinsWhatIsTheSameUnderOtherIds) {
  for (const bool matrix_first : {true, false}) {
    graph::Graph graph = matrix_first ? matrix_of("n1") : small_node("n1");
    graph.merge(matrix_first ? small_node("n1") : matrix_of("n1"));
    EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(2));
    EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(1));
    const graph::VertexIndex gpu = graph.find("n1/gpu:0000:2b:00.0");
    ASSERT_NE(gpu, graph::kNoVertex);
    EXPECT_EQ(graph::integer_of(graph, graph.vertex(gpu).facts, graph::key::kNuma), 1);
    EXPECT_EQ(graph.vertex(graph.vertex(gpu).parent).id, "n1/numa:1");
    EXPECT_THAT(graph::check_graph(graph), IsEmpty());
  }
}

// What a fabric tells of the same node's NIC: a GUID, and perhaps whose it is.
graph::Graph fabric_of(const std::string& nic, const std::string& node, const std::string& guid) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::Ibnetdiscover, "ib.txt");
  const graph::VertexIndex owner =
      node.empty() ? graph::kNoVertex : graph.add(graph::Kind::Node, node);
  const graph::VertexIndex vertex = graph.add(graph::Kind::Nic, nic, owner);
  graph.set(vertex, graph::key::kGuid, guid, source);
  return graph;
}

TEST(GraphMerge, JoinsNicsByGuid) {
  const struct {
    const char* name;
    graph::Graph fabric;
    std::size_t nics;
  } rows[] = {
      {"another name", fabric_of("n1/nic:HCA-1", "n1", "0x1"), 1},
      {"no node", fabric_of("nic:0x1", "", "0x1"), 1},
      {"another GUID", fabric_of("n1/nic:HCA-1", "n1", "0x2"), 2},
      {"another node", fabric_of("n2/nic:HCA-1", "n2", "0x1"), 2},
  };
  for (const auto& row : rows) {
    graph::Graph host = small_node("n1");
    host.set(host.find("n1/nic:mlx5_0"), graph::key::kGuid, "0x1",
             host.add_source(graph::Source::Sysfs, "n1"));
    for (const bool host_first : {true, false}) {
      graph::Graph graph = host_first ? host : row.fabric;
      graph.merge(host_first ? row.fabric : host);
      EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(row.nics)) << row.name << host_first;
      if (row.nics != 1) continue;
      const graph::VertexIndex nic = graph.of_kind(graph::Kind::Nic).front();
      EXPECT_EQ(graph.vertex(graph.vertex(nic).parent).id, "n1/numa:0") << row.name << host_first;
      EXPECT_EQ(graph::text_of(graph, graph.vertex(nic).facts, graph::key::kName), "mlx5_0");
    }
  }
}

// An adapter of two ports as NCCL's dumps have it: one GUID, and a number for each port.
graph::Graph two_ports(const std::string& first, const std::string& second) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::NcclXml, "topo.xml");
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  std::int64_t port = 0;
  for (const std::string& name : {first, second}) {
    const graph::VertexIndex nic = graph.add(graph::Kind::Nic, "n1/nic:" + name, node);
    graph.set(nic, graph::key::kName, name, source);
    graph.set(nic, graph::key::kGuid, "0x1", source);
    graph.set(nic, graph::key::kPort, ++port, source);
  }
  return graph;
}

TEST(GraphMerge, PortsOfOneAdapterStayApart) {
  graph::Graph graph;
  graph.merge(two_ports("mlx5_0", "mlx5_1"));
  EXPECT_EQ(graph::to_json(graph), graph::to_json(two_ports("mlx5_0", "mlx5_1")));
  graph.merge(two_ports("mlx5_0", "mlx5_1"));
  EXPECT_EQ(graph::to_json(graph), graph::to_json(two_ports("mlx5_0", "mlx5_1")))
      << "the same again";
}

TEST(GraphMerge, AGuidWithoutAPortIsThatOfTheFirstPort) {
  for (const bool fabric_first : {true, false}) {
    for (const bool has_node : {true, false}) {
      const graph::Graph fabric =
          fabric_of(has_node ? "n1/nic:HCA-1" : "nic:0x1", has_node ? "n1" : "", "0x1");
      graph::Graph graph = fabric_first ? fabric : two_ports("mlx5_0", "mlx5_1");
      graph.merge(fabric_first ? two_ports("mlx5_0", "mlx5_1") : fabric);
      EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(2)) << fabric_first << has_node;
      std::size_t told_twice = 0;
      for (const graph::VertexIndex nic : graph.of_kind(graph::Kind::Nic)) {
        const auto& facts = graph.vertex(nic).facts;
        const auto guids = std::count_if(facts.begin(), facts.end(), [](const graph::Fact& fact) {
          return fact.key == graph::key::kGuid;
        });
        if (guids != 2) continue;
        ++told_twice;
        EXPECT_EQ(graph::integer_of(graph, facts, graph::key::kPort), 1)
            << fabric_first << has_node;
      }
      EXPECT_EQ(told_twice, 1U) << fabric_first << has_node;
      EXPECT_THAT(graph::check_graph(graph), IsEmpty());
    }
  }
}

TEST(GraphMerge, KeepsPathsToPeersThatGetAnotherId) {
  graph::Graph matrix = matrix_of("n1");
  matrix.set(matrix.find("n1/gpu#0"), std::string(graph::key::kPath) + "n1/gpu#1", "NV18", 0);
  matrix.set(matrix.find("n1/gpu#0"), std::string(graph::key::kPath) + "elsewhere", "SYS", 0);
  for (const bool matrix_first : {true, false}) {
    graph::Graph graph = matrix_first ? matrix : small_node("n1");
    graph.merge(matrix_first ? small_node("n1") : matrix);
    const auto& facts = graph.vertex(graph.find("n1/gpu:0000:1b:00.0")).facts;
    EXPECT_EQ(graph::text_of(graph, facts, "path.n1/gpu:0000:2b:00.0"), "NV18");
    EXPECT_EQ(graph::text_of(graph, facts, "path.n1/gpu#1"), "");
    EXPECT_EQ(graph::text_of(graph, facts, "path.elsewhere"), "SYS");
  }
}

TEST(GraphMerge, KeepsOtherNodesAndBusIdsApart) {
  graph::Graph graph = small_node("n1");
  graph.merge(small_node("n2"));
  EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(4));
  EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(2));
  const std::size_t links = graph.links().size();
  graph.merge(small_node("n2"));
  EXPECT_EQ(graph.links().size(), links) << "the same again adds nothing";
}

TEST(GraphMerge, TellsWhatSourcesDisagreeOn) {
  graph::Graph graph = small_node("n1");
  graph::Graph other;
  const auto source = other.add_source(graph::Source::NcclXml, "topo.xml");
  const graph::VertexIndex node = other.add(graph::Kind::Node, "n1");
  const graph::VertexIndex domain = other.add(graph::Kind::Numa, "n1/numa:1", node);
  const graph::VertexIndex nic = other.add(graph::Kind::Nic, "n1/nic:mlx5_0", domain);
  other.set(nic, graph::key::kSpeed, std::int64_t{200000}, source);
  other.set(nic, graph::key::kName, "mlx5_0", source);
  graph.merge(other);
  const auto findings = graph::check_graph(graph);
  ASSERT_THAT(findings, SizeIs(2));
  std::string words;
  for (const graph::Finding& finding : findings) {
    EXPECT_EQ(finding.id, "graph.conflict");
    EXPECT_EQ(finding.subject, "n1/nic:mlx5_0");
    words += finding.words + "; ";
  }
  EXPECT_THAT(words, HasSubstr("nvml and nccl-xml disagree on mbit_per_s of n1/nic:mlx5_0"));
  EXPECT_THAT(words, HasSubstr("disagree on parent"));
}

TEST(GraphMerge, RoundingIsNoConflict) {
  graph::Graph graph = small_node("n1", {0, 1}, 100);
  graph::Graph renamed;  // the same link from another source
  const auto source = renamed.add_source(graph::Source::NvidiaSmi, "smi");
  const graph::VertexIndex gpu =
      renamed.add(graph::Kind::Gpu, "n1/gpu:0000:1b:00.0", renamed.add(graph::Kind::Node, "n1"));
  const graph::VertexIndex nvswitch =
      renamed.add(graph::Kind::NvSwitch, "n1/nvswitch:0", renamed.find("n1"));
  renamed.set_link(renamed.connect(graph::LinkKind::NvLink, gpu, nvswitch), graph::key::kBandwidth,
                   101.9, source);
  graph.merge(renamed);
  EXPECT_THAT(graph::check_graph(graph), IsEmpty());
}

TEST(GraphJson, IsReadBackAsItWas) {
  graph::Graph graph = small_node("n1");
  graph.merge(small_node("n2"));
  const auto source = graph.add_source(graph::Source::User, "a \"hostile\" \n\x1b place");
  graph.set(graph.find("n1"), "k\xff", "v\x01", source);
  graph.set(graph.find("n2"), "real", 1.0, source);
  const graph::Graph back = graph::parse_graph(graph::to_json(graph), "graph.json");
  EXPECT_EQ(graph::to_json(back), graph::to_json(graph));
  EXPECT_EQ(graph::fingerprint(back), graph::fingerprint(graph));
  EXPECT_TRUE(std::holds_alternative<double>(
      graph::fact_of(back, back.vertex(back.find("n2")).facts, "real")->value));
}

struct Bad {
  const char* name;
  std::string text;
  const char* words;
  friend void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }
};
class BadGraph : public testing::TestWithParam<Bad> {};
TEST_P(BadGraph, IsRefused) {
  try {
    (void)graph::parse_graph(GetParam().text, "g.json");
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), HasSubstr("g.json"));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().words));
  }
}
std::string graph_with(const std::string& vertices, const std::string& links = "") {
  return R"({"regatta_graph": 1, "sources": [{"source": "user", "place": "x"}], "vertices": [)" +
         vertices + R"(], "links": [)" + links + "]}";
}
std::string nested(int depth) {
  std::string text = R"({"kind": "numa", "id": "0", "facts": []})";
  for (int i = 1; i < depth; ++i) {
    text += R"(, {"kind": "numa", "id": ")" + std::to_string(i) + R"(", "parent": ")" +
            std::to_string(i - 1) + R"(", "facts": []})";
  }
  return text;
}
INSTANTIATE_TEST_SUITE_P(
    Table, BadGraph,
    testing::Values(
        Bad{"empty", "", "no JSON object"}, Bad{"list", "[]", "no JSON object"},
        Bad{"no_version", "{}", "no 'regatta_graph'"},
        Bad{"newer", R"({"regatta_graph": 2})", "only version 1"},
        Bad{"no_sources", R"({"regatta_graph": 1})", "no 'sources'"},
        Bad{"unknown_source", R"({"regatta_graph": 1, "sources": [{"source": "x", "place": ""}]})",
            "sources[0]"},
        Bad{"unknown_kind", graph_with(R"({"kind": "moon", "id": "a", "facts": []})"),
            "vertices[0] has a kind"},
        Bad{"twice", graph_with(R"({"kind": "node", "id": "a", "facts": []},
                                   {"kind": "node", "id": "a", "facts": []})"),
            "vertices[1] has no id of its own"},
        Bad{"unknown_parent",
            graph_with(R"({"kind": "gpu", "id": "a", "parent": "b", "facts": []})"),
            "vertices[0] has a parent"},
        Bad{"own_parent", graph_with(R"({"kind": "gpu", "id": "a", "parent": "a", "facts": []})"),
            "vertices[0] has a parent"},
        Bad{"too_deep", graph_with(nested(100)), "too many others"},
        Bad{"bad_fact", graph_with(R"({"kind": "node", "id": "a", "facts": [["k", 1]]})"),
            "[key, value, source]"},
        Bad{"fact_without_source",
            graph_with(R"({"kind": "node", "id": "a", "facts": [["k", 1, 1]]})"),
            "[key, value, source]"},
        Bad{"fact_of_a_list", graph_with(R"({"kind": "node", "id": "a", "facts": [["k", [], 0]]})"),
            "neither a number nor a string"},
        Bad{"link_to_nowhere",
            graph_with(R"({"kind": "node", "id": "a", "facts": []})",
                       R"({"kind": "pcie", "a": "a", "b": "b", "facts": []})"),
            "links[0] has no two ends"},
        Bad{"link_to_itself",
            graph_with(R"({"kind": "node", "id": "a", "facts": []})",
                       R"({"kind": "pcie", "a": "a", "b": "a", "facts": []})"),
            "links[0] has no two ends"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Fingerprint, KnowsNeitherOrderNorNames) {
  const std::string one = graph::fingerprint(small_node("n1"));
  EXPECT_THAT(one, SizeIs(32));
  EXPECT_EQ(graph::fingerprint(small_node("other", {1, 0})), one);
  graph::Graph forwards, backwards;
  for (const char* name : {"a", "b", "c"}) forwards.merge(small_node(name));
  for (const char* name : {"z", "y", "x"}) backwards.merge(small_node(name, {1, 0}));
  EXPECT_EQ(graph::fingerprint(forwards), graph::fingerprint(backwards));
  EXPECT_NE(graph::fingerprint(forwards), one);
}

TEST(Fingerprint, SeesWhatMatters) {
  const std::string healthy = graph::fingerprint(small_node("n1"));
  EXPECT_NE(graph::fingerprint(small_node("n1", {0, 1}, 50)), healthy) << "a slower link";
  graph::Graph moved = small_node("n1");
  const auto source = moved.add_source(graph::Source::User, "");
  moved.set(moved.find("n1/nic:mlx5_0"), graph::key::kSpeed, std::int64_t{100000}, source);
  EXPECT_NE(graph::fingerprint(moved), healthy) << "a slower NIC";
  graph::Graph more = small_node("n1");
  more.add(graph::Kind::Nic, "n1/nic:mlx5_1", more.find("n1/numa:1"));
  EXPECT_NE(graph::fingerprint(more), healthy) << "a NIC more";
}

TEST(Fingerprint, OfSomeNodesSeesOnlyTheirs) {
  graph::Graph graph;
  for (const char* name : {"a", "b", "c"}) graph.merge(small_node(name));
  graph.merge(small_node("slow", {0, 1}, 50));
  const auto of = [&](const std::vector<std::string>& names) {
    std::vector<graph::VertexIndex> nodes;
    for (const std::string& name : names) nodes.push_back(graph.find(name));
    return graph::fingerprint(graph, nodes);
  };
  EXPECT_EQ(of({"a", "b"}), of({"c", "a"}));
  EXPECT_EQ(of({"b"}), graph::fingerprint(small_node("n1")));
  EXPECT_NE(of({"a", "b"}), of({"a"}));
  EXPECT_NE(of({"a", "b"}), of({"a", "slow"}));
  const std::string before = of({"a", "b"});
  const graph::VertexIndex leaf =
      graph.add(graph::Kind::FabricSwitch, "leaf", graph.add(graph::Kind::Fabric, "f"));
  graph.connect(graph::LinkKind::Fabric, leaf, graph.find("a/nic:mlx5_0"));
  EXPECT_EQ(of({"a", "b"}), before) << "fabrics are left out";
}

TEST(Fingerprint, OfSomeNodesSeesTheNvlinkDomainBetweenThem) {
  const graph::Graph racks = sources::generate(example("gb200-nvl72"), 36);
  const std::vector<graph::VertexIndex> nodes = racks.of_kind(graph::Kind::Node);
  ASSERT_EQ(nodes.size(), 36U);
  const auto of = [&](std::size_t first, std::size_t second) {
    return graph::fingerprint(racks, {nodes[first], nodes[second]});
  };
  EXPECT_EQ(of(0, 1), of(20, 21));
  EXPECT_NE(of(0, 1), of(0, 20)) << "two nodes of a rack, and two in two racks";
}

struct Bus {
  const char* text;
  const char* normal;  // null: none
};
class BusId : public testing::TestWithParam<Bus> {};
TEST_P(BusId, IsNormalized) {
  const auto normal = graph::normal_bus_id(GetParam().text);
  if (GetParam().normal == nullptr) {
    EXPECT_FALSE(normal) << *normal;
  } else {
    EXPECT_EQ(normal, GetParam().normal);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Table, BusId,
    testing::Values(Bus{"0000:3b:00.0", "0000:3b:00.0"}, Bus{"00000000:3B:00.0", "0000:3b:00.0"},
                    Bus{"3b:00.0", "0000:3b:00.0"}, Bus{"0000:3b:00", "0000:3b:00.0"},
                    Bus{"000A:04:00.1", "000a:04:00.1"}, Bus{"10000:01:00.0", "10000:01:00.0"},
                    Bus{"ffff:ff:01.0", "ffff:ff:01.0"}, Bus{"", nullptr}, Bus{"3b", nullptr},
                    Bus{"0000:3b:00.0.1", nullptr}, Bus{"0000:3g:00.0", nullptr},
                    Bus{"a:b:c:d", nullptr}, Bus{"0000:3b:000.0", nullptr},
                    Bus{"fffffffff:ff:ff.0", nullptr}));

TEST(Names, AreReadBack) {
  for (int i = 0; i <= static_cast<int>(graph::Kind::NvSwitch); ++i) {
    EXPECT_EQ(graph::parse_kind(graph::name_of(static_cast<graph::Kind>(i))),
              static_cast<graph::Kind>(i));
  }
  for (int i = 0; i <= static_cast<int>(graph::Source::Derived); ++i) {
    EXPECT_EQ(graph::parse_source(graph::name_of(static_cast<graph::Source>(i))),
              static_cast<graph::Source>(i));
  }
  for (int i = 0; i <= static_cast<int>(graph::LinkKind::Fabric); ++i) {
    EXPECT_EQ(graph::parse_link_kind(graph::name_of(static_cast<graph::LinkKind>(i))),
              static_cast<graph::LinkKind>(i));
  }
  EXPECT_FALSE(graph::parse_kind("moon"));
}

TEST(Graph, WhatIsNoUtf8IsTheSameAfterJson) {
  graph::Graph graph;
  const std::uint32_t source = graph.add_source(graph::Source::Ibnetdiscover, "dump");
  const graph::VertexIndex fabric_switch = graph.add(graph::Kind::FabricSwitch, "switch:\xac\xae");
  graph.set(fabric_switch, graph::key::kModel, std::string("\xac\xaeM9701"), source);
  EXPECT_EQ(graph.find("switch:\xac\xae"), fabric_switch);
  EXPECT_EQ(graph.add(graph::Kind::FabricSwitch, "switch:\xac\xae"), fabric_switch);
  const graph::Graph back = graph::parse_graph(graph::to_json(graph), "graph.json");
  EXPECT_EQ(graph::fingerprint(back), graph::fingerprint(graph));
  EXPECT_EQ(graph::to_json(back), graph::to_json(graph));
}

}  // namespace
}  // namespace regatta::topology
