#include "topology/graph/paths.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "tests/shared_data.h"
#include "topology/graph/nccl_speeds.h"
#include "topology/sources/nccl_graph.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/smi_topo.h"

namespace regatta::topology {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}
graph::Graph shared_xml(const std::string& file) {
  return sources::read_nccl_xml(read_file(tests::shared_path("topologies/nccl-xml") / file),
                                {"n1", file});
}
graph::Graph shared_matrix(const std::string& file, const std::string& model = "") {
  return sources::read_smi_topo(read_file(tests::shared_path("topologies/smi-topo") / file),
                                {"n1", file, model});
}

// Every kind of way. Node n1: NUMA 0 and 1; GPU a and b and NIC x below one bridge, NIC y below
// another bridge of the same switch, NIC z beside them at the CPU, GPU c and NIC w at the other
// CPU. GPU a, b and c: a – b – c by NVLink. Node n2: GPU d with NIC v, and a chip link to its CPU.
class PathsOfAll : public testing::Test {
 protected:
  PathsOfAll() {
    source_ = graph_.add_source(graph::Source::User, "test");
    const graph::VertexIndex n1 = graph_.add(graph::Kind::Node, "n1");
    const graph::VertexIndex n2 = graph_.add(graph::Kind::Node, "n2");
    for (const auto& [name, node] :
         {std::pair("n1/numa:0", n1), std::pair("n1/numa:1", n1), std::pair("n2/numa:0", n2)}) {
      graph_.add(graph::Kind::Numa, name, node);
    }
    join(graph::LinkKind::Smp, "n1/numa:0", "n1/numa:1", 10);
    below(graph::Kind::PciSwitch, "top", "n1/numa:0", 24);
    below(graph::Kind::PciSwitch, "left", "top", 24);
    below(graph::Kind::PciSwitch, "right", "top", 24);
    below(graph::Kind::Gpu, "a", "left", 24);
    below(graph::Kind::Gpu, "b", "left", 24);
    below(graph::Kind::Nic, "x", "left", 12);
    below(graph::Kind::Nic, "y", "right", 24);
    below(graph::Kind::Nic, "z", "n1/numa:0", 24);
    below(graph::Kind::Gpu, "c", "n1/numa:1", 24);
    below(graph::Kind::Nic, "w", "n1/numa:1", 24);
    below(graph::Kind::Gpu, "d", "n2/numa:0", 48);
    below(graph::Kind::Nic, "v", "n2/numa:0", 48);
    join(graph::LinkKind::NvLink, "a", "b", 40);
    join(graph::LinkKind::NvLink, "b", "c", 20);
    join(graph::LinkKind::C2c, "d", "n2/numa:0", 450);
    graph_.set(graph_.find("y"), graph::key::kSpeed, std::int64_t{100'000}, source_);
  }

  void join(graph::LinkKind kind, const std::string& a, const std::string& b, double gb_per_s) {
    const auto link = graph_.connect(kind, graph_.find(a), graph_.find(b));
    graph_.set_link(link, graph::key::kBandwidth, gb_per_s, source_);
    graph_.set_link(link, graph::key::kCount, static_cast<std::int64_t>(gb_per_s / 20), source_);
  }
  void below(graph::Kind kind, const std::string& id, const std::string& parent, double gb_per_s) {
    graph_.add(kind, id, graph_.find(parent));
    join(graph::LinkKind::Pcie, id, parent, gb_per_s);
  }

  graph::Graph graph_;
  std::uint32_t source_ = 0;
};

TEST_F(PathsOfAll, ClimbTheLadder) {
  struct Row {
    const char *a, *b;
    graph::PathType type;
    double gb_per_s;  // 0: not known
    std::size_t via;  // with both ends
  };
  const Row rows[] = {
      {"a", "a", graph::PathType::Loc, 0, 1},    {"a", "b", graph::PathType::Nvl, 40, 2},
      {"a", "c", graph::PathType::Nvb, 20, 3},   {"a", "x", graph::PathType::Pix, 12, 3},
      {"a", "y", graph::PathType::Pxb, 12.5, 5}, {"a", "z", graph::PathType::Phb, 24, 5},
      {"a", "w", graph::PathType::Sys, 10, 6},   {"c", "w", graph::PathType::Phb, 24, 3},
      {"c", "x", graph::PathType::Sys, 10, 6},   {"x", "y", graph::PathType::Pxb, 12, 5},
      {"d", "v", graph::PathType::P2c, 48, 3},   {"a", "d", graph::PathType::Net, 0, 0},
      {"x", "v", graph::PathType::Net, 0, 0},
  };
  for (const Row& row : rows) {
    for (const bool there : {true, false}) {
      const graph::VertexIndex a = graph_.find(there ? row.a : row.b);
      const graph::VertexIndex b = graph_.find(there ? row.b : row.a);
      const graph::Path path = graph::path_of(graph_, a, b);
      EXPECT_STREQ(graph::name_of(path.type), graph::name_of(row.type)) << row.a << row.b;
      EXPECT_NEAR(path.gb_per_s.value_or(0), row.gb_per_s, 1e-9) << row.a << row.b;
      ASSERT_EQ(path.via.size(), row.via) << row.a << row.b;
      if (row.via == 0) continue;
      EXPECT_EQ(path.via.front(), a);
      EXPECT_EQ(path.via.back(), b);
    }
  }
}

TEST_F(PathsOfAll, NothingConnectsNodesWithoutNics) {
  const graph::VertexIndex e =
      graph_.add(graph::Kind::Gpu, "e", graph_.add(graph::Kind::Node, "n3"));
  EXPECT_EQ(graph::path_of(graph_, e, graph_.find("a")).type, graph::PathType::Dis);
}

TEST_F(PathsOfAll, NcclSendsOverANearerGpu) {
  below(graph::Kind::PciSwitch, "far", "n1/numa:1", 24);
  below(graph::Kind::Gpu, "e", "far", 24);
  below(graph::Kind::Nic, "u", "far", 24);
  join(graph::LinkKind::NvLink, "c", "e", 20);
  const graph::Paths paths(graph_);
  const auto to = [&](const char* gpu, const char* nic) {
    return paths.to_nic(graph_.find(gpu), graph_.find(nic));
  };
  EXPECT_EQ(to("a", "x").type, graph::PathType::Pix) << "near enough";
  EXPECT_EQ(to("c", "x").type, graph::PathType::Pxn) << "over b";
  EXPECT_NEAR(*to("c", "x").gb_per_s, 12, 1e-9);
  EXPECT_EQ(to("c", "x").via.at(1), graph_.find("b"));
  EXPECT_EQ(to("a", "w").type, graph::PathType::Sys) << "c is not near enough itself";
  EXPECT_EQ(to("c", "w").type, graph::PathType::Phb) << "no GPU is nearer";
  EXPECT_EQ(to("c", "u").type, graph::PathType::Pxn) << "over e";
  EXPECT_EQ(to("b", "u").type, graph::PathType::Sys) << "e is two NVLinks away";
}

TEST(Paths, AnUnknownPartLeavesTheBandwidthOpen) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::User, "test");
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  const graph::VertexIndex gpu = graph.add(graph::Kind::Gpu, "g", node);
  const graph::VertexIndex nic = graph.add(graph::Kind::Nic, "n", node);
  EXPECT_EQ(graph::path_of(graph, gpu, nic).type, graph::PathType::Phb) << "one CPU";
  EXPECT_FALSE(graph::path_of(graph, gpu, nic).gb_per_s);
  graph.set(nic, graph::key::kSpeed, std::int64_t{400'000}, source);
  EXPECT_FALSE(graph::path_of(graph, gpu, nic).gb_per_s) << "the way to the card is not known";
  graph.add(graph::Kind::Numa, "n1/numa:0", node);
  graph.add(graph::Kind::Numa, "n1/numa:1", node);
  EXPECT_EQ(graph::path_of(graph, gpu, nic).type, graph::PathType::Sys) << "any of two";
}

TEST(Paths, SwitchesOfANodeAddUpAndReachOtherNodes) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::User, "test");
  const graph::VertexIndex domain = graph.add(graph::Kind::NvlinkDomain, "rack");
  const graph::VertexIndex a = graph.add(graph::Kind::Gpu, "a", graph.add(graph::Kind::Node, "n1"));
  const graph::VertexIndex b = graph.add(graph::Kind::Gpu, "b", graph.add(graph::Kind::Node, "n2"));
  for (const char* const name : {"s1", "s2", "s3"}) {
    const graph::VertexIndex nvswitch = graph.add(graph::Kind::NvSwitch, name, domain);
    for (const graph::VertexIndex gpu : {a, b}) {
      const auto link = graph.connect(graph::LinkKind::NvLink, gpu, nvswitch);
      graph.set_link(link, graph::key::kBandwidth, 80.0, source);
      graph.set_link(link, graph::key::kCount, std::int64_t{2}, source);
    }
  }
  const graph::Path path = graph::path_of(graph, a, b);
  EXPECT_EQ(path.type, graph::PathType::Nvl);
  EXPECT_NEAR(path.gb_per_s.value_or(0), 240, 1e-9);
  EXPECT_EQ(path.nvlinks, 6);
}

