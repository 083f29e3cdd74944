#include "topology/sources/smi_topo.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "tests/shared_data.h"

namespace regatta::topology {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

sources::SmiContext context(const std::string& model = "") { return {"n1", "topo.txt", model}; }

std::string fact(const graph::Graph& graph, const std::string& id, const std::string& key) {
  const graph::VertexIndex index = graph.find(id);
  if (index == graph::kNoVertex) return "no such vertex";
  if (const auto number = graph::integer_of(graph, graph.vertex(index).facts, key)) {
    return std::to_string(*number);
  }
  return graph::text_of(graph, graph.vertex(index).facts, key);
}

// Everything about one pair: "NV12" of two GPUs.
std::string path(const graph::Graph& graph, const std::string& a, const std::string& b) {
  return fact(graph, "n1/" + a, graph::key::kPath + ("n1/" + b));
}

struct SharedMatrix {
  const char* file;
  std::size_t gpus, nics, domains;
  std::size_t switches, links;    // NVLink
  std::int64_t count;             // of the first link
  const char *a, *b, *type;       // one cell
  const char *cpus_of, *cpus;     // one affinity
  const char *nic, *numa_of_nic;  // "" where nothing tells
};

const SharedMatrix kShared[] = {
    {"a100-pcie-4gpu-nvlink-bridge-pairs.txt", 4, 0, 2, 0, 2, 12, "gpu#2", "gpu#3", "NV12",
     "numa:1", "52-103,156-207", "", ""},
    {"dgx-a100-8gpu-10nic.txt", 8, 10, 4, 1, 8, 12, "gpu#2", "nic#3", "PXB", "numa:3",
     "48-63,176-191", "nic#6", "5"},
    {"dgx1-v100-8gpu-4mlx5.txt", 8, 4, 0, 0, 16, 1, "gpu#4", "nic:mlx5_2", "PIX", "gpu#7",
     "20-39,60-79", "", ""},
    {"h100-8gpu-nonic-spaces.txt", 8, 0, 2, 1, 8, 18, "gpu#0", "gpu#7", "NV18", "numa:1",
     "52-103,156-207", "", ""},
    {"h100-8gpu-vm-single-numa-nonic.txt", 8, 0, 1, 1, 8, 18, "gpu#0", "gpu#7", "NV18", "numa:0",
     "0-63", "", ""},
    {"hgx-4gpu-vm-empty-cpu-affinity.txt", 4, 0, 2, 1, 4, 18, "gpu#0", "gpu#3", "NV18", "numa:0",
     "44-51,148-155", "", ""},
    {"hgx-h100-or-h200-8gpu-8nic-scrambled-order.txt", 8, 8, 2, 1, 8, 18, "gpu#0", "nic#4", "PIX",
     "numa:1", "64-127,192-255", "nic#2", "1"},
    {"hgx-nv18-8gpu-9nic-ansi-header.txt", 8, 9, 2, 1, 8, 18, "gpu#0", "nic#0", "PXB", "numa:0",
     "0-63,128-191", "nic#8", "1"},
    {"legacy-soc-legend-4gpu-mlx4.txt", 4, 1, 0, 0, 0, 0, "gpu#0", "nic:mlx4_0", "SYS", "gpu#2",
     "6-11", "", ""},
    {"pcie-2gpu-phb.txt", 2, 0, 1, 0, 0, 0, "gpu#0", "gpu#1", "PHB", "numa:0", "0-63", "", ""},
    {"pcie-4gpu-phb-pairs.txt", 4, 0, 2, 0, 0, 0, "gpu#0", "gpu#2", "SYS", "numa:1", "64-127", "",
     ""},
    {"v100-sxm2-8gpu-1nic.txt", 8, 1, 2, 0, 16, 1, "gpu#0", "nic:mlx5_2", "NODE", "numa:1",
     "20-39,60-79", "nic:mlx5_2", "0"},
};

TEST(SmiTopo, ReadsEveryPublicMatrix) {
  REGATTA_NEED_SHARED("topologies/smi-topo");
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(tests::shared_path("topologies/smi-topo"))) {
    ++files;
    EXPECT_TRUE(std::any_of(std::begin(kShared), std::end(kShared), [&](const SharedMatrix& row) {
      return entry.path().filename() == row.file;
    })) << entry.path();
  }
  EXPECT_EQ(files, std::size(kShared));
  for (const SharedMatrix& row : kShared) {
    SCOPED_TRACE(row.file);
    const graph::Graph graph = sources::read_smi_topo(
        read_file(tests::shared_path("topologies/smi-topo") / row.file), context());
    EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(row.gpus));
    EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(row.nics));
    EXPECT_THAT(graph.of_kind(graph::Kind::Numa), SizeIs(row.domains));
    EXPECT_THAT(graph.of_kind(graph::Kind::NvSwitch), SizeIs(row.switches));
    ASSERT_THAT(graph.links(), SizeIs(row.links));
    if (row.links != 0) {
      EXPECT_EQ(graph::integer_of(graph, graph.links()[0].facts, graph::key::kCount), row.count);
      EXPECT_FALSE(graph::number_of(graph, graph.links()[0].facts, graph::key::kBandwidth))
          << "no model";
    }
    EXPECT_EQ(path(graph, row.a, row.b), row.type);
    EXPECT_EQ(path(graph, row.b, row.a), row.type);
    EXPECT_EQ(fact(graph, std::string("n1/") + row.cpus_of, graph::key::kCpus), row.cpus);
    if (*row.nic != 0) {
      EXPECT_EQ(fact(graph, std::string("n1/") + row.nic, graph::key::kNuma), row.numa_of_nic);
      EXPECT_EQ(graph.vertex(graph.vertex(graph.find(std::string("n1/") + row.nic)).parent).id,
                std::string("n1/numa:") + row.numa_of_nic);
    }
    EXPECT_THAT(graph::check_graph(graph), IsEmpty());
  }
}

