#include "topology/sources/read_any.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "tests/shared_data.h"
#include "topology/sources/capture.h"
#include "topology/sources/cluster_file.h"
#include "topology/sources/topology_file.h"

namespace regatta::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(ReadAny, TellsFormatsByTheirText) {
  const std::string cluster = "# a drawing\nnodes: {n: {count: 2}}\n";
  const sources::Reading description = sources::read_any(cluster, "a");
  EXPECT_EQ(description.format, "cluster description");
  EXPECT_THAT(description.graph.of_kind(graph::Kind::Node), SizeIs(2));
  EXPECT_EQ(
      sources::read_any("{\"cluster\": \"x\", \"nodes\": {\"n\": {\"count\": 3}}}", "a").format,
      "cluster description");
  const sources::Reading graph = sources::read_any(graph::to_json(description.graph), "a");
  EXPECT_EQ(graph.format, "graph");
  EXPECT_EQ(graph::fingerprint(graph.graph), graph::fingerprint(description.graph));
  const sources::Reading xml =
      sources::read_any("\n <system version=\"1\"><cpu numaid=\"0\"/></system>", "t.xml");
  EXPECT_EQ(xml.format, "NCCL topology");
  ASSERT_THAT(xml.topology_files, SizeIs(1));
  EXPECT_EQ(xml.topology_files[0].path, "t.xml");
}

TEST(ReadAny, Captures) {
  sources::Capture capture;
  capture.host = "n1";
  capture.environment = {{"NCCL_ALGO", "Tree"}};
  capture.files = {
      {"/proc/modules", "nvidia 1 0 - Live\nib_core 2 0 - Live"},
      {"/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module"},
      {"/sys/devices/system/node/node0/cpulist", "0-3"}};
  capture.notes = {"a note"};
  sources::Reading reading = sources::read_any(sources::to_json(capture), "c.json");
  EXPECT_EQ(reading.format, "capture");
  EXPECT_NE(reading.graph.find("n1/numa:0"), graph::kNoVertex);
  ASSERT_THAT(reading.settings, SizeIs(1));
  EXPECT_EQ(reading.settings[0].place, "c.json environment of n1");
  ASSERT_THAT(reading.hosts, SizeIs(1));
  EXPECT_EQ(reading.hosts[0].node, "n1");
  EXPECT_THAT(*reading.hosts[0].modules, ElementsAre("nvidia", "ib_core"));
  EXPECT_FALSE(reading.hosts[0].dma_buf);
  // The open kernel module shares memory by dma-buf.
  capture.files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX Open Kernel Module";
  EXPECT_TRUE(sources::read_any(sources::to_json(capture), "c").hosts.at(0).dma_buf);
  capture.files.erase("/proc/modules");
  EXPECT_THAT(sources::read_any(sources::to_json(capture), "c").hosts, IsEmpty()) << "nobody knows";
}

TEST(ReadAny, Variables) {
  const sources::Reading reading = sources::read_any(
      "# nccl.conf\nNCCL_ALGO=Tree\r\n\nPATH=/bin:a=b\nCUDA_LAUNCH_BLOCKING=\nNCCL_IB_HCA==a\n",
      "c");
  EXPECT_EQ(reading.format, "variables");
  ASSERT_THAT(reading.settings, SizeIs(3));
  EXPECT_EQ(reading.settings[0].value, "Tree");
  EXPECT_EQ(reading.settings[0].place, "c:2");
  EXPECT_EQ(reading.settings[1].value, "");
  EXPECT_EQ(reading.settings[2].value, "=a");
  EXPECT_EQ(reading.settings[2].place, "c:6");
}

std::string indented(const std::string& text) {
  std::string moved = "  ";
  for (const char c : text) {
    moved += c;
    if (c == '\n') moved += "  ";
  }
  return moved;
}

// As reports of bugs have it: between other sections, by two blanks to the right, and with tabs
// that an editor made blanks.
TEST(ReadAny, AMatrixInAReport) {
  const std::string blanks =
      "      GPU0 GPU1 mlx5_0 CPU Affinity NUMA Affinity\n"
      "GPU0   X   NV4  PIX    0-3          0\n"
      "GPU1  NV4   X   SYS    4-7          1\n"
      "mlx5_0 PIX SYS   X\n";
  const std::string tabs =
      "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\tX\tNV4\tPIX\t0-3\t0\nGPU1\tNV4\tX\tSYS\t4-7\t1\nmlx5_0\tPIX\tSYS\tX\t\t\n";
  const std::string plain = graph::to_json(sources::read_any(blanks, "m").graph);
  for (const std::string& matrix : {blanks, tabs}) {
    for (const std::string& text :
         {matrix, indented(matrix), "\n" + indented(matrix),
          "Collecting environment information...\nGPU models: \nGPU 0: NVIDIA A100\n" +
              std::string(5000, '-') + "\n\nGPU Topology:\n" + indented(matrix) +
              "\nLegend:\n\n  X    = Self\n"}) {
      const sources::Reading reading = sources::read_any(text, "m");
      EXPECT_EQ(reading.format, "nvidia-smi topo -m") << text;
      EXPECT_EQ(graph::to_json(reading.graph), plain) << text;
    }
  }
}

