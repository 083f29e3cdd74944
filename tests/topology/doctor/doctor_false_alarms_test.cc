// What is no fault and once was told as one, each beside the true fault that looks like it.
#include <gmock/gmock.h>

#include "tests/shared_data.h"
#include "tests/topology/doctor/sick_cluster.h"
#include "topology/doctor/doctor.h"
#include "topology/sources/read_any.h"

namespace regatta::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> ids(const std::vector<graph::Finding>& findings) {
  std::vector<std::string> list;
  for (const graph::Finding& finding : findings) list.push_back(finding.id);
  return list;
}

std::vector<graph::Finding> findings_of_text(const std::string& text, const std::string& name) {
  const sources::Reading reading = sources::read_any(text, name);
  return doctor::diagnose({reading.graph, {}, reading.hosts, {}});
}

// Two GPUs behind a switch each, and the interfaces as NCCL dumps them.
std::string xml_with(const std::string& nets) {
  return R"(<system version="1">
<cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
<pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0000:11:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="0" sm="90" rank="0" gdr="1"/></pci>
<pci busid="0000:12:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="1" sm="90" rank="1" gdr="1"/></pci>
</pci>
<nic>)" + nets +
         "</nic></cpu></system>";
}
std::string net(const std::string& name, int speed, int port, int gdr) {
  return "<net name=\"" + name + "\" dev=\"0\" speed=\"" + std::to_string(speed) + "\" port=\"" +
         std::to_string(port) + "\" guid=\"0x0\" maxconn=\"65536\" gdr=\"" + std::to_string(gdr) +
         "\"/>";
}

TEST(FalseAlarms, InterfacesThatNcclReachesBySockets) {
  for (const char* name : {"eth0", "eno1", "enp3s0f0", "ens5", "veth1a2b3c", "br-0f3c5a", "docker0",
                           "virbr0", "cali12ab", "tunl0"}) {
    for (const int speed : {1000, 10000, 100000}) {
      EXPECT_THAT(ids(findings_of_text(xml_with(net(name, speed, 0, 0)), "x.xml")), IsEmpty())
          << name << " at " << speed << " Mbit/s";
    }
  }
  const std::string several = net("eth0", 1000, 0, 0) + net("veth1", 10000, 0, 0) +
                              net("veth2", 10000, 0, 0) + net("br-12ab", 10000, 0, 0);
  EXPECT_THAT(ids(findings_of_text(xml_with(several), "x.xml")), IsEmpty());
}

// GPUs of a generation before NVLink's fabric manager say so themselves, and the bridges of a
// virtual machine are not its own to set.
TEST(FalseAlarms, WhatAMachineCannotHelp) {
  for (const char* const name : {"dgx-a100", "pcie-100gbe"}) {
    Sick sick = healthy(name);
    sick.set_all(graph::Kind::Gpu, graph::key::kFabricState, std::string("not supported"));
    EXPECT_THAT(ids(sick.findings()), IsEmpty()) << name;
  }
  Sick sick = healthy("dgx-h100");
  sick.set_all(graph::Kind::PciSwitch, graph::key::kAcs, std::int64_t{1});
  EXPECT_THAT(ids(sick.findings()), ElementsAre("pcie.acs"));
  sick.set_all(graph::Kind::Node, graph::key::kVirtual, std::int64_t{1});
  EXPECT_THAT(ids(sick.findings()), IsEmpty());
}

TEST(FalseAlarms, RdmaDevicesAndFastInterfacesStayFindings) {
  // RoCE at 10 GbE and slower is what it is, but GPUDirect could be on.
  for (const char* name : {"mlx5_0", "bnxt_re0", "rdmap16s27"}) {
    EXPECT_THAT(ids(findings_of_text(xml_with(net(name, 10000, 1, 0)), "x.xml")),
                ElementsAre("gdr.off"))
        << name;
    EXPECT_THAT(ids(findings_of_text(xml_with(net(name, 400000, 1, 1)), "x.xml")), IsEmpty())
        << name;
  }
  // Sockets over InfiniBand or Slingshot go through host memory although they need not.
  for (const char* name : {"ib0", "ibs1", "hsn0"}) {
    EXPECT_THAT(ids(findings_of_text(xml_with(net(name, 200000, 0, 0)), "x.xml")),
                ElementsAre("gdr.off"))
        << name;
  }
  const std::string beside = net("eth0", 1000, 0, 0) + net("mlx5_0", 400000, 1, 0);
  EXPECT_THAT(ids(findings_of_text(xml_with(beside), "x.xml")), ElementsAre("gdr.off"));
  std::string rails;
  for (int i = 0; i < 7; ++i) rails += net("mlx5_" + std::to_string(i), 400000, 1, 1);
  const auto findings = findings_of_text(xml_with(rails + net("mlx5_7", 10000, 1, 1)), "x.xml");
  ASSERT_THAT(ids(findings), ElementsAre("nic.slow"));
  EXPECT_THAT(findings[0].words, HasSubstr("mlx5_7: the port has 10 Gbit/s"));
}