TEST(Paths, SwitchesThatAMatrixCannotNameAreNotCountedTwice) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::Nvml, "n1");
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  std::string matrix = "\tGPU0\tGPU1\tGPU2\n";
  for (int i = 0; i < 3; ++i) {
    const std::string bus = "0000:0" + std::to_string(i) + ":00.0";
    const graph::VertexIndex gpu = graph.add(graph::Kind::Gpu, "n1/gpu:" + bus, node);
    graph.set(gpu, graph::key::kIndex, std::int64_t{i}, source);
    graph.set(gpu, graph::key::kBusId, bus, source);
    for (const char* const name : {"n1/nvswitch:0000:c1:00.0", "n1/nvswitch:0000:c2:00.0"}) {
      const auto link =
          graph.connect(graph::LinkKind::NvLink, gpu, graph.add(graph::Kind::NvSwitch, name, node));
      graph.set_link(link, graph::key::kCount, std::int64_t{9}, source);
      graph.set(graph.find(name), graph::key::kBusId, std::string(name).substr(12), source);
    }
    matrix += "GPU" + std::to_string(i);
    for (int j = 0; j < 3; ++j) matrix += i == j ? "\tX" : "\tNV18";
    matrix += "\n";
  }
  graph.merge(sources::read_smi_topo(matrix, {"n1", "topo.txt", ""}));
  ASSERT_NE(graph.find("n1/nvswitch#0"), graph::kNoVertex);
  EXPECT_TRUE(graph::is_stand_in(graph, graph.find("n1/nvswitch#0")));
  EXPECT_EQ(
      graph::path_of(graph, graph.find("n1/gpu:0000:00:00.0"), graph.find("n1/gpu:0000:02:00.0"))
          .nvlinks,
      18);
  EXPECT_THAT(sources::write_nccl_xml(graph, node), testing::Not(testing::HasSubstr("fffffff")));
}