TEST(ReadAny, APublicMatrixIsTheSameWhenItIsIndented) {
  REGATTA_NEED_SHARED("topologies/smi-topo");
  for (const auto& entry :
       std::filesystem::directory_iterator(tests::shared_path("topologies/smi-topo"))) {
    const std::string text = tests::file_text(entry.path());
    const sources::Reading reading = sources::read_any(indented(text), "m");
    EXPECT_EQ(reading.format, "nvidia-smi topo -m") << entry.path();
    EXPECT_EQ(graph::to_json(reading.graph), graph::to_json(sources::read_any(text, "m").graph))
        << entry.path();
  }
}

TEST(ReadAny, AByteOrderMarkIsPassedOver) {
  const std::string texts[] = {
      "<system version=\"1\"><cpu numaid=\"0\"/></system>",
      "nodes: {n: {count: 2}}\n",
      "{\"nodes\": {\"n\": {\"count\": 3}}}",
      graph::to_json(graph::Graph()),
      "NCCL_ALGO=Tree\n",
      "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n",
      "SwitchName=s0 Nodes=n[1-2]\n",
  };
  for (const std::string& text : texts) {
    const sources::Reading plain = sources::read_any(text, "m"),
                           marked = sources::read_any("\xEF\xBB\xBF" + text, "m");
    EXPECT_EQ(marked.format, plain.format) << text;
    EXPECT_EQ(graph::to_json(marked.graph), graph::to_json(plain.graph)) << text;
    EXPECT_EQ(marked.settings.size(), plain.settings.size()) << text;
  }
  // The planner reads descriptions by itself.
  EXPECT_EQ(graph::to_json(
                sources::cluster_graph(sources::parse_cluster("\xEF\xBB\xBF" + texts[1], "m"))),
            graph::to_json(sources::read_any(texts[1], "m").graph));
}

TEST(ReadAny, PublicFilesWithAByteOrderMark) {
  REGATTA_NEED_SHARED("topologies");
  for (const char* const file :
       {"nccl-xml/oci-H100-topology.xml", "nccl-xml/azure-ncv4-graph.xml",
        "smi-topo/dgx-a100-8gpu-10nic.txt", "ibnetdiscover/topograph-dgx-ndr-fabric.out",
        "ibnetdiscover/netloc-plafrim2-subnet0-ports-format.txt", "slurm/topograph-tree.conf",
        "misc/nvidia-smi-nvlink-s.a100.txt"}) {
    const std::string text = tests::file_text(tests::shared_path("topologies") / file);
    EXPECT_EQ(graph::to_json(sources::read_any("\xEF\xBB\xBF" + text, "m").graph),
              graph::to_json(sources::read_any(text, "m").graph))
        << file;
  }
}

TEST(ReadAny, WhatIsLeftOutIsSaid) {
  const sources::Reading matrix = sources::read_any("\tGPU0\tmlx5_0\nGPU0\t X \tPIX\n", "m.txt");
  ASSERT_THAT(matrix.findings, SizeIs(1));
  EXPECT_EQ(matrix.findings[0].id, "reading.cut_off");
  sources::Capture capture;
  capture.host = "n1";
  capture.commands["nvidia-smi topo -m"].text = "\tGPU0\tmlx5_0\nGPU0\t X \tPIX\n";
  const sources::Reading captured = sources::read_any(sources::to_json(capture), "c.json");
  ASSERT_THAT(captured.findings, SizeIs(1));
  EXPECT_EQ(captured.findings[0].id, "reading.cut_off");
  EXPECT_THAT(captured.findings[0].words, HasSubstr("n1: nvidia-smi topo -m"));
  const sources::Reading fabric = sources::read_any(
      "ibwarn: [1] mad_rpc: no answer\n"
      "Switch\t2 \"S-00000000000000a1\"\t# \"leaf\" base port 0 lid 1 lmc 0\n"
      "[1]\t\"H-00000000000000c1\"[1](c1)\t# \"n1 mlx5_0\" lid 2 4xHDR\n"
      "Ca\t1 \"H-00000000000000c1\"\t# \"n1 mlx5_0\"\n"
      "[1](c1)\t\"S-00000000000000a1\"[1]\t# lid 2 lmc 0 \"leaf\" lid 1 4xHDR\n",
      "ib.txt");
  ASSERT_THAT(fabric.findings, SizeIs(1));
  EXPECT_EQ(fabric.findings[0].id, "reading.skipped");
}