TEST(SmiTopo, APublicMatrixHasSumsOfLinks) {
  REGATTA_NEED_SHARED("topologies/smi-topo");
  const auto text = read_file(tests::shared_path("topologies/smi-topo/dgx1-v100-8gpu-4mlx5.txt"));
  const graph::Graph graph = sources::read_smi_topo(text, context("Tesla V100-SXM2-32GB"));
  for (const graph::VertexIndex gpu : graph.of_kind(graph::Kind::Gpu)) {
    EXPECT_EQ(graph::integer_of(graph, graph.vertex(gpu).facts, graph::key::kNvlinks), 6)
        << "of a V100";
  }
  const auto link =
      graph.find_link(graph::LinkKind::NvLink, graph.find("n1/gpu#0"), graph.find("n1/gpu#3"));
  ASSERT_TRUE(link);
  EXPECT_DOUBLE_EQ(*graph::number_of(graph, graph.links()[*link].facts, graph::key::kBandwidth),
                   40);
  // Every NVLink of the hybrid cube mesh: 8 GPUs with 6 ends each.
  std::int64_t ends = 0;
  for (const graph::Link& each : graph.links())
    ends += 2 * *graph::integer_of(graph, each.facts, graph::key::kCount);
  EXPECT_EQ(ends, 48);
}

constexpr const char* kTwo =
    "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV4\tPIX\t0-3\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\t\t1\t\t4\n"
    "mlx5_0\tPIX\tSYS\t X \t\t\t\t\n";

