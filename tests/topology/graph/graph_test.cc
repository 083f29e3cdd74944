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
Graph small_node(const std::string& name, const std::vector<int>& order = {0, 1},
                 double link_speed = 100) {
  Graph graph;
  const auto source = graph.add_source(Source::Nvml, name);
  const VertexIndex node = graph.add(Kind::Node, name);
  for (const int numa : order) {
    const VertexIndex domain = graph.add(Kind::Numa, name + "/numa:" + std::to_string(numa), node);
    const std::string bus = "0000:" + std::to_string(numa + 1) + "b:00.0";
    const VertexIndex gpu = graph.add(Kind::Gpu, name + "/gpu:" + bus, domain);
    graph.set(gpu, key::kBusId, bus, source);
    graph.set(gpu, key::kIndex, std::int64_t{numa}, source);
    graph.set(gpu, key::kModel, "H100", source);
    for (const int number : order) {
      const VertexIndex nvswitch =
          graph.add(Kind::NvSwitch, name + "/nvswitch:" + std::to_string(number), node);
      const auto link = graph.connect(LinkKind::NvLink, gpu, nvswitch);
      graph.set_link(link, key::kBandwidth, link_speed, source);
    }
    if (numa == 0) {
      const VertexIndex nic = graph.add(Kind::Nic, name + "/nic:mlx5_0", domain);
      graph.set(nic, key::kName, "mlx5_0", source);
      graph.set(nic, key::kSpeed, std::int64_t{400000}, source);
    }
  }
  return graph;
}

// What nvidia-smi's matrix tells of the same node: indexes and names only.
Graph matrix_of(const std::string& name) {
  Graph graph;
  const auto source = graph.add_source(Source::NvidiaSmi, "topo.txt");
  const VertexIndex node = graph.add(Kind::Node, name);
  for (int index = 0; index < 2; ++index) {
    const VertexIndex gpu = graph.add(Kind::Gpu, name + "/gpu#" + std::to_string(index), node);
    graph.set(gpu, key::kIndex, std::int64_t{index}, source);
    graph.set(gpu, key::kNuma, std::int64_t{index}, source);
  }
  const VertexIndex nic = graph.add(Kind::Nic, name + "/nic#0", node);
  graph.set(nic, key::kName, "mlx5_0", source);
  return graph;
}

TEST(Graph, AddsOnceAndFinds) {
  Graph graph;
  const VertexIndex node = graph.add(Kind::Node, "n1");
  EXPECT_EQ(graph.add(Kind::Node, "n1"), node);
  EXPECT_EQ(graph.find("n1"), node);
  EXPECT_EQ(graph.find("n2"), kNoVertex);
  EXPECT_THROW(graph.add(Kind::Gpu, "n1"), base::Error);
}

TEST(Graph, AParentCanOnlyBeMadeMoreExact) {
  Graph graph;
  const VertexIndex node = graph.add(Kind::Node, "n1");
  const VertexIndex numa = graph.add(Kind::Numa, "n1/numa:0", node);
  const VertexIndex other = graph.add(Kind::Node, "n2");
  const VertexIndex gpu = graph.add(Kind::Gpu, "g", node);
  graph.add(Kind::Gpu, "g", numa);
  EXPECT_EQ(graph.vertex(gpu).parent, numa);
  graph.add(Kind::Gpu, "g", node);
  EXPECT_EQ(graph.vertex(gpu).parent, numa) << "not less exact";
  graph.add(Kind::Gpu, "g", other);
  EXPECT_EQ(graph.vertex(gpu).parent, numa) << "not elsewhere";
  graph.add(Kind::Numa, "n1/numa:0", gpu);
  EXPECT_EQ(graph.vertex(numa).parent, node) << "no loop";
  EXPECT_THAT(graph.children(numa), ElementsAre(gpu));
  EXPECT_THAT(graph.children(node), ElementsAre(numa));
  EXPECT_EQ(graph.node_of(gpu), node);
  EXPECT_THAT(graph.below(node, Kind::Gpu), ElementsAre(gpu));
}

TEST(Graph, AFactHasOneValueForEachSource) {
  Graph graph;
  const auto nvml = graph.add_source(Source::Nvml, "n1");
  const auto user = graph.add_source(Source::User, "cluster.yaml");
  EXPECT_EQ(graph.add_source(Source::Nvml, "n1"), nvml);
  const VertexIndex node = graph.add(Kind::Node, "n1");
  graph.set(node, "x", 1.5, nvml);
  graph.set(node, "x", 2.5, nvml);
  graph.set(node, "x", std::int64_t{7}, user);
  const auto& facts = graph.vertex(node).facts;
  EXPECT_THAT(facts, SizeIs(2));
  EXPECT_DOUBLE_EQ(*number_of(graph, facts, "x"), 7) << "the user knows best";
  EXPECT_EQ(integer_of(graph, facts, "x"), 7);
  EXPECT_EQ(text_of(graph, facts, "x"), "");
  EXPECT_FALSE(number_of(graph, facts, "y"));
}