TEST(FalseAlarms, PublicTopologyFilesHaveNoErrors) {
  REGATTA_NEED_SHARED("topologies/nccl-xml");
  for (const char* file :
       {"azure-ncv4-topo.xml", "azure-ndv5-topo.xml", "azure-ndv2-topo.xml",
        "aws-p4d-24xl-topo.xml", "aws-g5.48xl-topo.xml", "aws-p5.48xl-topo-2023.xml",
        "oci-H100-topology.xml", "oci-topo-flattened.xml", "mlperf-dgxa100_nic_affinity.xml"}) {
    const auto path = tests::shared_path("topologies/nccl-xml") / file;
    for (const graph::Finding& finding : findings_of_text(tests::file_text(path), file)) {
      EXPECT_NE(finding.severity, graph::Severity::Error) << file << ": " << finding.words;
    }
  }
}

// A fabric as ibnetdiscover shows it: leaves with a single-port host for each speed, each leaf with
// `uplinks` cables of one rate to each spine.
struct FabricPlan {
  std::vector<std::vector<std::string>> hosts;  // rates of the hosts of each leaf: "4xQDR"
  int spines = 2;
  int uplinks = 6;
  std::string rate = "4xEDR";
};
class Fabric {
 public:
  explicit Fabric(const FabricPlan& plan) : plan_(plan) {
    source_ = graph_.add_source(graph::Source::Ibnetdiscover, "fabric");
    fabric_ = graph_.add(graph::Kind::Fabric, "fabric:ib");
    graph_.set(fabric_, graph::key::kLinkLayer, std::string("InfiniBand"), source_);
    for (std::size_t leaf = 0; leaf < plan_.hosts.size(); ++leaf) add_leaf(leaf);
  }
  [[nodiscard]] std::vector<graph::Finding> findings() const { return doctor::diagnose({graph_}); }
  [[nodiscard]] graph::VertexIndex a_switch(const std::string& name) {
    return graph_.add(graph::Kind::FabricSwitch, "switch:" + name, fabric_);
  }
  // As the reader writes them: cables "1-1 4xEDR, 2-2 4xEDR" and the sum of their speeds.
  void cable(graph::VertexIndex a, graph::VertexIndex b, const std::vector<std::string>& rates) {
    std::string listed;
    double gb_per_s = 0;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const std::string port = std::to_string(i + 1);
      listed += (i == 0 ? "" : ", ") + port + "-" + port + " " + rates[i];
      gb_per_s += megabits(rates[i]) / 8000;
    }
    const auto link = graph_.connect(graph::LinkKind::Fabric, a, b);
    graph_.set_link(link, graph::key::kCount, static_cast<std::int64_t>(rates.size()), source_);
    graph_.set_link(link, graph::key::kCables, listed, source_);
    graph_.set_link(link, graph::key::kBandwidth, gb_per_s, source_);
  }
  void host(graph::VertexIndex leaf, const std::string& rate, int adapters = 1) {
    const std::string name = "h" + std::to_string(++hosts_);
    const graph::VertexIndex node = graph_.add(graph::Kind::Node, name);
    for (int i = 0; i < adapters; ++i) {
      const graph::VertexIndex nic =
          graph_.add(graph::Kind::Nic, name + "/nic:mlx5_" + std::to_string(i), node);
      graph_.set(nic, graph::key::kLinkLayer, std::string("InfiniBand"), source_);
      graph_.set(nic, graph::key::kState, std::string("active"), source_);
      graph_.set(nic, graph::key::kSpeed, static_cast<std::int64_t>(megabits(rate)), source_);
      cable(leaf, nic, {rate});
    }
  }

 private:
  static double megabits(const std::string& rate) {
    const std::map<std::string, double> kRates = {
        {"1xEDR", 25000}, {"4xSDR", 10000}, {"4xDDR", 20000}, {"4xQDR", 40000}, {"4xEDR", 100000}};
    return kRates.at(rate);
  }
  void add_leaf(std::size_t number) {
    const graph::VertexIndex leaf = a_switch("leaf" + std::to_string(number));
    for (const std::string& rate : plan_.hosts[number]) host(leaf, rate);
    for (int spine = 0; spine < plan_.spines; ++spine) {
      cable(leaf, a_switch("spine" + std::to_string(spine)),
            std::vector<std::string>(static_cast<std::size_t>(plan_.uplinks), plan_.rate));
    }
  }

  FabricPlan plan_;
  graph::Graph graph_;
  std::uint32_t source_ = 0;
  graph::VertexIndex fabric_ = graph::kNoVertex;
  int hosts_ = 0;
};

