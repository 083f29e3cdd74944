#include "topology/sources/nccl_xml.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "tests/shared_data.h"
#include "topology/graph/cpu_mask.h"
#include "topology/graph/paths.h"
#include "topology/graph/xml.h"

namespace regatta::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

graph::Graph read(std::string_view text) {
  return sources::read_nccl_xml(text, {"n1", "topo.xml"});
}

std::size_t links_of(const graph::Graph& graph, graph::LinkKind kind) {
  return static_cast<std::size_t>(
      std::count_if(graph.links().begin(), graph.links().end(),
                    [&](const graph::Link& link) { return link.kind == kind; }));
}

double speed(const graph::Graph& graph, graph::LinkKind kind, const std::string& a,
             const std::string& b) {
  const auto link = graph.find_link(kind, graph.find("n1/" + a), graph.find("n1/" + b));
  return link ? graph::number_of(graph, graph.links()[*link].facts, graph::key::kBandwidth)
                    .value_or(0)
              : -1;
}

// The same elements with the same attributes below the same parents; order of attributes aside.
void expect_same(const graph::XmlElement& a, const graph::XmlElement& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ((std::map(a.attributes.begin(), a.attributes.end())),
            (std::map(b.attributes.begin(), b.attributes.end())))
      << a.name << " in line " << a.line;
  ASSERT_EQ(a.children.size(), b.children.size()) << a.name << " in line " << a.line;
  for (std::size_t i = 0; i < a.children.size(); ++i) expect_same(a.children[i], b.children[i]);
}

struct SharedFile {
  const char* file;
  std::size_t domains, bridges, gpus, nics, switches;
  std::size_t nvlinks, xgmi;  // as pairs
  graph::LinkKind kind;       // one figure, in GB/s; -1: no such link
  const char *a, *b;
  double gb_per_s;
};

constexpr graph::LinkKind kPcie = graph::LinkKind::Pcie, kNvl = graph::LinkKind::NvLink,
                          kSmp = graph::LinkKind::Smp;

const SharedFile kShared[] = {
    {"aws-g5.48xl-topo.xml", 2, 9, 0, 0, 0, 0, 0, kPcie, "pci:0000:00:16.0", "numa:0", 0},
    {"aws-p4d-24xl-topo.xml", 2, 4, 8, 4, 0, 0, 0, kPcie, "gpu:0000:10:1c.0", "pci:ffff:ff:01.0",
     12},
    {"aws-p5.48xl-topo-2023.xml", 2, 40, 0, 0, 0, 0, 0, kPcie, "pci:0000:4f:00.0",
     "pci:0000:45:00.0", 48},
    {"azure-ncv4-topo.xml", 4, 0, 4, 1, 0, 0, 0, kPcie, "gpu:0001:00:00.0", "numa:0", 12},
    {"azure-ndv2-topo.xml", 2, 0, 8, 1, 0, 0, 0, kSmp, "numa:0", "numa:1", 10},
    {"azure-ndv5-topo.xml", 2, 8, 8, 8, 0, 0, 0, kSmp, "numa:0", "numa:1", 22},
    {"mlperf-dgxa100_nic_affinity.xml", 4, 12, 8, 8, 0, 0, 0, kSmp, "numa:3", "numa:5", 16},
    {"mlperf-hpe-675d_nic_affinity.xml", 4, 12, 8, 4, 6, 48, 0, kNvl, "gpu:0000:07:00.0",
     "nvswitch:0000:ac:00.0", 40},
    {"oci-H100-topology.xml", 2, 24, 8, 16, 4, 32, 0, kNvl, "gpu:0000:0f:00.0",
     "nvswitch:0000:1c:00.0", 5 * 20.6},
    {"oci-topo-flattened.xml", 4, 4, 8, 8, 0, 0, 0, kPcie, "gpu:0000:0f:00.0", "pci:0000:01:00.0",
     24},
    {"rccl-topo_16p1h.xml", 4, 28, 16, 8, 0, 0, 28, kPcie, "pci:0000:4c:00.0", "pci:0000:49:00.0",
     12},
    {"rccl-topo_3p_pcie.xml", 2, 3, 3, 1, 0, 0, 0, kPcie, "nic:mlx5_0", "numa:0", 24},
    {"rccl-topo_4p3l_ia.xml", 1, 10, 8, 1, 0, 0, 12, kPcie, "nic:mlx5_0", "pci:0000:18:00.0", 12},
    {"rccl-topo_8p6l_4nic.xml", 2, 8, 8, 4, 0, 0, 24, kSmp, "numa:0", "numa:1", 16},
    {"rccl-topo_8p_940.xml", 2, 24, 8, 8, 0, 0, 28, kSmp, "numa:0", "numa:1", 22},
    {"rccl-topo_8p_pcie_2nic.xml", 1, 10, 8, 2, 0, 0, 0, kPcie, "gpu:0000:1d:00.0",
     "pci:0000:1b:00.0", 24},
    {"rccl-topo_8p_rome_4nics.xml", 4, 20, 8, 4, 0, 0, 12, kSmp, "numa:0", "numa:1", 16},
};