TEST(Paths, OfPublicMachines) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  struct Row {
    const char* file;
    const char *a, *b;
    graph::PathType type;
    double gb_per_s;
  };
  const Row rows[] = {
      {"oci-H100-topology.xml", "gpu:0000:0f:00.0", "gpu:0000:d8:00.0", graph::PathType::Nvl,
       18 * 20.6},
      {"oci-H100-topology.xml", "gpu:0000:0f:00.0", "nic:mlx5_1", graph::PathType::Pxb, 22.5},
      {"oci-H100-topology.xml", "gpu:0000:0f:00.0", "nic:mlx5_17", graph::PathType::Sys, 6},
      {"mlperf-hpe-675d_nic_affinity.xml", "gpu:0000:07:00.0", "gpu:0000:0b:00.0",
       graph::PathType::Nvl, 240},
      {"azure-ndv5-topo.xml", "gpu:0001:00:00.0", "nic:0101:00:00.0", graph::PathType::Pix, 48},
      {"azure-ndv5-topo.xml", "gpu:0001:00:00.0", "nic:0102:00:00.0", graph::PathType::Phb, 48},
      {"azure-ncv4-topo.xml", "gpu:0001:00:00.0", "gpu:0002:00:00.0", graph::PathType::Sys, 12},
      {"aws-p4d-24xl-topo.xml", "gpu:0000:10:1c.0", "nic:0000:10:1b.0", graph::PathType::Pix, 12},
      {"rccl-topo_4p3l_ia.xml", "gpu:0000:1d:00.0", "gpu:0000:20:00.0", graph::PathType::Nvl, 0},
      {"rccl-topo_4p3l_ia.xml", "gpu:0000:1d:00.0", "gpu:0000:3f:00.0", graph::PathType::Phb, 12},
      {"rccl-topo_16p1h.xml", "gpu:0000:4e:00.0", "nic:mlx5_0", graph::PathType::Pxb, 12},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.file) + " " + row.a + " " + row.b);
    const graph::Graph graph = shared_xml(row.file);
    const graph::VertexIndex a = graph.find(std::string("n1/") + row.a);
    const graph::VertexIndex b = graph.find(std::string("n1/") + row.b);
    ASSERT_NE(a, graph::kNoVertex);
    ASSERT_NE(b, graph::kNoVertex);
    const graph::Path path = graph::path_of(graph, a, b);
    EXPECT_STREQ(graph::name_of(path.type), graph::name_of(row.type));
    EXPECT_NEAR(path.gb_per_s.value_or(0), row.gb_per_s, 1e-9);
  }
}