TEST(SmiTopo, ReadsWhatDriversPrint) {
  graph::Graph graph = sources::read_smi_topo(kTwo, context());
  EXPECT_EQ(fact(graph, "n1/gpu#0", graph::key::kCpus), "0-3");
  EXPECT_EQ(fact(graph, "n1/gpu#1", graph::key::kNuma), "1");
  EXPECT_EQ(fact(graph, "n1/gpu#1", graph::key::kGpuNuma), "4");
  EXPECT_EQ(fact(graph, "n1/gpu#0", graph::key::kGpuNuma), "");
  EXPECT_EQ(fact(graph, "n1/nic:mlx5_0", graph::key::kNuma), "0");
  EXPECT_EQ(fact(graph, "n1/nic:mlx5_0", graph::key::kName), "mlx5_0");
  EXPECT_THAT(graph.links(), SizeIs(1));

  // The same from a terminal: escapes, blanks for tabs, a prompt before and carriage returns.
  const std::string pasted =
      "$ nvidia-smi topo -m\r\n"
      "     \x1b[4mGPU0 GPU1 mlx5_0 CPU Affinity NUMA Affinity GPU NUMA ID\x1b[0m\r\n"
      "GPU0  X   NV4  PIX    0-3          0             N/A\r\n"
      "GPU1 NV4   X   SYS                 1             4\r\n"
      "mlx5_0 PIX SYS X\r\n";
  EXPECT_EQ(graph::to_json(sources::read_smi_topo(pasted, context())), graph::to_json(graph));
}

TEST(SmiTopo, CountsTellASwitchFromLinksBetweenTwo) {
  struct Row {
    const char* name;
    int gpus;
    const char* cell;
    const char* model;
    std::size_t switches, links;
    double gb_per_s;  // of one; 0: not known
  };
  const Row rows[] = {
      {"HGX A100 of 4: 3 x 4 = 12 links", 4, "NV4", "NVIDIA A100-SXM4-80GB", 0, 6, 80},
      {"HGX H100 of 4: 3 x 6 = 18 links", 4, "NV6", "NVIDIA H100 80GB HBM3", 0, 6, 6 * 20.6},
      {"three of a DGX-2, whose GPUs have 6", 3, "NV6", "Tesla V100-SXM3-32GB", 1, 3, 120},
      {"the same where no model is known", 3, "NV6", "", 0, 3, 0},
      {"three of a DGX A100, whose GPUs have 12", 3, "NV12", "NVIDIA A100-SXM4-40GB", 1, 3, 240},
      {"and without a model: 24 is too much for any", 3, "NV12", "", 1, 3, 0},
      {"an unknown model", 3, "NV18", "NVIDIA Q1000", 1, 3, 0},
  };
  for (const Row& row : rows) {
    std::string text;
    for (int i = 0; i < row.gpus; ++i) text += "\tGPU" + std::to_string(i);
    text += "\n";
    for (int i = 0; i < row.gpus; ++i) {
      text += "GPU" + std::to_string(i);
      for (int j = 0; j < row.gpus; ++j) text += std::string("\t") + (i == j ? " X " : row.cell);
      text += "\n";
    }
    const graph::Graph graph = sources::read_smi_topo(text, context(row.model));
    EXPECT_THAT(graph.of_kind(graph::Kind::NvSwitch), SizeIs(row.switches)) << row.name;
    EXPECT_THAT(graph.links(), SizeIs(row.links)) << row.name;
    EXPECT_NEAR(graph::number_of(graph, graph.links()[0].facts, graph::key::kBandwidth).value_or(0),
                row.gb_per_s, 1e-9)
        << row.name;
  }
}

TEST(SmiTopo, ALinkThatIsDownShowsInItsGpuOnly) {
  const char* const text =
      "\tGPU0\tGPU1\tGPU2\n"
      "GPU0\tX\tNV18\tNV17\n"
      "GPU1\tNV18\tX\tNV17\n"
      "GPU2\tNV17\tNV17\tX\n";
  const graph::Graph graph = sources::read_smi_topo(text, context());
  EXPECT_EQ(fact(graph, "n1/gpu#0", graph::key::kNvlinks), "18");
  EXPECT_EQ(fact(graph, "n1/gpu#2", graph::key::kNvlinks), "17");
}