TEST(NcclXml, ReadsEveryPublicFile) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(tests::shared_path("topologies/nccl-xml"))) {
    files += entry.path().filename() != "azure-ncv4-graph.xml";
  }
  EXPECT_EQ(files, std::size(kShared)) << "a file without a row";
  for (const SharedFile& row : kShared) {
    SCOPED_TRACE(row.file);
    const graph::Graph graph =
        read(tests::file_text(tests::shared_path("topologies/nccl-xml") / row.file));
    EXPECT_THAT(graph.of_kind(graph::Kind::Numa), SizeIs(row.domains));
    EXPECT_THAT(graph.of_kind(graph::Kind::PciSwitch), SizeIs(row.bridges));
    EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(row.gpus));
    EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(row.nics));
    EXPECT_THAT(graph.of_kind(graph::Kind::NvSwitch), SizeIs(row.switches));
    EXPECT_EQ(links_of(graph, graph::LinkKind::NvLink), row.nvlinks);
    EXPECT_EQ(links_of(graph, graph::LinkKind::Xgmi), row.xgmi);
    EXPECT_NEAR(speed(graph, row.kind, row.a, row.b), row.gb_per_s, 1e-9);
    EXPECT_THAT(graph::check_graph(graph), IsEmpty());
  }
}

TEST(NcclXml, WritesEveryPublicFileAsItWas) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  for (const SharedFile& row : kShared) {
    SCOPED_TRACE(row.file);
    const std::string text = tests::file_text(tests::shared_path("topologies/nccl-xml") / row.file);
    const graph::Graph graph = read(text);
    const std::string written = sources::write_nccl_xml(graph, graph.find("n1"));
    expect_same(graph::parse_xml(text, "original"), graph::parse_xml(written, "written"));
    const graph::Graph again = read(written);
    EXPECT_EQ(graph::to_json(again), graph::to_json(graph));
    EXPECT_EQ(sources::write_nccl_xml(again, again.find("n1")), written);
    // And through graph.json, which is how regatta keeps it.
    const graph::Graph kept = graph::parse_graph(graph::to_json(graph), "graph.json");
    EXPECT_EQ(sources::write_nccl_xml(kept, kept.find("n1")), written);
  }
}

// What every command does with a file: it merges it into a graph of all of them.
TEST(NcclXml, EveryPublicFileIsTheSameAfterItWasMerged) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  for (const SharedFile& row : kShared) {
    SCOPED_TRACE(row.file);
    const graph::Graph graph =
        read(tests::file_text(tests::shared_path("topologies/nccl-xml") / row.file));
    graph::Graph merged;
    for (const char* const time : {"first", "second"}) {
      merged.merge(graph);
      EXPECT_THAT(merged.of_kind(graph::Kind::Nic), SizeIs(row.nics)) << time;
      EXPECT_EQ(graph::to_json(merged), graph::to_json(graph)) << time;
      EXPECT_EQ(sources::write_nccl_xml(merged, merged.find("n1")),
                sources::write_nccl_xml(graph, graph.find("n1")));
    }
  }
}