std::vector<std::string> hosts(std::size_t count, const std::string& rate) {
  return std::vector<std::string>(count, rate);
}
FabricPlan plan(std::vector<std::vector<std::string>> of_leaves, const std::string& rate) {
  FabricPlan made;
  made.hosts = std::move(of_leaves);
  made.rate = rate;
  return made;
}

TEST(FalseAlarms, HostsOfAnOlderGeneration) {
  FabricPlan mixed = plan({hosts(10, "4xQDR"), hosts(10, "4xQDR"), hosts(10, "4xQDR")}, "4xQDR");
  for (int i = 0; i < 28; ++i) mixed.hosts[static_cast<std::size_t>(i) % 3].push_back("4xDDR");
  mixed.uplinks = 10;
  const auto findings = Fabric(mixed).findings();
  ASSERT_THAT(ids(findings), ElementsAre("nic.generations"));
  EXPECT_EQ(findings[0].severity, graph::Severity::Note);
  EXPECT_THAT(findings[0].words, HasSubstr("28 NICs of "));
  EXPECT_THAT(findings[0].words, HasSubstr("20 Gbit/s where its like have 40"));
}

TEST(FalseAlarms, AFewSlowHostsStayFindings) {
  // Three of thirty: cables, and no generation.
  FabricPlan few = plan({hosts(10, "4xQDR"), hosts(10, "4xQDR"), hosts(10, "4xQDR")}, "4xQDR");
  for (auto& leaf : few.hosts) leaf.front() = "4xDDR";
  auto findings = Fabric(few).findings();
  ASSERT_THAT(ids(findings), ElementsAre("nic.slow"));
  EXPECT_EQ(findings[0].severity, graph::Severity::Error);
  // Five of a hundred likewise.
  few = plan({hosts(100, "4xQDR")}, "4xQDR");
  few.uplinks = 50;
  std::fill_n(few.hosts[0].begin(), 5, "4xDDR");
  EXPECT_THAT(ids(Fabric(few).findings()), ElementsAre("nic.slow"));
  // One adapter of each of many hosts: a rail, not their generation.
  Fabric rail(plan({{}, {}}, "4xEDR"));
  const graph::VertexIndex leaf = rail.a_switch("leaf0");
  for (int i = 0; i < 6; ++i) rail.host(leaf, "4xEDR", 2);
  EXPECT_THAT(ids(rail.findings()), IsEmpty());
}

TEST(FalseAlarms, WholeLanesOfOldHostsAreNotNarrow) {
  FabricPlan old = plan({hosts(12, "4xDDR"), hosts(12, "4xDDR")}, "4xDDR");
  for (auto& leaf : old.hosts) std::fill_n(leaf.begin(), 4, "4xSDR");
  EXPECT_THAT(ids(Fabric(old).findings()), ElementsAre("nic.generations"));
  old.hosts[0].assign(12, "4xDDR");
  old.hosts[1].assign(12, "4xDDR");
  old.hosts[1][3] = "4xSDR";
  EXPECT_THAT(ids(Fabric(old).findings()), ElementsAre("fabric.narrow_link"));
}