TEST(GraphMerge, JoinsWhatIsTheSameUnderOtherIds) {
  for (const bool matrix_first : {true, false}) {
    Graph graph = matrix_first ? matrix_of("n1") : small_node("n1");
    graph.merge(matrix_first ? small_node("n1") : matrix_of("n1"));
    EXPECT_THAT(graph.of_kind(Kind::Gpu), SizeIs(2));
    EXPECT_THAT(graph.of_kind(Kind::Nic), SizeIs(1));
    const VertexIndex gpu = graph.find("n1/gpu:0000:2b:00.0");
    ASSERT_NE(gpu, kNoVertex);
    EXPECT_EQ(integer_of(graph, graph.vertex(gpu).facts, key::kNuma), 1);
    EXPECT_EQ(graph.vertex(graph.vertex(gpu).parent).id, "n1/numa:1");
    EXPECT_THAT(check_graph(graph), IsEmpty());
  }
}

// What a fabric tells of the same node's NIC: a GUID, and perhaps whose it is.
Graph fabric_of(const std::string& nic, const std::string& node, const std::string& guid) {
  Graph graph;
  const auto source = graph.add_source(Source::Ibnetdiscover, "ib.txt");
  const VertexIndex owner = node.empty() ? kNoVertex : graph.add(Kind::Node, node);
  const VertexIndex vertex = graph.add(Kind::Nic, nic, owner);
  graph.set(vertex, key::kGuid, guid, source);
  return graph;
}

TEST(GraphMerge, JoinsNicsByGuid) {
  const struct {
    const char* name;
    Graph fabric;
    std::size_t nics;
  } rows[] = {
      {"another name", fabric_of("n1/nic:HCA-1", "n1", "0x1"), 1},
      {"no node", fabric_of("nic:0x1", "", "0x1"), 1},
      {"another GUID", fabric_of("n1/nic:HCA-1", "n1", "0x2"), 2},
      {"another node", fabric_of("n2/nic:HCA-1", "n2", "0x1"), 2},
  };
  for (const auto& row : rows) {
    Graph host = small_node("n1");
    host.set(host.find("n1/nic:mlx5_0"), key::kGuid, "0x1", host.add_source(Source::Sysfs, "n1"));
    for (const bool host_first : {true, false}) {
      Graph graph = host_first ? host : row.fabric;
      graph.merge(host_first ? row.fabric : host);
      EXPECT_THAT(graph.of_kind(Kind::Nic), SizeIs(row.nics)) << row.name << host_first;
      if (row.nics != 1) continue;
      const VertexIndex nic = graph.of_kind(Kind::Nic).front();
      EXPECT_EQ(graph.vertex(graph.vertex(nic).parent).id, "n1/numa:0") << row.name << host_first;
      EXPECT_EQ(text_of(graph, graph.vertex(nic).facts, key::kName), "mlx5_0");
    }
  }
}

// An adapter of two ports as NCCL's dumps have it: one GUID, and a number for each port.
Graph two_ports(const std::string& first, const std::string& second) {
  Graph graph;
  const auto source = graph.add_source(Source::NcclXml, "topo.xml");
  const VertexIndex node = graph.add(Kind::Node, "n1");
  std::int64_t port = 0;
  for (const std::string& name : {first, second}) {
    const VertexIndex nic = graph.add(Kind::Nic, "n1/nic:" + name, node);
    graph.set(nic, key::kName, name, source);
    graph.set(nic, key::kGuid, "0x1", source);
    graph.set(nic, key::kPort, ++port, source);
  }
  return graph;
}

TEST(GraphMerge, PortsOfOneAdapterStayApart) {
  Graph graph;
  graph.merge(two_ports("mlx5_0", "mlx5_1"));
  EXPECT_EQ(to_json(graph), to_json(two_ports("mlx5_0", "mlx5_1")));
  graph.merge(two_ports("mlx5_0", "mlx5_1"));
  EXPECT_EQ(to_json(graph), to_json(two_ports("mlx5_0", "mlx5_1"))) << "the same again";
}