TEST(NcclXml, APublicDumpSaysWhatItsDevicesAre) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  const auto folder = tests::shared_path("topologies/nccl-xml");
  const graph::Graph oci = read(tests::file_text(folder / "oci-H100-topology.xml"));
  const auto& gpu = oci.vertex(oci.find("n1/gpu:0000:89:00.0")).facts;
  EXPECT_EQ(graph::integer_of(oci, gpu, graph::key::kIndex), 4);
  EXPECT_EQ(graph::integer_of(oci, gpu, graph::key::kComputeCapability), 90);
  EXPECT_EQ(graph::integer_of(oci, gpu, graph::key::kNvlinks), 18);
  EXPECT_EQ(graph::integer_of(oci, gpu, graph::key::kGdr), 1);
  EXPECT_EQ(graph::integer_of(oci, gpu, graph::key::kNuma), 1);
  EXPECT_EQ(graph::number_of(oci, gpu, graph::key::kPcieMaxSpeed), 32);
  EXPECT_EQ(graph::integer_of(oci, gpu, graph::key::kPcieMaxWidth), 16);
  const auto& nic = oci.vertex(oci.find("n1/nic:mlx5_17")).facts;
  EXPECT_EQ(graph::integer_of(oci, nic, graph::key::kSpeed), 180000);
  EXPECT_EQ(graph::integer_of(oci, nic, graph::key::kPort), 2);
  EXPECT_EQ(graph::text_of(oci, nic, graph::key::kGuid), "0x966dae03001e0108");
  EXPECT_EQ(graph::text_of(oci, nic, graph::key::kBusId), "") << "shared by two ports here";
  EXPECT_EQ(graph::text_of(oci, oci.vertex(oci.find("n1/numa:0")).facts, graph::key::kCpus),
            "0-55,112-167");

  const graph::Graph ncv4 = read(tests::file_text(folder / "azure-ncv4-topo.xml"));
  EXPECT_EQ(links_of(ncv4, graph::LinkKind::NvLink), 0U) << "each GPU names itself";
  EXPECT_EQ(ncv4.vertex(ncv4.vertex(ncv4.find("n1/nic:eth0")).parent).id, "n1/numa:0");
}

// A machine of two GPUs, a switch between them, a card of two ports, and a bridge link.
constexpr const char* kSmall = R"(<system version="1">
  <cpu numaid="0" affinity="00000000,ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6"
       modelid="207">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pcilink target="0000:20:00.0"/>
      <pci busid="0000:11:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
          <c2c bw="50000" count="9"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="p0" dev="0" speed="200000" port="1" guid="0x1" gdr="1"/>
          <net name="p1" dev="1" speed="200000" port="2" guid="0x1" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:20:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:21:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
        <gpu dev="1" sm="90" rank="1" gdr="1">
          <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
        </gpu>
      </pci>
    </pci>
  </cpu>
</system>
)";

TEST(NcclXml, ReadsSwitchesPortsAndChipLinks) {
  const graph::Graph graph = read(kSmall);
  EXPECT_NEAR(speed(graph, kNvl, "gpu:0000:11:00.0", "nvswitch#0"), 18 * 20.6, 1e-9);
  EXPECT_NEAR(speed(graph, graph::LinkKind::C2c, "gpu:0000:11:00.0", "numa:0"), 450, 1e-9);
  EXPECT_NEAR(speed(graph, kPcie, "gpu:0000:21:00.0", "pci:0000:20:00.0"), 12, 1e-9);
  EXPECT_EQ(speed(graph, kPcie, "pci:0000:10:00.0", "pci:0000:20:00.0"), 0) << "no speed is said";
  EXPECT_EQ(graph.vertex(graph.find("n1/nic:p1")).parent, graph.find("n1/pci:0000:10:00.0"));
  graph::XmlElement first = graph::parse_xml(kSmall, "first");
  graph::XmlElement second =
      graph::parse_xml(sources::write_nccl_xml(graph, graph.find("n1")), "second");
  // A bridge's links move behind its children.
  auto& children = first.children[0].children[0].children;
  std::rotate(children.begin(), children.begin() + 1, children.end());
  expect_same(first, second);
}

std::string edited(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const std::size_t at = text.find(from);
  base::check(at != std::string::npos, "the text to change is there");
  return text.replace(at, from.size(), to);
}

std::string nested(int depth) {
  std::string text = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < depth; ++i) {
    char bus[40];
    std::snprintf(bus, sizeof bus, "<pci busid=\"%04x:00:00.0\">", i);
    text += bus;
  }
  for (int i = 0; i < depth; ++i) text += "</pci>";
  return text + "</cpu></system>";
}