TEST(SmiTopo, RefusesWhatIsNoWholeMatrix) {
  std::string many;
  for (int i = 0; i < 600; ++i) many += "\tGPU" + std::to_string(i);
  struct Row {
    const char* name;
    std::string text;
    const char* why;
  };
  const Row rows[] = {
      {"nothing", "", "no line of columns"},
      {"another command", "GPU 0: NVIDIA A100 (UUID: GPU-1)\n", "no line of columns"},
      {"a row is missing", "\tGPU0\tGPU1\nGPU0\t X \tSYS\n", "before the row of GPU1"},
      {"only a header", "\tGPU0\tGPU1\n", "before the row of GPU0"},
      {"the legend follows early", "\tGPU0\tGPU1\nGPU0\t X \tSYS\n\nLegend:\n",
       "topo.txt:4: the row of GPU1 is missing"},
      {"a row is short", "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\n",
       "topo.txt:3: the row of GPU1 has 1 of 2 cells"},
      {"rows change places", "\tGPU0\tGPU1\nGPU1\tSYS\t X \nGPU0\t X \tSYS\n", "GPU0 is missing"},
      {"not symmetric", "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tPHB\t X \n",
       "connected by SYS in one row and by PHB in the other"},
      {"what is allowed", "\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", "topo -p2p"},
      {"what is not supported", " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n", "topo -p2p"},
      {"an unknown cell", "\tGPU0\tGPU1\nGPU0\t X \tFOO\nGPU1\tFOO\t X \n",
       "topo.txt:2: 'FOO' cannot connect GPU0 and GPU1"},
      {"no number of links", "\tGPU0\tGPU1\nGPU0\t X \tNV0\nGPU1\tNV0\t X \n", "'NV0'"},
      {"no X", "\tGPU0\tGPU1\nGPU0\tSYS\tSYS\nGPU1\tSYS\t X \n", "'SYS' cannot connect GPU0"},
      {"X elsewhere", "\tGPU0\tGPU1\nGPU0\t X \t X \nGPU1\t X \t X \n", "'X' cannot connect"},
      {"the same column twice", "\tGPU0\tGPU0\n", "two columns"},
      {"a number with zeros", "\tGPU0\tGPU00\n", "'GPU00' is not a number"},
      {"a NIC on NVLink", "\tGPU0\tmlx5_0\nGPU0\t X \tNV4\nmlx5_0\tNV4\t X \n",
       "cannot be connected by NVLinks"},
      {"two matrices", std::string(kTwo) + "\n" + kTwo, "second matrix"},
      {"a NIC of the legend only", std::string(kTwo) + "NIC Legend:\n\n  NIC0: mlx5_2\n",
       "which is not a column"},
      {"two NICs of one name",
       "\tGPU0\tNIC0\tNIC1\nGPU0\tX\tSYS\tSYS\nNIC0\tSYS\tX\tPIX\nNIC1\tSYS\tPIX\tX\n"
       "  NIC0: a\n  NIC1: a\n",
       "two NICs are 'a'"},
      {"no list of CPUs", "\tGPU0\tCPU Affinity\nGPU0\t X \tall\n", "'all' is not a list of CPUs"},
      {"no domain", "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-3\tx\n", "no NUMA domain"},
      {"too many cells", "\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\t0\n", "more cells"},
      {"columns behind the affinities", "\tGPU0\tCPU Affinity\tGPU1\n", "behind the affinities"},
      {"too many", many + "\n", "600 columns"},
      {"too long", std::string(sources::kMostSmiBytes + 1, ' '), "too much"},
  };
  for (const Row& row : rows) {
    try {
      (void)sources::read_smi_topo(row.text, context());
      ADD_FAILURE() << row.name << " was read";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << row.name;
      EXPECT_THAT(error.what(), HasSubstr(row.why)) << row.name;
      EXPECT_THAT(error.what(), HasSubstr("topo.txt")) << row.name;
    }
  }
}