TEST(FalseAlarms, FabricsWithoutSpinesAreNotOversubscribed) {
  FabricPlan ring = plan({hosts(18, "4xEDR"), hosts(18, "4xEDR"), hosts(18, "4xEDR")}, "4xEDR");
  ring.spines = 0;
  Fabric fabric(ring);
  for (const auto& [a, b] : {std::pair("leaf0", "leaf1"), {"leaf1", "leaf2"}, {"leaf0", "leaf2"}}) {
    fabric.cable(fabric.a_switch(a), fabric.a_switch(b), {"4xEDR", "4xEDR", "4xEDR"});
  }
  EXPECT_THAT(ids(fabric.findings()), IsEmpty());
}

TEST(FalseAlarms, TrueOversubscriptionStaysAFinding) {
  FabricPlan thin = plan(std::vector<std::vector<std::string>>(5, hosts(12, "4xEDR")), "4xEDR");
  Fabric fabric(thin);
  EXPECT_THAT(ids(fabric.findings()), IsEmpty());
  fabric.cable(fabric.a_switch("leaf3"), fabric.a_switch("spine1"), {"4xEDR", "4xEDR"});
  // A host for management on a spine makes it no leaf.
  fabric.host(fabric.a_switch("spine0"), "4xEDR");
  const auto findings = fabric.findings();
  ASSERT_THAT(ids(findings), ElementsAre("fabric.oversubscribed"));
  EXPECT_EQ(findings[0].severity, graph::Severity::Warning);
  EXPECT_EQ(findings[0].subject, "switch:leaf3");
  EXPECT_THAT(findings[0].words, HasSubstr("1.5 times"));
}

TEST(FalseAlarms, OneSlowCableIsNamedWithItsPortAndSpeed) {
  // 12 leaves × 2 spines × 6 cables: one DDR among 143 EDR.
  Fabric fabric(plan(std::vector<std::vector<std::string>>(12, hosts(11, "4xEDR")), "4xEDR"));
  fabric.cable(fabric.a_switch("leaf7"), fabric.a_switch("spine1"),
               {"4xEDR", "4xEDR", "4xEDR", "4xDDR", "4xEDR", "4xEDR"});
  const auto findings = fabric.findings();
  ASSERT_THAT(ids(findings), ElementsAre("fabric.slow_cable"));
  EXPECT_EQ(findings[0].words,
            "switch:leaf7 port 4 – switch:spine1 port 4: this cable has 2.5 GB/s where others have "
            "12.5");
  ASSERT_EQ(findings[0].evidence.size(), 1U);
  EXPECT_EQ(findings[0].evidence[0].value, "2.5 GB/s, 4xDDR");
  EXPECT_NEAR(findings[0].cost_gb_per_s.value_or(0), 10, 0.01);
}

TEST(FalseAlarms, OneLaneAmongManyCablesIsFound) {
  // Its link's sum hides it: 5 cables of 100 Gbit/s and one of 25.
  Fabric fabric(plan(std::vector<std::vector<std::string>>(4, hosts(11, "4xEDR")), "4xEDR"));
  fabric.cable(fabric.a_switch("leaf2"), fabric.a_switch("spine0"),
               {"4xEDR", "1xEDR", "4xEDR", "4xEDR", "4xEDR", "4xEDR"});
  const auto findings = fabric.findings();
  ASSERT_THAT(ids(findings), ElementsAre("fabric.narrow_link"));
  EXPECT_EQ(findings[0].evidence[0].path, "switch:leaf2 port 2 – switch:spine0 port 2");
}

TEST(FalseAlarms, CablesOfAnOlderSwitch) {
  FabricPlan plan_of = plan(std::vector<std::vector<std::string>>(6, hosts(11, "4xEDR")), "4xEDR");
  Fabric fabric(plan_of);
  // An old leaf of which no port is faster, joined by as many slow cables as it takes.
  const graph::VertexIndex old = fabric.a_switch("old");
  for (int i = 0; i < 4; ++i) fabric.host(old, "4xQDR");
  fabric.cable(old, fabric.a_switch("spine0"), {"4xQDR", "4xQDR"});
  fabric.cable(old, fabric.a_switch("spine1"), {"4xQDR", "4xQDR"});
  EXPECT_THAT(ids(fabric.findings()), Not(testing::Contains("fabric.slow_cable")));
}

}  // namespace
}  // namespace regatta::topology