struct Bad {
  const char* name;
  std::string text;
  const char* words;
  friend void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }
};
class BadFile : public testing::TestWithParam<Bad> {};
TEST_P(BadFile, IsRefused) {
  try {
    (void)sources::read_any(GetParam().text, "f");
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().words));
  }
}
std::string nested(int depth) {
  std::string text = "<system>";
  for (int i = 0; i < depth; ++i) text += "<pci>";
  return text;
}
INSTANTIATE_TEST_SUITE_P(
    Table, BadFile,
    testing::Values(Bad{"empty", "", "none of those that are known: capture, graph, NCCL"},
                    Bad{"blank", " \n\t\n", "none of those"},
                    Bad{"a_mark_alone", "\xEF\xBB\xBF", "none of those"},
                    Bad{"two_marks", "\xEF\xBB\xBF\xEF\xBB\xBF<system/>", "none of those"},
                    Bad{"utf_16_little", std::string("\xFF\xFE<\0s\0", 6), "save it as UTF-8"},
                    Bad{"utf_16_big", std::string("\xFE\xFF\0<", 4), "save it as UTF-8"},
                    Bad{"a_gpu_without_matrix", "GPU0 GPU1\nGPU0 SYS\n", "none of those"},
                    Bad{"text", "hello", "none of those"},
                    Bad{"other_variables", "PATH=/bin\n", "none of those"},
                    Bad{"variables_and_text", "NCCL_ALGO=Ring\nhello\n", "none of those"},
                    Bad{"other_json", "{\"a\": 1}", "none of those"},
                    Bad{"other_xml", "<html></html>", "none of those"},
                    Bad{"bad_graph", "{\"regatta_graph\": 7}", "only version 1"},
                    Bad{"bad_cluster", "nodes: 7", "expected a mapping"},
                    Bad{"open_tag", "<system", "f:1: a tag does not end"},
                    Bad{"open_quote", "<system>\n<cpu numaid=\"0>", "f:2: a tag does not end"},
                    Bad{"open_element", "<system>\n<cpu>\n", "ends inside <cpu>"},
                    Bad{"open_comment", "<system><!-- ", "a tag does not end"},
                    Bad{"wrong_end", "<system></cpu>", "</cpu> ends nothing"},
                    Bad{"end_first", "</a><system/>", "</a> ends nothing"},
                    Bad{"no_name", "<system>< cpu/></system>", "a tag has no name"},
                    Bad{"too_deep", nested(100), "nest too deep"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(TopologyFile, IsScanned) {
  const doctor::TopologyFile file = sources::scan_topology_file(
      "<?xml version=\"1.0\"?><!-- <cpu/> --><system version=\"1\">\n"
      "<cpu numaid=\"0\" affinity=\"ff,00000000\" note=\"a > b\">\n"
      "  <pci busid=\"0000:0A:00.0\" class=\"0x060400\">\n"
      "    <pci busid=\"0000:0b:00.0\"><gpu dev=\"0\"/></pci>\n"
      "    <pci busid=\"nonsense\" />\n"
      "  </pci>\n"
      "</cpu><cpu numaid=\"1\"/></system>",
      "t");
  EXPECT_EQ(file.elements, 7U);
  EXPECT_THAT(file.devices, ElementsAre("0000:0b:00.0", "nonsense"));
  ASSERT_THAT(file.cpus, SizeIs(2));
  EXPECT_EQ(file.cpus[0].numa, "0");
  EXPECT_EQ(file.cpus[0].affinity, "ff,00000000");
  EXPECT_EQ(file.cpus[1].affinity, "");
}

// Public files: elements, devices without a bridge below, CPUs, and what the doctor says.
struct Public {
  const char* name;
  std::size_t elements, devices, cpus;
  std::vector<std::string> ids{};  // of what the doctor finds
};
class PublicFiles : public testing::TestWithParam<Public> {};
TEST_P(PublicFiles, AreScanned) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  const auto path = tests::shared_path("topologies/nccl-xml") / GetParam().name;
  const sources::Reading reading = sources::read_any(tests::file_text(path), GetParam().name);
  ASSERT_THAT(reading.topology_files, SizeIs(1));
  const doctor::TopologyFile& file = reading.topology_files[0];
  EXPECT_EQ(file.elements, GetParam().elements);
  EXPECT_THAT(file.devices, SizeIs(GetParam().devices));
  EXPECT_THAT(file.cpus, SizeIs(GetParam().cpus));
  std::vector<std::string> ids;
  for (const graph::Finding& finding :
       doctor::diagnose({reading.graph, {}, {}, reading.topology_files})) {
    ids.push_back(finding.id);
  }
  EXPECT_EQ(ids, GetParam().ids);
}
INSTANTIATE_TEST_SUITE_P(
    Table, PublicFiles,
    testing::Values(
        Public{"aws-g5.48xl-topo.xml", 12, 9, 2}, Public{"aws-p4d-24xl-topo.xml", 19, 12, 2},
        Public{"aws-p5.48xl-topo-2023.xml", 43, 32, 2}, Public{"azure-ncv4-topo.xml", 19, 4, 4},
        Public{"azure-ndv2-topo.xml", 12, 9, 2, {"gpu.far_nic"}},
        Public{"azure-ndv5-topo.xml", 27, 16, 2},
        Public{"mlperf-dgxa100_nic_affinity.xml", 33, 16, 4},
        Public{"mlperf-hpe-675d_nic_affinity.xml", 93, 12, 4, {"gdr.off"}},
        Public{"oci-H100-topology.xml", 107, 16, 2}, Public{"oci-topo-flattened.xml", 25, 16, 4},
        Public{"rccl-topo_16p1h.xml", 145, 24, 4},
        Public{"rccl-topo_3p_pcie.xml", 15, 4, 2, {"gpu.far_nic"}},
        Public{"rccl-topo_4p3l_ia.xml", 55, 9, 1, {"gpu.far_nic"}},
        Public{"rccl-topo_8p6l_4nic.xml", 87, 12, 2}, Public{"rccl-topo_8p_940.xml", 123, 16, 2},
        Public{"rccl-topo_8p_pcie_2nic.xml", 34, 10, 1},
        Public{"rccl-topo_8p_rome_4nics.xml", 77, 12, 4}),
    [](const auto& row) {
      std::string name = row.param.name;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

struct Shared {
  const char* folder;
  const char* extension;  // of the files that count; empty: all
  const char* format;
  std::size_t refused;  // of them, for the reason that their readers' tests name
};
class SharedFormats : public testing::TestWithParam<Shared> {};
TEST_P(SharedFormats, AreRecognized) {
  REGATTA_NEED_SHARED("topologies")
  const Shared& row = GetParam();
  std::size_t refused = 0, read = 0;
  const auto folder = tests::shared_path("topologies") / row.folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != row.extension && *row.extension != '\0') continue;
    try {
      const sources::Reading reading = sources::read_any(tests::file_text(entry.path()), name);
      EXPECT_EQ(reading.format, row.format) << name;
      EXPECT_THAT(reading.findings, IsEmpty()) << name;
      ++read;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("its format is none"))) << name;
      ++refused;
    }
  }
  EXPECT_EQ(refused, row.refused) << row.folder;
  EXPECT_GT(read, 0U);
}
INSTANTIATE_TEST_SUITE_P(Folders, SharedFormats,
                         testing::Values(Shared{"smi-topo", "", "nvidia-smi topo -m", 0},
                                         Shared{"ibnetdiscover", "", "ibnetdiscover", 1},
                                         Shared{"slurm", ".conf", "topology.conf", 0}),
                         [](const auto& row) {
                           std::string name = row.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SharedFormat, NcclFilesAreTopologiesOrGraphs) {
  REGATTA_NEED_SHARED("topologies")
  for (const auto& entry :
       std::filesystem::directory_iterator(tests::shared_path("topologies/nccl-xml"))) {
    const std::string name = entry.path().filename().string();
    const bool graphs = name.find("graph") != std::string::npos;
    const sources::Reading reading = sources::read_any(tests::file_text(entry.path()), name);
    EXPECT_EQ(reading.format, graphs ? "NCCL graphs" : "NCCL topology") << name;
    EXPECT_EQ(reading.graph.of_kind(graph::Kind::Node).size(), 1U) << name;
  }
}

}  // namespace
}  // namespace regatta::topology
