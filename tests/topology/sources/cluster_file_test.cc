#include "topology/sources/cluster_file.h"

#include <gmock/gmock.h>

#include <map>

#include "base/error.h"
#include "tests/topology/sources/examples.h"
#include "topology/graph/figures.h"
#include "topology/sources/fabric_layout.h"

namespace regatta::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

double link_figure(const graph::Graph& graph, graph::LinkKind kind, const char* a, const char* b) {
  const auto link = graph.find_link(kind, graph.find(a), graph.find(b));
  return link ? graph::number_of(graph, graph.links()[*link].facts, graph::key::kBandwidth)
                    .value_or(-1)
              : -2;
}

struct Gpu {
  const char* name;
  const char* words;  // the row; null: none
};
class GpuTable : public testing::TestWithParam<Gpu> {};
TEST_P(GpuTable, FindsTheRow) {
  const graph::GpuFigures* const row = graph::gpu_figures(GetParam().name);
  if (GetParam().words == nullptr) {
    EXPECT_EQ(row, nullptr) << row->words;
  } else {
    ASSERT_NE(row, nullptr);
    EXPECT_STREQ(row->words, GetParam().words);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Table, GpuTable,
    testing::Values(Gpu{"NVIDIA A100-SXM4-80GB", "A100 SXM4"}, Gpu{"A100-SXM4-40GB", "A100 SXM4"},
                    Gpu{"NVIDIA A100 80GB PCIe", "A100 PCIE"}, Gpu{"NVIDIA H100 80GB HBM3", "H100"},
                    Gpu{"NVIDIA H100 PCIe", "H100 PCIE"}, Gpu{"NVIDIA H100 NVL", "H100 NVL"},
                    Gpu{"NVIDIA H200", "H200"}, Gpu{"NVIDIA GH200 480GB", "GH200"},
                    Gpu{"NVIDIA GB200", "GB200"}, Gpu{"NVIDIA A10", "A10"},
                    Gpu{"NVIDIA A10G", "A10G"}, Gpu{"Tesla V100-SXM2-32GB", "V100 SXM2"},
                    Gpu{"NVIDIA L40S", "L40S"}, Gpu{"nvidia l4", "L4"}, Gpu{"", nullptr},
                    Gpu{"NVIDIA H1000", nullptr}, Gpu{"A100", nullptr},
                    Gpu{"AMD Instinct MI300X", nullptr}));

struct Rate {
  const char* name;
  std::int64_t mbit_per_s;  // 0: none
  int lanes;
};
class NetworkRates : public testing::TestWithParam<Rate> {};
TEST_P(NetworkRates, AreRead) {
  const auto rate = graph::network_rate(GetParam().name);
  EXPECT_EQ(rate ? rate->mbit_per_s : 0, GetParam().mbit_per_s);
  EXPECT_EQ(rate ? rate->lanes : 0, GetParam().lanes);
}
INSTANTIATE_TEST_SUITE_P(Table, NetworkRates,
                         testing::Values(Rate{"NDR", 400000, 4}, Rate{"HDR", 200000, 4},
                                         Rate{"HDR100", 100000, 2}, Rate{"NDR200", 200000, 2},
                                         Rate{"EDR", 100000, 4}, Rate{"FDR10", 40000, 4},
                                         Rate{"1X SDR", 2500, 1}, Rate{"100GbE", 100000, 1},
                                         Rate{"12X QDR", 120000, 12}, Rate{"", 0, 0},
                                         Rate{"GbE", 0, 0}, Rate{"-5GbE", 0, 0},
                                         Rate{"99999999GbE", 0, 0}, Rate{"3X NDR", 0, 0},
                                         Rate{"ndr", 0, 0}, Rate{"NDR400", 0, 0}));

TEST(Figures, Pcie) {
  EXPECT_NEAR(graph::pcie_gb_per_s(32, 16), 63.0, 0.1);  // generation 5
  EXPECT_NEAR(graph::pcie_gb_per_s(16, 16), 31.5, 0.1);
  EXPECT_NEAR(graph::pcie_gb_per_s(8, 8), 7.9, 0.1);
  EXPECT_NEAR(graph::pcie_gb_per_s(2.5, 1), 0.25, 0.001);
  EXPECT_NEAR(graph::pcie_gb_per_s(64, 16), 121, 0.1);
  EXPECT_FALSE(graph::pcie_gt_s(0));
  EXPECT_FALSE(graph::pcie_gt_s(7));
}

// Counts and figures of each example; the published ones are in its head.
struct Machine {
  const char* name;
  std::size_t nodes, gpus, nics, numa, pcie_switches, fabrics, leaves, switches, domains;
  double nvlink_gb_per_s;  // of a GPU, one direction; 0: none
  int nvswitches;          // of a node or a domain
  int compute_capability;
  const char* gpu_at;  // what GPU 2 of the first node hangs below
  double fabric_gb_per_s;
  friend void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.name; }
};
class Examples : public testing::TestWithParam<Machine> {};
TEST_P(Examples, HaveThePublishedFigures) {
  const Machine& expected = GetParam();
  const sources::ClusterDescription description = example(expected.name);
  const graph::Graph graph = sources::cluster_graph(description);
  EXPECT_EQ(description.node_count(), expected.nodes);
  EXPECT_THAT(graph.of_kind(graph::Kind::Node), SizeIs(expected.nodes));
  EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(expected.gpus));
  EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(expected.nics));
  EXPECT_THAT(graph.of_kind(graph::Kind::Numa), SizeIs(expected.numa));
  EXPECT_THAT(graph.of_kind(graph::Kind::PciSwitch), SizeIs(expected.pcie_switches));
  EXPECT_THAT(graph.of_kind(graph::Kind::Fabric), SizeIs(expected.fabrics));
  EXPECT_THAT(graph.of_kind(graph::Kind::NvlinkDomain), SizeIs(expected.domains));
  std::size_t leaves = 0;
  for (const graph::VertexIndex each : graph.of_kind(graph::Kind::FabricSwitch)) {
    leaves += graph::integer_of(graph, graph.vertex(each).facts, graph::key::kLevel) == 0 ? 1 : 0;
  }
  EXPECT_EQ(leaves, expected.leaves);
  EXPECT_THAT(graph.of_kind(graph::Kind::FabricSwitch), SizeIs(expected.switches));
  for (const graph::VertexIndex each : graph.of_kind(graph::Kind::NvSwitch)) {
    EXPECT_EQ(graph::integer_of(graph, graph.vertex(each).facts, graph::key::kCount),
              expected.nvswitches);
  }
  std::map<graph::VertexIndex, double> nvlinks;
  for (const graph::Link& link : graph.links()) {
    const double figure = graph::number_of(graph, link.facts, graph::key::kBandwidth).value_or(0);
    if (link.kind == graph::LinkKind::NvLink) nvlinks[link.a] += figure, nvlinks[link.b] += figure;
    if (link.kind == graph::LinkKind::Fabric && (graph.vertex(link.a).kind == graph::Kind::Nic ||
                                                 graph.vertex(link.b).kind == graph::Kind::Nic)) {
      EXPECT_DOUBLE_EQ(figure, expected.fabric_gb_per_s);
    }
  }
  for (const graph::VertexIndex gpu : graph.of_kind(graph::Kind::Gpu)) {
    EXPECT_DOUBLE_EQ(nvlinks[gpu], expected.nvlink_gb_per_s);
    EXPECT_EQ(graph::integer_of(graph, graph.vertex(gpu).facts, graph::key::kComputeCapability),
              expected.compute_capability);
  }
  const std::string host = description.kinds[0].hosts[0];
  const graph::VertexIndex gpu = graph.find(host + "/gpu#2");
  EXPECT_EQ(graph.vertex(graph.vertex(gpu).parent).id, host + expected.gpu_at);
  EXPECT_THAT(graph::check_graph(graph), IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(
    Table, Examples,
    testing::Values(
        // 8 leaves and 4 spines (8·20/40) of the compute fabric, one switch for 40 storage ports
        Machine{"dgx-a100", 20, 160, 200, 160, 80, 2, 9, 13, 0, 300, 6, 80, "/pci#1", 25},
        // 8 leaves, 8·32/64 spines; 64 storage ports
        Machine{"dgx-h100", 32, 256, 320, 64, 256, 2, 9, 13, 0, 450, 4, 90, "/pci#2", 50},
        // 2 groups of 8 leaves, 16·32/64 spines
        Machine{"hgx-h200", 64, 512, 512, 128, 512, 1, 16, 24, 0, 450, 4, 90, "/pci#2", 50},
        Machine{"pcie-100gbe", 16, 64, 32, 32, 32, 1, 1, 1, 0, 0, 0, 89, "/pci#1", 12.5},
        // 4 leaves, 4·32/64 spines
        Machine{"gb200-nvl72", 18, 72, 72, 36, 0, 1, 4, 6, 1, 900, 18, 100, "/numa:1", 50}),
    [](const auto& row) {
      std::string name = row.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(ClusterGraph, IsTheSameFromItsParts) {
  for (const char* name : {"dgx-a100", "pcie-100gbe", "gb200-nvl72"}) {
    const sources::ClusterDescription description = example(name);
    graph::Graph merged = sources::fabric_graph(description);
    for (std::size_t i = 0; i < description.node_count(); ++i) {
      merged.merge(sources::node_graph(description, i));
    }
    const graph::Graph whole = sources::cluster_graph(description);
    EXPECT_EQ(merged.vertices().size(), whole.vertices().size()) << name;
    EXPECT_EQ(merged.links().size(), whole.links().size()) << name;
    EXPECT_EQ(graph::fingerprint(merged), graph::fingerprint(whole)) << name;
    EXPECT_THAT(graph::check_graph(merged), IsEmpty()) << name;
  }
  EXPECT_THROW((void)sources::node_graph(example("pcie-100gbe"), 16), base::Error);
}

TEST(ClusterGraph, SaysWhoSaidIt) {
  const graph::Graph graph = sources::cluster_graph(example("dgx-h100"));
  const auto source_of = [&graph](const char* vertex, const char* name) {
    const graph::Fact* fact = graph::fact_of(graph, graph.vertex(graph.find(vertex)).facts, name);
    return fact == nullptr ? "none" : graph::name_of(graph.sources()[fact->source].source);
  };
  EXPECT_STREQ(source_of("dgx01/gpu#0", graph::key::kModel), "user");
  EXPECT_STREQ(source_of("dgx01/gpu#0", graph::key::kNvlinks), "derived");
  EXPECT_STREQ(source_of("dgx01/nic:mlx5_0", graph::key::kSpeed), "user");
  EXPECT_NEAR(link_figure(graph, graph::LinkKind::Pcie, "dgx01/gpu#0", "dgx01/pci#0"), 63.0, 0.1);
  EXPECT_EQ(
      graph::text_of(graph, graph.vertex(graph.find("dgx01/numa:1")).facts, graph::key::kCpus),
      "56-111,168-223");
}

TEST(ClusterGraph, EachRailHasItsLeaf) {
  const graph::Graph graph = sources::generate(example("dgx-h100"), 40);
  int railed = 0;
  for (const graph::Link& link : graph.links()) {
    if (link.kind != graph::LinkKind::Fabric) continue;
    const auto a = graph::integer_of(graph, graph.vertex(link.a).facts, graph::key::kRail);
    const auto b = graph::integer_of(graph, graph.vertex(link.b).facts, graph::key::kRail);
    if (a && b) {
      ++railed;
      EXPECT_EQ(a, b) << graph.vertex(link.a).id << " – " << graph.vertex(link.b).id;
    }
  }
  EXPECT_EQ(railed, 40 * 8);
  EXPECT_EQ(
      link_figure(graph, graph::LinkKind::Fabric, "dgx32/nic:mlx5_7", "switch:compute-rail7-leaf1"),
      50);
  EXPECT_EQ(
      link_figure(graph, graph::LinkKind::Fabric, "dgx33/nic:mlx5_7", "switch:compute-rail7-leaf2"),
      50);
}

// Every switch of a generated fabric has ports for its cables, and what goes up from the leaves is
// what the oversubscription says.
struct Size {
  const char* name;
  const char* example;
  int nodes;
  int radix;
  double oversubscription;
  std::size_t levels;
  friend void PrintTo(const Size& size, std::ostream* out) { *out << size.name; }
};
class Sizes : public testing::TestWithParam<Size> {};
TEST_P(Sizes, FitTheSwitches) {
  sources::ClusterDescription description = example(GetParam().example);
  description.fabrics.resize(1);
  description.fabrics[0].radix = GetParam().radix;
  description.fabrics[0].oversubscription = GetParam().oversubscription;
  for (sources::NicGroup& nics : description.kinds[0].nics) {
    if (nics.fabric == "storage") nics.fabric.clear();
  }
  const graph::Graph graph = sources::generate(description, GetParam().nodes);
  std::map<graph::VertexIndex, std::int64_t> ports;
  std::map<std::int64_t, std::int64_t> up;  // cables from each level
  for (const graph::Link& link : graph.links()) {
    if (link.kind != graph::LinkKind::Fabric) continue;
    const std::int64_t count = graph::integer_of(graph, link.facts, graph::key::kCount).value_or(0);
    ports[link.a] += count;
    ports[link.b] += count;
    const auto level = graph::integer_of(graph, graph.vertex(link.a).facts, graph::key::kLevel);
    const auto other = graph::integer_of(graph, graph.vertex(link.b).facts, graph::key::kLevel);
    up[level && other ? std::min(*level, *other) : -1] += count;
  }
  for (const graph::VertexIndex each : graph.of_kind(graph::Kind::FabricSwitch)) {
    EXPECT_LE(ports[each], GetParam().radix) << graph.vertex(each).id;
    EXPECT_GT(ports[each], 0) << graph.vertex(each).id;
  }
  for (const graph::VertexIndex nic : graph.of_kind(graph::Kind::Nic)) EXPECT_LE(ports[nic], 1);
  EXPECT_EQ(up.size(), GetParam().levels);
  if (up.count(0) != 0) {
    EXPECT_GE(static_cast<double>(up[0]) * GetParam().oversubscription * 1.3,
              static_cast<double>(up[-1]));
  }
  if (up.count(1) != 0) {
    EXPECT_GE(up[1], up[0]);
  }
}
INSTANTIATE_TEST_SUITE_P(Table, Sizes,
                         testing::Values(Size{"one", "dgx-h100", 1, 64, 1, 2},
                                         Size{"unit", "dgx-h100", 32, 64, 1, 2},
                                         Size{"odd", "dgx-h100", 77, 64, 1, 2},
                                         Size{"big", "dgx-h100", 1024, 64, 1, 3},
                                         Size{"slim", "dgx-h100", 200, 64, 3, 2},
                                         Size{"tree", "pcie-100gbe", 16, 32, 1, 1},
                                         Size{"tree2", "pcie-100gbe", 100, 32, 1, 2},
                                         Size{"tree3", "pcie-100gbe", 1000, 32, 1, 3},
                                         Size{"slim_tree", "pcie-100gbe", 100, 32, 3, 2},
                                         Size{"small_switches", "dgx-a100", 5, 8, 1, 3}),
                         [](const auto& row) { return std::string(row.param.name); });

std::string cluster_with(const std::string& node, const std::string& rest = "") {
  return "nodes:\n  n:\n    count: 2\n" + node + "\n" + rest;
}
struct Bad {
  const char* name;
  std::string text;
  const char* words;
  friend void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }
};
class BadCluster : public testing::TestWithParam<Bad> {};
TEST_P(BadCluster, IsRefused) {
  try {
    (void)sources::parse_cluster(GetParam().text, "c.yaml");
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), HasSubstr("c.yaml"));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().words));
  }
}
INSTANTIATE_TEST_SUITE_P(
    Table, BadCluster,
    testing::Values(
        Bad{"empty", "", "expected a mapping"}, Bad{"no_nodes", "cluster: a", "nodes: is missing"},
        Bad{"unknown_key", "nodes: {n: {count: 1}}\nfabric: {}", "did you mean 'fabrics'"},
        Bad{"unknown_key_below", cluster_with("    gpus: {modl: H100}"),
            "c.yaml:4: nodes.n.gpus.modl: unknown key; did you mean 'model'"},
        Bad{"no_names", "nodes: {n: {model: x}}", "give either names"},
        Bad{"names_and_count", "nodes: {n: {names: a, count: 1}}", "give either names"},
        Bad{"bad_names", "nodes: {n: {names: 'a[1-'}}", "nodes.n.names"},
        Bad{"too_many_names", "nodes: {n: {names: 'a[1-9999999]'}}", "nodes.n.names"},
        Bad{"too_many_parts", "nodes: {n: {count: 65536, gpus: {model: x, count: 64}}}",
            "more than 500000 parts"},
        Bad{"host_twice", "nodes: {n: {names: a}, m: {names: a}}", "a appears twice"},
        Bad{"negative", cluster_with("    gpus: {model: H100, count: -1}"), "not between 0 and 64"},
        Bad{"gpus_without_model", cluster_with("    gpus: {count: 8}"), "gpus.model: is missing"},
        Bad{"nvlink_unknown", cluster_with("    gpus: {model: T4, count: 2, nvlink: pairs}"),
            "give nvlinks"},
        Bad{"nvlink_shape", cluster_with("    gpus: {model: H100, count: 2, nvlink: star}"),
            "one of none, pairs"},
        Bad{"mesh_of_one", cluster_with("    gpus: {model: H100, count: 1, nvlink: mesh}"),
            "a mesh needs"},
        Bad{"numa", cluster_with("    pcie: {numa: [2]}"), "none of the 2 NUMA domains"},
        Bad{"generation", cluster_with("    pcie: {generation: 9}"), "not between 1 and 6"},
        Bad{"cores", cluster_with("    cpus: {cores_per_socket: 9, numa_per_socket: 4}"),
            "must divide"},
        Bad{"rate", cluster_with("    nics: {a: {count: 1, rate: fast}}"), "'fast' is not known"},
        Bad{"no_rate", cluster_with("    nics: {a: {count: 1}}"), "rate: is missing"},
        Bad{"near", cluster_with("    nics: {a: {rate: NDR, near: moon}}"), "one of numa, gpus"},
        Bad{"prefix", cluster_with("    nics: {a: {rate: NDR, prefix: 'a b'}}"), "prefix"},
        Bad{"no_such_fabric", cluster_with("    nics: {a: {rate: NDR, fabric: f}}"),
            "there is no fabric 'f'"},
        Bad{"idle_fabric", cluster_with("", "fabrics: {f: {rate: NDR}}"), "no NIC is cabled"},
        Bad{"four_levels",
            "nodes: {n: {count: 3000, nics: {a: {rate: NDR, fabric: f}}}}\n"
            "fabrics: {f: {rate: NDR, radix: 8}}",
            "fourth level"},
        Bad{"oversubscription",
            cluster_with("    nics: {a: {rate: NDR, fabric: f}}",
                         "fabrics: {f: {rate: NDR, oversubscription: 0}}"),
            "must be above 0"},
        Bad{"radix",
            cluster_with("    nics: {a: {rate: NDR, fabric: f}}",
                         "fabrics: {f: {rate: NDR, radix: 1}}"),
            "not between 2 and 1024"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(ClusterFile, SeveralKindsShareAFabric) {
  const graph::Graph graph = sources::cluster_graph(
      sources::parse_cluster("nodes:\n"
                             "  a: {count: 2, nics: {x: {rate: HDR, count: 2, fabric: f}}}\n"
                             "  b: {names: 'z[8-9]', nics: {x: {rate: HDR, fabric: f}}}\n"
                             "fabrics: {f: {rate: HDR, radix: 4}}\n",
                             "c.yaml"));
  // Two ports down a leaf: one for each node.
  EXPECT_EQ(link_figure(graph, graph::LinkKind::Fabric, "a02/nic:mlx5_1", "switch:f-leaf2"), 25);
  EXPECT_EQ(link_figure(graph, graph::LinkKind::Fabric, "z9/nic:mlx5_0", "switch:f-leaf4"), 25);
}

TEST(ClusterFile, MeshAndPairs) {
  const graph::Graph pairs = sources::cluster_graph(sources::parse_cluster(
      "nodes: {n: {count: 1, gpus: {model: NVIDIA A100 80GB PCIe, count: 4, nvlink: pairs}}}",
      "c"));
  EXPECT_EQ(link_figure(pairs, graph::LinkKind::NvLink, "n01/gpu#2", "n01/gpu#3"), 300);
  EXPECT_EQ(link_figure(pairs, graph::LinkKind::NvLink, "n01/gpu#1", "n01/gpu#2"), -2) << "no link";
  const graph::Graph mesh = sources::cluster_graph(sources::parse_cluster(
      "nodes: {n: {count: 1, gpus: {model: A100-SXM4-40GB, count: 4, nvlink: mesh}}}", "c"));
  EXPECT_EQ(link_figure(mesh, graph::LinkKind::NvLink, "n01/gpu#0", "n01/gpu#3"), 100);
}

TEST(Spread, SharesOutEvenly) {
  EXPECT_THAT(sources::spread(0, 5, 3), ElementsAre(Pair(0, 2), Pair(1, 2), Pair(2, 1)));
  EXPECT_THAT(sources::spread(1, 5, 3), ElementsAre(Pair(0, 2), Pair(1, 1), Pair(2, 2)));
  EXPECT_THAT(sources::spread(2, 1, 3), ElementsAre(Pair(2, 1)));
}

}  // namespace
}  // namespace regatta::topology