TEST(Paths, AMatrixTellsWhatNoBridgesTell) {
  REGATTA_NEED_SHARED("topologies/smi-topo");
  const graph::Graph dgx1 = shared_matrix("dgx1-v100-8gpu-4mlx5.txt", "Tesla V100-SXM2-32GB");
  const graph::Paths paths(dgx1);
  const auto between = [&](const char* a, const char* b) {
    return paths.between(dgx1.find(std::string("n1/") + a), dgx1.find(std::string("n1/") + b));
  };
  EXPECT_EQ(between("gpu#0", "gpu#3").type, graph::PathType::Nvl);
  EXPECT_NEAR(between("gpu#0", "gpu#3").gb_per_s.value_or(0), 40, 1e-9);
  EXPECT_EQ(between("gpu#0", "gpu#5").type, graph::PathType::Nvb)
      << "SYS, but NCCL goes over GPU 1";
  EXPECT_EQ(between("gpu#0", "nic:mlx5_0").type, graph::PathType::Pix);
  EXPECT_EQ(between("nic:mlx5_3", "gpu#0").type, graph::PathType::Sys);
  const graph::Graph hgx = shared_matrix("hgx-nv18-8gpu-9nic-ansi-header.txt");
  EXPECT_EQ(graph::path_of(hgx, hgx.find("n1/gpu#4"), hgx.find("n1/nic#8")).type,
            graph::PathType::Phb)
      << "NODE";
  EXPECT_EQ(graph::path_of(hgx, hgx.find("n1/gpu#4"), hgx.find("n1/nic#4")).type,
            graph::PathType::Pxb);
  EXPECT_EQ(graph::path_of(hgx, hgx.find("n1/gpu#4"), hgx.find("n1/gpu#0")).nvlinks, 18);
}