// Rows whose affinities lost a blank, or their end.
TEST(SmiTopo, AffinitiesThatRanTogetherOrEndEarlyAreRefused) {
  const std::string two =
      "     GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0  X   SYS  0-31,64-95   0\n";
  const std::string three =
      "     GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0  X   SYS  0-31  0  N/A\n";
  const std::string tabs =
      "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\tX\tSYS\t0-31\t0\t\tN/A\n";
  struct Row {
    const char* name;
    std::string text;
    const char* why;  // empty: it is read
  };
  const Row rows[] = {
      {"whole", two + "GPU1 SYS   X   32-63,96-127  1\n", ""},
      {"whole, no line end", two + "GPU1 SYS   X   32-63,96-127  1", ""},
      {"fused", two + "GPU1 SYS   X   32-63,96-1271\n",
       "topo.txt:3: the row of GPU1 has '32-63,96-1271' as CPU Affinity and no NUMA Affinity"},
      {"fused, first row", "  GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-31,64-950\n",
       "'0-31,64-950' as CPU Affinity"},
      {"fused before N/A", three + "GPU1 SYS X 32-631 N/A\n", "no GPU NUMA ID"},
      {"fused between tabs", tabs + "GPU1\tSYS\tX\t32-631\t\t\tN/A\n", "no NUMA Affinity"},
      {"fused at the end", three + "GPU1 SYS X 32-63 1N/A\n", "no GPU NUMA ID"},
      {"cut in the CPUs", two + "GPU1 SYS   X   3", "the text ends in the row of GPU1"},
      {"cut in the CPUs, with a line end", two + "GPU1 SYS   X   3\n\n", "ends in the row of GPU1"},
      {"cut in the second range", two + "GPU1 SYS   X   32-63,9", "no NUMA Affinity"},
      {"cut at a dash", two + "GPU1 SYS   X   32-", "no NUMA Affinity"},
      {"cut before the CPUs", two + "GPU1 SYS   X", "ends in the row of GPU1"},
      {"cut before the domain", two + "GPU1 SYS   X   32-63,96-127 ", "no NUMA Affinity"},
      {"cut between tabs", tabs + "GPU1\tSYS\tX\t3", "no NUMA Affinity"},
      {"cut before the last column", tabs + "GPU1\tSYS\tX\t32-63\t1", "no GPU NUMA ID"},
      {"cut in the last column", three + "GPU1 SYS X 32-63 1 N/", "'N/' is not the number of"},
      {"a range that runs backwards", two + "GPU1 SYS   X   32-6 1\n",
       "'32-6' is not a list of CPUs"},
      {"no CPUs, and more follows", two + "GPU1 SYS   X   1\n\nLegend:\n", ""},
      {"nobody knows CPUs", "  GPU0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X N/A\n", ""},
      {"nobody knows CPUs, tabs",
       "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t\t\tN/A\n", ""},
  };
  for (const Row& row : rows) {
    try {
      (void)sources::read_smi_topo(row.text, context());
      EXPECT_STREQ(row.why, "") << row.name;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << row.name;
      ASSERT_STRNE(row.why, "") << row.name << error.what();
      EXPECT_THAT(error.what(), HasSubstr(row.why)) << row.name;
    }
  }
}

TEST(SmiTopo, APublicMatrixThatLostABlankIsRefused) {
  REGATTA_NEED_SHARED("topologies/smi-topo");
  const std::string whole =
      read_file(tests::shared_path("topologies/smi-topo/h100-8gpu-nonic-spaces.txt"));
  std::string fused = whole;
  const std::string row_end = "0-51,104-155    0";
  for (std::size_t at = fused.find(row_end); at != std::string::npos; at = fused.find(row_end)) {
    fused.replace(at, row_end.size(), "0-51,104-1550");
  }
  EXPECT_THROW((void)sources::read_smi_topo(fused, context()), base::Error);
  // Wherever the matrix ends, no domain is another one: all that is read is as in the whole.
  const graph::Graph all = sources::read_smi_topo(whole, context());
  const std::size_t last = whole.find("\nGPU7");
  const std::size_t end = std::min(whole.find('\n', last + 1), whole.size());
  for (std::size_t size = last; size < end; ++size) {
    std::vector<graph::Finding> findings;
    try {
      const graph::Graph graph =
          sources::read_smi_topo(whole.substr(0, size), context(), &findings);
      EXPECT_EQ(graph::to_json(graph), graph::to_json(all)) << whole.substr(last, size - last);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
    }
    EXPECT_THAT(findings, IsEmpty());
  }
}