TEST(GraphMerge, AGuidWithoutAPortIsThatOfTheFirstPort) {
  for (const bool fabric_first : {true, false}) {
    for (const bool has_node : {true, false}) {
      const Graph fabric =
          fabric_of(has_node ? "n1/nic:HCA-1" : "nic:0x1", has_node ? "n1" : "", "0x1");
      Graph graph = fabric_first ? fabric : two_ports("mlx5_0", "mlx5_1");
      graph.merge(fabric_first ? two_ports("mlx5_0", "mlx5_1") : fabric);
      EXPECT_THAT(graph.of_kind(Kind::Nic), SizeIs(2)) << fabric_first << has_node;
      std::size_t told_twice = 0;
      for (const VertexIndex nic : graph.of_kind(Kind::Nic)) {
        const auto& facts = graph.vertex(nic).facts;
        const auto guids = std::count_if(facts.begin(), facts.end(),
                                         [](const Fact& fact) { return fact.key == key::kGuid; });
        if (guids != 2) continue;
        ++told_twice;
        EXPECT_EQ(integer_of(graph, facts, key::kPort), 1) << fabric_first << has_node;
      }
      EXPECT_EQ(told_twice, 1U) << fabric_first << has_node;
      EXPECT_THAT(check_graph(graph), IsEmpty());
    }
  }
}

TEST(GraphMerge, KeepsPathsToPeersThatGetAnotherId) {
  Graph matrix = matrix_of("n1");
  matrix.set(matrix.find("n1/gpu#0"), std::string(key::kPath) + "n1/gpu#1", "NV18", 0);
  matrix.set(matrix.find("n1/gpu#0"), std::string(key::kPath) + "elsewhere", "SYS", 0);
  for (const bool matrix_first : {true, false}) {
    Graph graph = matrix_first ? matrix : small_node("n1");
    graph.merge(matrix_first ? small_node("n1") : matrix);
    const auto& facts = graph.vertex(graph.find("n1/gpu:0000:1b:00.0")).facts;
    EXPECT_EQ(text_of(graph, facts, "path.n1/gpu:0000:2b:00.0"), "NV18");
    EXPECT_EQ(text_of(graph, facts, "path.n1/gpu#1"), "");
    EXPECT_EQ(text_of(graph, facts, "path.elsewhere"), "SYS");
  }
}

TEST(GraphMerge, KeepsOtherNodesAndBusIdsApart) {
  Graph graph = small_node("n1");
  graph.merge(small_node("n2"));
  EXPECT_THAT(graph.of_kind(Kind::Gpu), SizeIs(4));
  EXPECT_THAT(graph.of_kind(Kind::Node), SizeIs(2));
  const std::size_t links = graph.links().size();
  graph.merge(small_node("n2"));
  EXPECT_EQ(graph.links().size(), links) << "the same again adds nothing";
}

TEST(GraphMerge, TellsWhatSourcesDisagreeOn) {
  Graph graph = small_node("n1");
  Graph other;
  const auto source = other.add_source(Source::NcclXml, "topo.xml");
  const VertexIndex node = other.add(Kind::Node, "n1");
  const VertexIndex domain = other.add(Kind::Numa, "n1/numa:1", node);
  const VertexIndex nic = other.add(Kind::Nic, "n1/nic:mlx5_0", domain);
  other.set(nic, key::kSpeed, std::int64_t{200000}, source);
  other.set(nic, key::kName, "mlx5_0", source);
  graph.merge(other);
  const auto findings = check_graph(graph);
  ASSERT_THAT(findings, SizeIs(2));
  std::string words;
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.id, "graph.conflict");
    EXPECT_EQ(finding.subject, "n1/nic:mlx5_0");
    words += finding.words + "; ";
  }
  EXPECT_THAT(words, HasSubstr("nvml and nccl-xml disagree on mbit_per_s of n1/nic:mlx5_0"));
  EXPECT_THAT(words, HasSubstr("disagree on parent"));
}

TEST(GraphMerge, RoundingIsNoConflict) {
  Graph graph = small_node("n1", {0, 1}, 100);
  Graph renamed;  // the same link from another source
  const auto source = renamed.add_source(Source::NvidiaSmi, "smi");
  const VertexIndex gpu =
      renamed.add(Kind::Gpu, "n1/gpu:0000:1b:00.0", renamed.add(Kind::Node, "n1"));
  const VertexIndex nvswitch = renamed.add(Kind::NvSwitch, "n1/nvswitch:0", renamed.find("n1"));
  renamed.set_link(renamed.connect(LinkKind::NvLink, gpu, nvswitch), key::kBandwidth, 101.9,
                   source);
  graph.merge(renamed);
  EXPECT_THAT(check_graph(graph), IsEmpty());
}