TEST(NcclXml, RefusesWhatNcclWouldNotTake) {
  const std::string line = "<cpu numaid=\"9\"/>\n";
  std::string many = "<system version=\"1\">\n";
  for (int i = 0; i < 9000; ++i) many += line;
  many += "</system>";
  struct Row {
    const char* name;
    std::string text;
    const char* why;
  };
  const Row rows[] = {
      {"nothing", "", "it is no XML"},
      {"cut off", std::string(kSmall).substr(0, 700), "it is no XML"},
      {"no XML", "GPU0 GPU1", "it is no XML"},
      {"another root", "<topology/>", "the root is no <system>"},
      {"a graph dump", "<graphs version=\"1\"/>", "NCCL_GRAPH_DUMP_FILE"},
      {"two roots", "<system version=\"1\"/><system version=\"1\"/>", "behind the root"},
      {"no version", "<system/>", "has no 'version'"},
      {"version 3", "<system version=\"3\"/>", "version 3 is not known"},
      {"no numaid", "<system version=\"1\"><cpu/></system>", "has no 'numaid'"},
      {"a domain twice",
       "<system version=\"1\">\n<cpu numaid=\"0\"/>\n<cpu numaid=\"0\"/></system>",
       "topo.xml:3: numaid 0 appears twice"},
      {"a mask of other letters", edited("00000000,ffffffff", "0000000g"), "not a mask of CPUs"},
      {"no bus id", edited("busid=\"0000:11:00.0\" ", ""), "topo.xml:6: <pci> has no 'busid'"},
      {"no such bus id", edited("0000:11:00.0", "0000:11"), "'0000:11' is not a bus id"},
      {"a bus id twice", edited("0000:12:00.0", "0000:11:00.0"), "appears twice"},
      {"a name twice", edited("name=\"p1\"", "name=\"p0\""), "'p0' appears twice"},
      {"no name", edited("name=\"p1\" ", ""), "<net> has no 'name'"},
      {"a name that is none", edited("name=\"p1\"", "name=\"p&#10;\""), "not the name of a NIC"},
      {"text as number", edited("speed=\"200000\"", "speed=\"fast\""), "'fast' as speed of <net>"},
      {"an attribute twice", edited("dev=\"0\"", "dev=\"0\" dev=\"1\""), "'dev' twice"},
      {"no links at all", edited("count=\"18\"", "count=\"0\""), "count 0 is out of range"},
      {"a target that is none",
       edited("target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"",
              "target=\"gpu1\" count=\"18\" tclass=\"0x030200\""),
       "'gpu1' is not a bus id"},
      {"a card that is a GPU, too", edited("<nic>", "<gpu/><nic>"),
       "holds a GPU or NIC and something else"},
      {"a GPU below the system", "<system version=\"1\"><gpu dev=\"0\"/></system>",
       "<gpu> cannot stand in <system>"},
      {"a card without anything", "<system version=\"1\"><cpu numaid=\"0\"><nic/></cpu></system>",
       "without bus id"},
      {"too deep", nested(100), "deep"},
      {"too many elements", many, "more than 8192 elements"},
      {"too long", std::string(graph::kMostXmlBytes + 1, ' '), "at most"},
      {"a long value", edited("name=\"p0\"", "name=\"" + std::string(5000, 'x') + "\""), "4096"},
  };
  for (const Row& row : rows) {
    try {
      (void)read(row.text);
      ADD_FAILURE() << row.name << " was read";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << row.name;
      EXPECT_THAT(error.what(), HasSubstr(row.why)) << row.name;
      EXPECT_THAT(error.what(), HasSubstr("topo.xml")) << row.name;
    }
  }
}

TEST(NcclXml, RefusesGpusThatDisagree) {
  const auto pair = [](int there, int back) {
    const auto gpu = [](const char* bus, const char* target, int count) {
      return std::string("<pci busid=\"") + bus +
             "\" class=\"0x030200\"><gpu dev=\"0\" sm=\"70\">" +
             (count == 0 ? ""
                         : "<nvlink target=\"" + std::string(target) + "\" count=\"" +
                               std::to_string(count) + "\" tclass=\"0x030200\"/>") +
             "</gpu></pci>";
    };
    return "<system version=\"1\"><cpu numaid=\"0\">" + gpu("0000:01:00.0", "0000:02:00.0", there) +
           gpu("0000:02:00.0", "0000:01:00.0", back) + "</cpu></system>";
  };
  EXPECT_NEAR(speed(read(pair(2, 2)), kNvl, "gpu:0000:01:00.0", "gpu:0000:02:00.0"), 40, 1e-9);
  EXPECT_NEAR(speed(read(pair(0, 2)), kNvl, "gpu:0000:01:00.0", "gpu:0000:02:00.0"), 40, 1e-9);
  EXPECT_THROW((void)read(pair(2, 1)), base::Error);
}