// Wherever a matrix ends behind its GPUs, these are as in the whole one, and somebody says so.
TEST(SmiTopo, AMatrixThatIsCutOffGivesItsGpus) {
  REGATTA_NEED_SHARED("topologies/smi-topo");
  const std::string whole =
      read_file(tests::shared_path("topologies/smi-topo/dgx-a100-8gpu-10nic.txt"));
  const std::size_t first = whole.find("\nNIC0") + 1;
  const std::size_t end = whole.find("\nNIC9");
  ASSERT_NE(end, std::string::npos);
  const graph::Graph all = sources::read_smi_topo(whole, context());
  for (std::size_t size = first; size < end; size += 7) {
    const std::string text = whole.substr(0, size);
    EXPECT_THROW((void)sources::read_smi_topo(text, context()), base::Error)
        << "nobody hears a finding";
    std::vector<graph::Finding> findings;
    const graph::Graph graph = sources::read_smi_topo(text, context(), &findings);
    EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(8));
    EXPECT_THAT(graph.of_kind(graph::Kind::Nic), IsEmpty()) << "their names are gone";
    EXPECT_EQ(graph.links().size(), all.links().size());
    EXPECT_EQ(path(graph, "gpu#0", "gpu#7"), "NV12");
    EXPECT_EQ(fact(graph, "n1/gpu#2", graph::key::kNuma), fact(all, "n1/gpu#2", graph::key::kNuma));
    ASSERT_THAT(findings, SizeIs(1));
    EXPECT_EQ(findings[0].id, "reading.cut_off");
    EXPECT_THAT(findings[0].words, HasSubstr("topo.txt: the matrix is cut off at the row of NIC"));
    EXPECT_THAT(findings[0].words, HasSubstr("8 GPUs read, 10 NICs left out"));
    EXPECT_NE(findings[0].remedy, "");
  }
}

TEST(SmiTopo, ACutThroughGpusIsRefused) {
  const std::string gpu = "\tGPU0\tmlx5_0\tGPU1\nGPU0\t X \tPIX\tSYS\n";
  const std::pair<std::string, std::size_t> rows[] = {
      {gpu + "mlx5_0\tPIX\t X \tSYS\n", 0},
      {gpu, 0},
      {gpu + "mlx5_0\tPIX\t X \tSYS\nGPU1\tSYS\t X \tFOO\n", 0},
      {"\tGPU0\tmlx5_0\nGPU0\t X \tPIX\n", 1},
      {"\tGPU0\tmlx5_0\nGPU0\t X \tPIX\nmlx5_0\tPI", 1},
      {"\tGPU0\tmlx5_0\nGPU0\t X \tPIX\nmlx5_0\tPIX\t X \n", 0},
      {"\tGPU0\tmlx5_0\nGPU0\t X \tPIX\n\nLegend:\n\nNIC Legend:\n\n  NIC0: mlx5_0\n", 1},
      {"\tGPU0\tmlx5_0\nGPU0\t X \tPIX\n" + std::string(kTwo), 0},
      {"\tmlx5_0\tmlx5_1\n", 0},
  };
  for (const auto& [text, cuts] : rows) {
    std::vector<graph::Finding> findings;
    try {
      EXPECT_THAT(sources::read_smi_topo(text, context(), &findings).of_kind(graph::Kind::Gpu),
                  SizeIs(1))
          << text;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << text;
      findings.clear();
    }
    EXPECT_THAT(findings, SizeIs(cuts)) << text;
  }
}