TEST(GraphJson, IsReadBackAsItWas) {
  Graph graph = small_node("n1");
  graph.merge(small_node("n2"));
  const auto source = graph.add_source(Source::User, "a \"hostile\" \n\x1b place");
  graph.set(graph.find("n1"), "k\xff", "v\x01", source);
  graph.set(graph.find("n2"), "real", 1.0, source);
  const Graph back = parse_graph(to_json(graph), "graph.json");
  EXPECT_EQ(to_json(back), to_json(graph));
  EXPECT_EQ(fingerprint(back), fingerprint(graph));
  EXPECT_TRUE(std::holds_alternative<double>(
      fact_of(back, back.vertex(back.find("n2")).facts, "real")->value));
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
    (void)parse_graph(GetParam().text, "g.json");
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
  const std::string one = fingerprint(small_node("n1"));
  EXPECT_THAT(one, SizeIs(32));
  EXPECT_EQ(fingerprint(small_node("other", {1, 0})), one);
  Graph forwards, backwards;
  for (const char* name : {"a", "b", "c"}) forwards.merge(small_node(name));
  for (const char* name : {"z", "y", "x"}) backwards.merge(small_node(name, {1, 0}));
  EXPECT_EQ(fingerprint(forwards), fingerprint(backwards));
  EXPECT_NE(fingerprint(forwards), one);
}

TEST(Fingerprint, SeesWhatMatters) {
  const std::string healthy = fingerprint(small_node("n1"));
  EXPECT_NE(fingerprint(small_node("n1", {0, 1}, 50)), healthy) << "a slower link";
  Graph moved = small_node("n1");
  const auto source = moved.add_source(Source::User, "");
  moved.set(moved.find("n1/nic:mlx5_0"), key::kSpeed, std::int64_t{100000}, source);
  EXPECT_NE(fingerprint(moved), healthy) << "a slower NIC";
  Graph more = small_node("n1");
  more.add(Kind::Nic, "n1/nic:mlx5_1", more.find("n1/numa:1"));
  EXPECT_NE(fingerprint(more), healthy) << "a NIC more";
}

TEST(Fingerprint, OfSomeNodesSeesOnlyTheirs) {
  Graph graph;
  for (const char* name : {"a", "b", "c"}) graph.merge(small_node(name));
  graph.merge(small_node("slow", {0, 1}, 50));
  const auto of = [&](const std::vector<std::string>& names) {
    std::vector<VertexIndex> nodes;
    for (const std::string& name : names) nodes.push_back(graph.find(name));
    return fingerprint(graph, nodes);
  };
  EXPECT_EQ(of({"a", "b"}), of({"c", "a"}));
  EXPECT_EQ(of({"b"}), fingerprint(small_node("n1")));
  EXPECT_NE(of({"a", "b"}), of({"a"}));
  EXPECT_NE(of({"a", "b"}), of({"a", "slow"}));
  const std::string before = of({"a", "b"});
  const VertexIndex leaf = graph.add(Kind::FabricSwitch, "leaf", graph.add(Kind::Fabric, "f"));
  graph.connect(LinkKind::Fabric, leaf, graph.find("a/nic:mlx5_0"));
  EXPECT_EQ(of({"a", "b"}), before) << "fabrics are left out";
}

TEST(Fingerprint, OfSomeNodesSeesTheNvlinkDomainBetweenThem) {
  const Graph racks = generate(example("gb200-nvl72"), 36);
  const std::vector<VertexIndex> nodes = racks.of_kind(Kind::Node);
  ASSERT_EQ(nodes.size(), 36U);
  const auto of = [&](std::size_t first, std::size_t second) {
    return fingerprint(racks, {nodes[first], nodes[second]});
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
  const auto normal = normal_bus_id(GetParam().text);
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
  for (int i = 0; i <= static_cast<int>(Kind::NvSwitch); ++i) {
    EXPECT_EQ(parse_kind(name_of(static_cast<Kind>(i))), static_cast<Kind>(i));
  }
  for (int i = 0; i <= static_cast<int>(Source::Derived); ++i) {
    EXPECT_EQ(parse_source(name_of(static_cast<Source>(i))), static_cast<Source>(i));
  }
  for (int i = 0; i <= static_cast<int>(LinkKind::Fabric); ++i) {
    EXPECT_EQ(parse_link_kind(name_of(static_cast<LinkKind>(i))), static_cast<LinkKind>(i));
  }
  EXPECT_FALSE(parse_kind("moon"));
}

TEST(Graph, WhatIsNoUtf8IsTheSameAfterJson) {
  Graph graph;
  const std::uint32_t source = graph.add_source(Source::Ibnetdiscover, "dump");
  const VertexIndex fabric_switch = graph.add(Kind::FabricSwitch, "switch:\xac\xae");
  graph.set(fabric_switch, key::kModel, std::string("\xac\xaeM9701"), source);
  EXPECT_EQ(graph.find("switch:\xac\xae"), fabric_switch);
  EXPECT_EQ(graph.add(Kind::FabricSwitch, "switch:\xac\xae"), fabric_switch);
  const Graph back = parse_graph(to_json(graph), "graph.json");
  EXPECT_EQ(fingerprint(back), fingerprint(graph));
  EXPECT_EQ(to_json(back), to_json(graph));
}

}  // namespace
}  // namespace regatta::topology