// As a container's host dumps it: an interface without device below each CPU.
std::string with_interfaces(const std::string& first, const std::string& second) {
  return "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:11:00.0\" class=\"0x030200\">"
         "<gpu dev=\"0\" sm=\"90\"/></pci><pci busid=\"0000:12:00.0\" class=\"0x020000\"><nic>"
         "<net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" guid=\"0x5\"/></nic></pci>" +
         first + "</cpu><cpu numaid=\"1\">" + second + "</cpu></system>";
}
constexpr const char* kTunnel =
    "<nic><net name=\"tunl0\" dev=\"2\" speed=\"10000\" port=\"0\" guid=\"0x2\" gdr=\"0\"/>"
    "<net name=\"eth0\" dev=\"1\" speed=\"10000\" port=\"0\" guid=\"0x1\" gdr=\"0\"/></nic>";

TEST(NcclXml, AnInterfaceBelowSeveralDomainsIsOne) {
  const graph::Graph graph = read(with_interfaces(kTunnel, kTunnel));
  EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(3));
  EXPECT_EQ(graph.vertex(graph.vertex(graph.find("n1/nic:tunl0")).parent).id, "n1/numa:0");
  EXPECT_EQ(
      graph::text_of(graph, graph.vertex(graph.find("n1/nic:tunl0")).facts, graph::key::kGuid), "")
      << "its guid is a counter";
  EXPECT_EQ(graph::to_json(graph), graph::to_json(read(with_interfaces(kTunnel, ""))));
  const std::string written = sources::write_nccl_xml(graph, graph.find("n1"));
  EXPECT_EQ(graph::to_json(read(written)), graph::to_json(graph));
  // Other dumps of the machine count other interfaces.
  graph::Graph merged = graph;
  std::string other = kTunnel;
  other.replace(other.find("guid=\"0x2\""), 10, "guid=\"0x5\"");
  merged.merge(read(with_interfaces(other, "")));
  EXPECT_THAT(merged.of_kind(graph::Kind::Nic), SizeIs(3));
}

TEST(NcclXml, AnRdmaDeviceListedTwiceIsRefused) {
  const std::string device =
      "<pci busid=\"0000:13:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_0\" dev=\"1\" "
      "port=\"1\"/></nic></pci>";
  const std::string nowhere = "<nic><net name=\"mlx5_0\" dev=\"1\" port=\"1\"/></nic>";
  const std::string socket =
      "<pci busid=\"0000:13:00.0\" class=\"0x020000\"><nic><net name=\"eth0\" dev=\"1\" "
      "port=\"0\"/></nic></pci>";
  EXPECT_THROW((void)read(with_interfaces("", device)), base::Error) << "two bus ids";
  EXPECT_THROW((void)read(with_interfaces("", nowhere)), base::Error) << "port 1 is not a socket's";
  EXPECT_THROW((void)read(with_interfaces(kTunnel, socket)), base::Error) << "on PCIe after all";
  EXPECT_THAT(read(with_interfaces(socket, kTunnel)).of_kind(graph::Kind::Nic), SizeIs(3));
}

TEST(NcclXml, ReadsNvlinksToTheCpuOfPower) {
  const graph::Graph graph = read(
      "<system version=\"1\"><cpu numaid=\"8\" arch=\"ppc64\"><pci busid=\"0004:04:00.0\" "
      "class=\"0x030200\"><gpu dev=\"0\" sm=\"70\"><nvlink target=\"0004:00:00.0\" count=\"3\" "
      "tclass=\"0x068001\"/></gpu></pci></cpu></system>");
  EXPECT_NEAR(speed(graph, kNvl, "gpu:0004:04:00.0", "numa:8"), 60, 1e-9);
  EXPECT_THAT(graph.of_kind(graph::Kind::NvSwitch), IsEmpty());
}