TEST(SmiNvlink, ReadsThePublicLists) {
  REGATTA_NEED_SHARED("topologies/misc");
  const auto folder = tests::shared_path("topologies/misc");
  const graph::Graph a100 =
      sources::read_smi_nvlink(read_file(folder / "nvidia-smi-nvlink-s.a100.txt"), context());
  EXPECT_THAT(a100.of_kind(graph::Kind::Gpu), SizeIs(8));
  for (const graph::VertexIndex gpu : a100.of_kind(graph::Kind::Gpu)) {
    const auto& facts = a100.vertex(gpu).facts;
    EXPECT_EQ(graph::integer_of(a100, facts, graph::key::kNvlinks), 12);
    EXPECT_EQ(graph::integer_of(a100, facts, graph::key::kNvlinksDown), 0);
    EXPECT_EQ(graph::number_of(a100, facts, graph::key::kNvlinkRate), 25);
    EXPECT_EQ(graph::integer_of(a100, facts, graph::key::kComputeCapability), 80);
  }
  const graph::Graph a10 =
      sources::read_smi_nvlink(read_file(folder / "nvidia-smi-nvlink-s.a10.txt"), context());
  EXPECT_THAT(a10.of_kind(graph::Kind::Gpu), IsEmpty());
  EXPECT_THAT(a10.vertices(), SizeIs(1));
}

TEST(SmiNvlink, CountsLinksThatAreDown) {
  const char* const text =
      "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
      "\t Link 0: 26.562 GB/s\n"
      "\t Link 1: <inactive>\n"
      "\t Link 2: 25 GB/s\n"
      "GPU 2: NVIDIA H100 PCIe (UUID: GPU-2)\n"
      "\t NVML: Unable to retrieve NVLink information as all links are inActive\n"
      "GPU 3: NVIDIA L4 (UUID: GPU-3)\n";
  const graph::Graph graph = sources::read_smi_nvlink(text, context());
  EXPECT_EQ(fact(graph, "n1/gpu#1", graph::key::kNvlinks), "2");
  EXPECT_EQ(fact(graph, "n1/gpu#1", graph::key::kNvlinksDown), "1");
  EXPECT_EQ(fact(graph, "n1/gpu#1", graph::key::kUuid), "GPU-1");
  EXPECT_EQ(
      graph::number_of(graph, graph.vertex(graph.find("n1/gpu#1")).facts, graph::key::kNvlinkRate),
      25);
  EXPECT_EQ(fact(graph, "n1/gpu#2", graph::key::kNvlinks), "0");
  EXPECT_EQ(fact(graph, "n1/gpu#2", graph::key::kNvlinksDown), "") << "nobody says how many";
  EXPECT_EQ(fact(graph, "n1/gpu#3", graph::key::kNvlinks), "");
}

TEST(SmiNvlink, RefusesOtherOutput) {
  const std::pair<const char*, const char*> rows[] = {
      {"Link 0: 25 GB/s\n", "topo.txt:1"},
      {"GPU 0: x\n", "names no GPU"},
      {"GPU x: a (UUID: b)\n", "names no GPU"},
      {"GPU -1: a (UUID: b)\n", "names no GPU"},
      {"GPU 0: a (UUID: b)\nGPU 0: a (UUID: c)\n", "twice"},
      {"GPU 0: a (UUID: b)\nLink 0: 25 GB/s\nLink 0: 25 GB/s\n", "topo.txt:3"},
      {"GPU 0: a (UUID: b)\nLink 0, P2P is supported: true\n", "is not a link"},
      {"GPU 0: a (UUID: b)\nLink 0: 00000000:BE:00.0\n", "nvlink -s"},
      {"GPU 0: a (UUID: b)\nLink 0: -1 GB/s\n", "no speed"},
      {"GPU 0: a (UUID: b)\nLink 0: nan GB/s\n", "no speed"},
      {"GPU 0: a (UUID: b)\nLink 99999: 25 GB/s\n", "is not a link"},
      {"hello\n", "is not a line"},
  };
  for (const auto& [text, why] : rows) {
    try {
      (void)sources::read_smi_nvlink(text, context());
      ADD_FAILURE() << text << " was read";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << text;
      EXPECT_THAT(error.what(), HasSubstr(why)) << text;
    }
  }
}

}  // namespace
}  // namespace regatta::topology