// A matrix written as NCCL's XML and read again: every pair of devices still reaches each other the
// same way, over bridges that were made up.
TEST(Paths, AreTheSameInTheXmlOfAMatrix) {
  REGATTA_NEED_SHARED("topologies/smi-topo");
  const std::pair<const char*, const char*> refused[] = {
      {"dgx-a100-8gpu-10nic.txt", "not the one of"},
      {"dgx1-v100-8gpu-4mlx5.txt", "at different CPUs"},
      {"legacy-soc-legend-4gpu-mlx4.txt", "at different CPUs"},
  };
  std::size_t compared = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(tests::shared_path("topologies/smi-topo"))) {
    const std::string file = entry.path().filename();
    SCOPED_TRACE(file);
    const graph::Graph matrix = shared_matrix(file);
    const graph::VertexIndex node = matrix.find("n1");
    EXPECT_THROW((void)sources::write_nccl_xml(matrix, node), base::Error) << "no bus ids";
    const auto why = std::find_if(std::begin(refused), std::end(refused),
                                  [&](const auto& row) { return row.first == file; });
    if (why != std::end(refused)) {
      try {
        (void)sources::write_nccl_xml(matrix, node, {.invent_bus_ids = true});
        ADD_FAILURE() << "was written";
      } catch (const base::Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(why->second));
      }
      continue;
    }
    const graph::Graph xml = sources::read_nccl_xml(
        sources::write_nccl_xml(matrix, node, {.invent_bus_ids = true}), {"n1", "made.xml"});
    // Both in order of id, and ids were invented in that order.
    std::vector<graph::VertexIndex> before = matrix.below(node, graph::Kind::Gpu);
    std::vector<graph::VertexIndex> after = xml.below(xml.find("n1"), graph::Kind::Gpu);
    for (const graph::VertexIndex nic : matrix.below(node, graph::Kind::Nic)) before.push_back(nic);
    for (const graph::VertexIndex nic : xml.below(xml.find("n1"), graph::Kind::Nic))
      after.push_back(nic);
    ASSERT_EQ(before.size(), after.size());
    const graph::Paths ours(matrix), theirs(xml);
    for (std::size_t i = 0; i < before.size(); ++i) {
      for (std::size_t j = 0; j < before.size(); ++j, ++compared) {
        EXPECT_STREQ(graph::name_of(ours.between(before[i], before[j]).type),
                     graph::name_of(theirs.between(after[i], after[j]).type))
            << matrix.vertex(before[i]).id << " " << matrix.vertex(before[j]).id;
      }
    }
  }
  EXPECT_EQ(compared, 16U + 64 + 64 + 16 + 256 + 289 + 4 + 16 + 81);
}

TEST(Paths, NamesGoBothWays) {
  for (int i = 0; i <= static_cast<int>(graph::PathType::Dis); ++i) {
    const auto type = static_cast<graph::PathType>(i);
    EXPECT_EQ(graph::parse_path_type(graph::name_of(type)), type);
  }
  EXPECT_EQ(graph::parse_path_type("NODE"), graph::PathType::Phb);
  EXPECT_EQ(graph::parse_path_type("SOC"), graph::PathType::Sys);
  EXPECT_EQ(graph::parse_path_type("NV12"), graph::PathType::Nvl);
  for (const char* const bad : {"", "NV", "NVx", "pix", "X"})
    EXPECT_FALSE(graph::parse_path_type(bad));
}

TEST(MatrixText, IsATable) {
  const char* const matrix =
      "\tGPU0\tGPU1\tmlx5_10\tmlx5_2\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tNV4\tPIX\tSYS\t0-3\t0\n"
      "GPU1\tNV4\t X \tSYS\tNODE\t4-7\t1\n"
      "mlx5_10\tPIX\tSYS\t X \tSYS\t\t\n"
      "mlx5_2\tSYS\tNODE\tSYS\t X \t\t\n";
  const graph::Graph graph = sources::read_smi_topo(matrix, {"n1", "topo.txt", ""});
  EXPECT_EQ(graph::matrix_text(graph, graph::Paths(graph), graph.find("n1")),
            "      GPU0  GPU1  mlx5_2  mlx5_10  NUMA\n"
            "GPU0  -     NV4   SYS     PIX      0\n"
            "GPU1  NV4   -     PHB     SYS      1\n"
            "\n"
            "NVL  NVLink (NV#: that many of them)\n"
            "PIX  one PCIe bridge\n"
            "PHB  the CPU\n"
            "SYS  several CPUs\n");
  graph::Graph empty;
  const graph::VertexIndex node = empty.add(graph::Kind::Node, "n");
  EXPECT_EQ(graph::matrix_text(empty, graph::Paths(empty), node), "no GPU is known\n");
}

// What `regatta topo` shows of a node.
std::string matrix_of(const graph::Graph& graph) {
  return graph::matrix_text(graph, graph::Paths(graph), graph.find("n1"));
}