// What NVML and sysfs tell of a machine, without any XML.
graph::Graph machine(int gpus = 2) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::Sysfs, "n1");
  const graph::VertexIndex node = graph.add(graph::Kind::Node, "n1");
  const graph::VertexIndex domain = graph.add(graph::Kind::Numa, "n1/numa:0", node);
  graph.set(domain, graph::key::kCpus, "0-3,36-39", source);
  graph.set(domain, graph::key::kVendor, "GenuineIntel", source);
  const graph::VertexIndex bridge =
      graph.add(graph::Kind::PciSwitch, "n1/pci:0000:10:00.0", domain);
  graph.set(bridge, graph::key::kBusId, "0000:10:00.0", source);
  const graph::VertexIndex nvswitch = graph.add(graph::Kind::NvSwitch, "n1/nvswitch#0", node);
  for (int i = 0; i < gpus; ++i) {
    char bus[40];
    std::snprintf(bus, sizeof bus, "0000:%02x:00.0", 0x11 + i);
    const graph::VertexIndex gpu =
        graph.add(graph::Kind::Gpu, std::string("n1/gpu:") + bus, bridge);
    graph.set(gpu, graph::key::kBusId, bus, source);
    graph.set(gpu, graph::key::kIndex, std::int64_t{i}, source);
    graph.set(gpu, graph::key::kComputeCapability, std::int64_t{90}, source);
    graph.set(gpu, graph::key::kPcieMaxSpeed, 32.0, source);
    graph.set(gpu, graph::key::kPcieMaxWidth, std::int64_t{16}, source);
    const auto link = graph.connect(graph::LinkKind::NvLink, gpu, nvswitch);
    graph.set_link(link, graph::key::kCount, std::int64_t{18}, source);
  }
  for (int port = 0; port < 2; ++port) {
    const std::string name = "mlx5_" + std::to_string(port);
    const graph::VertexIndex nic = graph.add(graph::Kind::Nic, "n1/nic:" + name, bridge);
    graph.set(nic, graph::key::kName, name, source);
    graph.set(nic, graph::key::kBusId, "0000:0f:00." + std::to_string(port), source);
    graph.set(nic, graph::key::kSpeed, std::int64_t{400000}, source);
    graph.set(nic, graph::key::kLinkLayer, "InfiniBand", source);
    graph.set(nic, graph::key::kGuid, "0x946dae030050709a", source);
  }
  return graph;
}

TEST(NcclXmlWriter, WritesAMachineThatNobodyDumped) {
  const graph::Graph graph = machine();
  EXPECT_EQ(sources::write_nccl_xml(graph, graph.find("n1")), R"(<system version="1">
  <cpu numaid="0" affinity="000000f0,0000000f" vendor="GenuineIntel">
    <pci busid="0000:10:00.0" class="0x060400">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90">
          <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90">
          <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:0f:00.0" class="0x020700">
        <nic>
          <net name="mlx5_0" speed="400000" guid="0x9a70500003ae6d94"/>
          <net name="mlx5_1" speed="400000" guid="0x9a70500003ae6d94"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
)");
}

TEST(NcclXmlWriter, CompletesASkeleton) {
  graph::Graph graph = read(
      "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:12:00.0\"/>"
      "<pci busid=\"0000:11:00.0\" link_width=\"8\"/><pci busid=\"0000:0f:00.0\"/></cpu></system>");
  graph::Graph known = machine();
  graph.merge(known);
  const std::string text = sources::write_nccl_xml(graph, graph.find("n1"));
  const graph::XmlElement cpu = graph::parse_xml(text, "written").children.at(0);
  ASSERT_THAT(cpu.children, SizeIs(4)) << text;
  EXPECT_EQ(*cpu.children[0].find("busid"), "0000:12:00.0") << "the skeleton's order";
  EXPECT_EQ(*cpu.children[1].find("link_width"), "8") << "its figures";
  EXPECT_EQ(*cpu.children[1].find("link_speed"), "32.0 GT/s PCIe") << "and the others'";
  EXPECT_EQ(*cpu.children[1].children.at(0).find("dev"), "0");
  EXPECT_THAT(cpu.children[2].children.at(0).children, SizeIs(2)) << "both ports";
  EXPECT_EQ(*cpu.children[3].find("busid"), "0000:10:00.0");
  EXPECT_THAT(cpu.children[3].children, IsEmpty());
}

TEST(NcclXmlWriter, RefusesWhatNcclCannotRead) {
  const auto why = [](const graph::Graph& graph) -> std::string {
    try {
      (void)sources::write_nccl_xml(graph, graph.find("n1"));
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      return error.what();
    }
    return "was written";
  };
  EXPECT_THAT(why(machine(82)), HasSubstr("was written")) << "254 elements";
  EXPECT_THAT(why(machine(84)), HasSubstr("at most 256"));
  graph::Graph graph = machine();
  graph.set(graph.find("n1/nic:mlx5_0"), graph::key::kName, std::string(256, '1'), 0);
  EXPECT_THAT(why(graph), HasSubstr("'name' of <net name=\"11111"));
  for (const char* const bad : {"a\"b", "a<b", "a&b", "a\nb"}) {
    graph.set(graph.find("n1/nic:mlx5_0"), graph::key::kName, bad, 0);
    EXPECT_THAT(why(graph), HasSubstr("misread")) << bad;
  }
  graph = machine();
  graph.add(graph::Kind::Gpu, "n1/gpu#7", graph.find("n1/numa:0"));
  EXPECT_THAT(why(graph), HasSubstr("n1/gpu#7 has no bus id"));
  graph = machine();
  graph.add(graph::Kind::Numa, "n1/numa:1", graph.find("n1"));
  const graph::VertexIndex gpu =
      graph.add(graph::Kind::Gpu, "n1/gpu:0000:99:00.0", graph.find("n1"));
  graph.set(gpu, graph::key::kBusId, "0000:99:00.0", 0);
  EXPECT_THAT(why(graph), HasSubstr("NUMA domains are known, but not the one of 0000:99:00.0"));
  graph = machine(130);
  EXPECT_THAT(why(graph), HasSubstr("holds more than 128"));
  graph = read(kSmall);
  for (int i = 0; i < 17; ++i) {
    graph.set(graph.find("n1/numa:0"), "xml.cpu.a" + std::to_string(i), "x", 0);
  }
  EXPECT_THAT(why(graph), HasSubstr("more than 16 attributes"));
}

TEST(NcclXml, TurnsGuids) {
  EXPECT_EQ(sources::swapped_guid("0x9a70500003ae6d94"), "0x946dae030050709a");
  EXPECT_EQ(sources::swapped_guid("0x8011e0003ae6d94"), "0x946dae03001e0108");
  EXPECT_EQ(sources::swapped_guid("0x1"), "0x0100000000000000");
  for (const char* const bad : {"", "0x", "1", "0xg", "0x12345678901234567"}) {
    EXPECT_FALSE(sources::swapped_guid(bad)) << bad;
  }
}

TEST(CpuMask, GoesBothWays) {
  const std::tuple<const char*, const char*, const char*> rows[] = {
      {"00000000,00000000,00ffffff", "0-23", "00000000,00000000,00ffffff"},
      {"0003ff,f0003fff", "0-13,28-41", "000003ff,f0003fff"},
      {"1", "0", "00000001"},
      {"0x80000000", "31", "80000000"},
      {"0", "", "00000000"},
      {"ABCDEF00,00000000", "40-43,45-48,50-51,54-57,59,61,63", ""},
  };
  for (const auto& [mask, list, back] : rows) {
    const auto set = graph::parse_cpu_mask(mask);
    ASSERT_TRUE(set) << mask;
    EXPECT_EQ(graph::cpu_list(*set), list);
    if (*back == 0) continue;
    EXPECT_EQ(graph::cpu_mask(*set, static_cast<std::uint32_t>(base::split(mask, ',').size() * 32)),
              back);
    if (*list != 0) {
      EXPECT_EQ(graph::parse_cpu_list(list), set);
    }
  }
  for (const char* const bad : {"", ",", "0,", "123456789", "g", "-1", " 1", "1 "}) {
    EXPECT_FALSE(graph::parse_cpu_mask(bad)) << bad;
  }
  for (const char* const bad : {"", "1-", "-1", "2-1", "a", "1,,2", "9000", "0-99999999999"}) {
    EXPECT_FALSE(graph::parse_cpu_list(bad)) << bad;
  }
}

}  // namespace
}  // namespace regatta::topology