// As sysfs has it where the kernel gives no NUMA domain (-1): PCIe leads to the node.
graph::Graph without_numa(int domains) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::Sysfs, "n1");
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  for (int i = 0; i < domains; ++i)
    graph.add(graph::Kind::Numa, "n1/numa:" + std::to_string(i), node);
  for (int i = 0; i < 2; ++i) {
    const std::string bus = "0000:0" + std::to_string(i + 1) + ":00.0";
    const graph::VertexIndex gpu = graph.add(graph::Kind::Gpu, "n1/gpu:" + bus, node);
    graph.set(gpu, graph::key::kBusId, bus, source);
    graph.set(gpu, graph::key::kIndex, std::int64_t{i}, source);
    graph.connect(graph::LinkKind::Pcie, gpu, node);
  }
  return graph;
}

TEST(MatrixText, SaysNothingWhereNoSourceDoes) {
  const char* const unknown =
      "      GPU0  GPU1  NUMA\n"
      "GPU0  -     ?     ?\n"
      "GPU1  ?     -     ?\n"
      "\n"
      "?  no source says\n";
  EXPECT_EQ(matrix_of(without_numa(0)), unknown);
  EXPECT_EQ(matrix_of(without_numa(2)), unknown);
  EXPECT_THAT(matrix_of(without_numa(1)), HasSubstr("PHB  the CPU")) << "there is no other one";
  // The matrix of the same machine tells.
  for (const std::string type : {"SYS", "PHB", "PIX"}) {
    graph::Graph graph = without_numa(0);
    graph.merge(
        sources::read_smi_topo("\tGPU0\tGPU1\nGPU0\t X \t" + type + "\nGPU1\t" + type + "\t X \n",
                               {"n1", "topo.txt", ""}));
    const std::string text = matrix_of(graph);
    EXPECT_THAT(text, HasSubstr("GPU0  -     " + type)) << text;
    EXPECT_THAT(text, Not(HasSubstr("?  no source"))) << text;
  }
}

TEST(MatrixText, OfPublicFilesThatTellNoPaths) {
  REGATTA_NEED_SHARED("topologies");
  // Its GPUs have NVLinks, and nothing says what these lead to.
  const std::string nvlinks =
      tests::file_text(tests::shared_path("topologies/misc/nvidia-smi-nvlink-s.a100.txt"));
  const std::string list = matrix_of(sources::read_smi_nvlink(nvlinks, {"n1", "nvlink.txt", ""}));
  EXPECT_THAT(list, AllOf(HasSubstr("?  no source says"), Not(HasSubstr("PHB")))) << list;
  // A search that found SYS to be its worst path.
  const std::string searches =
      tests::file_text(tests::shared_path("topologies/nccl-xml/azure-ncv4-graph.xml"));
  const std::string dump = matrix_of(
      sources::graph_of_searches(sources::parse_nccl_graphs(searches, "g.xml"), "n1", "g.xml"));
  EXPECT_THAT(dump, AllOf(HasSubstr("?  no source says"), Not(HasSubstr("PHB")))) << dump;
}

TEST(MatrixText, XgmiIsNoNvlink) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  std::size_t with_xgmi = 0;
  for (const char* const file : {"rccl-topo_8p_940.xml", "rccl-topo_8p6l_4nic.xml",
                                 "rccl-topo_16p1h.xml", "rccl-topo_3p_pcie.xml"}) {
    const std::string text = matrix_of(sources::read_nccl_xml(
        tests::file_text(tests::shared_path("topologies/nccl-xml") / file), {"n1", file}));
    EXPECT_THAT(text, AllOf(Not(HasSubstr("NV")), Not(HasSubstr("NVLink")))) << file << text;
    with_xgmi += text.find("XGMI  xGMI (XGMI#: that many links)") != std::string::npos;
  }
  EXPECT_EQ(with_xgmi, 3U) << "one has PCIe only";
}

TEST(MatrixText, XgmiOverAnotherGpuHasAWordOfItsOwn) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::NcclXml, "t.xml");
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  std::vector<graph::VertexIndex> gpus;
  for (int i = 0; i < 3; ++i) {
    gpus.push_back(graph.add(graph::Kind::Gpu, "n1/gpu#" + std::to_string(i), node));
    graph.set(gpus.back(), graph::key::kIndex, std::int64_t{i}, source);
    if (i == 0) continue;
    graph.set_link(
        graph.connect(graph::LinkKind::Xgmi, gpus[static_cast<std::size_t>(i) - 1], gpus.back()),
        graph::key::kCount, std::int64_t{2}, source);
  }
  EXPECT_THAT(matrix_of(graph), HasSubstr("GPU0  -      XGMI2  XGB"));
  EXPECT_THAT(matrix_of(graph), HasSubstr("XGB  xGMI over another GPU"));
}

TEST(NcclSpeeds, AreNccls) {
  const std::pair<std::int64_t, double> nvlinks[] = {{60, 18}, {70, 20},   {80, 20},
                                                     {86, 12}, {90, 20.6}, {100, 40.1}};
  for (const auto& [sm, speed] : nvlinks) EXPECT_EQ(graph::nvlink_gb_per_s(sm), speed);
  EXPECT_FALSE(graph::nvlink_gb_per_s(52));
  const std::tuple<const char*, std::int64_t, double> pcie[] = {
      {"2.5 GT/s", 16, 3},        {"5.0 GT/s PCIe", 16, 6},   {"8 GT/s", 16, 12},
      {"16.0 GT/s PCIe", 16, 24}, {"32 GT/s PCIe/s", 16, 48}, {"64.0 GT/s PCIe", 16, 96},
      {"16 GT/s", 8, 12},         {"16 GT/s", 0, 24},         {"9 GT/s", 16, 12},
  };
  for (const auto& [text, width, speed] : pcie) {
    ASSERT_TRUE(graph::parse_pcie_speed(text)) << text;
    EXPECT_NEAR(graph::nccl_pcie_gb_per_s(*graph::parse_pcie_speed(text), width), speed, 1e-9)
        << text;
  }
  for (const char* const bad : {"", "16", "GT/s", " GT/s", "x GT/s", "-1 GT/s", "nan GT/s"}) {
    EXPECT_FALSE(graph::parse_pcie_speed(bad)) << bad;
  }
  EXPECT_NEAR(graph::nccl_pcie_gb_per_s(0, 0), 12, 1e-9) << "what NCCL takes for a VM";
  const std::pair<graph::CpuModel, double> cpus[] = {
      {{"x86_64", "AuthenticAMD", 175, 1}, 16},
      {{"x86_64", "GenuineIntel", 6, 79}, 6},
      {{"x86_64", "GenuineIntel", 6, 85}, 10},
      {{"x86_64", "GenuineIntel", 6, 143}, 22},
      {{"x86_64", "GenuineIntel", 6, 207}, 40},
      {{"arm64", "", 0, 0}, 6},
      {{"ppc64", "", 0, 0}, 32},
  };
  for (const auto& [cpu, speed] : cpus) EXPECT_EQ(graph::smp_gb_per_s(cpu), speed) << cpu.model;
  EXPECT_FALSE(graph::smp_gb_per_s({"x86_64", "", 0, 0}));
  EXPECT_EQ(graph::nic_gb_per_s(400'000), 50);
  EXPECT_EQ(graph::nic_gb_per_s(0), 1.25);
  const std::pair<const char*, std::int64_t> models[] = {
      {"NVIDIA A100-SXM4-80GB", 80}, {"NVIDIA A10", 86},         {"NVIDIA A10G", 86},
      {"NVIDIA H100 80GB HBM3", 90}, {"NVIDIA GH200 480GB", 90}, {"NVIDIA GB200", 100},
      {"Tesla V100-SXM2-32GB", 70},  {"NVIDIA L40S", 89},        {"NVIDIA B200", 100},
  };
  for (const auto& [model, sm] : models)
    EXPECT_EQ(graph::compute_capability_of(model), sm) << model;
  for (const char* const model : {"", "NVIDIA RTX A1000", "AMD Instinct MI300X"}) {
    EXPECT_FALSE(graph::compute_capability_of(model)) << model;
  }
}

}  // namespace
}  // namespace regatta::topology
