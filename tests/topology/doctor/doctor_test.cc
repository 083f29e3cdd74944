#include "topology/doctor/doctor.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/topology/doctor/sick_cluster.h"

namespace regatta::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::vector<std::string> ids(const std::vector<graph::Finding>& findings) {
  std::vector<std::string> list;
  for (const graph::Finding& finding : findings) list.push_back(finding.id);
  return list;
}

TEST(Doctor, FindsNothingInHealthyClusters) {
  for (const char* name : {"dgx-a100", "dgx-h100", "hgx-h200", "pcie-100gbe", "gb200-nvl72"}) {
    EXPECT_THAT(ids(healthy(name).findings()), IsEmpty()) << name;
    EXPECT_THAT(ids(doctor::diagnose({sources::generate(example(name), 1)})), IsEmpty())
        << name << ", one node";
    EXPECT_THAT(ids(doctor::diagnose({sources::generate(example(name), 70)})), IsEmpty())
        << name << ", 70 nodes";
    EXPECT_THAT(ids(doctor::diagnose({sources::node_graph(example(name), 0)})), IsEmpty())
        << name << ", a part";
  }
  EXPECT_THAT(doctor::diagnose({graph::Graph()}), IsEmpty());
}

// Facts that every source adds and that are no fault.
TEST(Doctor, LeavesHealthyFactsAlone) {
  Sick sick = healthy("dgx-h100");
  sick.set_all(graph::Kind::Nic, graph::key::kState, std::string("active"));
  sick.set_all(graph::Kind::Nic, graph::key::kGdr, std::int64_t{1});
  sick.set_all(graph::Kind::Gpu, graph::key::kFabricState, std::string("completed"));
  sick.set_all(graph::Kind::Gpu, graph::key::kFabricHealth, std::int64_t{0x1AA});
  sick.set_all(graph::Kind::Gpu, graph::key::kNvlinksDown, std::int64_t{0});
  sick.set_all(graph::Kind::Gpu, graph::key::kPcieSpeed, 2.5);  // idle
  sick.set_all(graph::Kind::Gpu, graph::key::kPcieGen, std::int64_t{1});
  sick.set_all(graph::Kind::Gpu, graph::key::kPcieMaxGen, std::int64_t{5});
  sick.set_all(graph::Kind::Gpu, graph::key::kBusy, std::int64_t{0});
  sick.set_all(graph::Kind::Gpu, graph::key::kPcieWidth, std::int64_t{16});
  sick.set_all(graph::Kind::Nic, "symbol_error", std::int64_t{3});
  sick.set_all(graph::Kind::Node, graph::key::kPeerMemory, std::string("dma-buf"));
  sick.hosts = {{"dgx01", "0-223", std::vector<std::string>{"nvidia", "nvidia_peermem"}},
                {"dgx02", "60-70", std::nullopt}};
  sick.hosts.pop_back();
  sick.environment = {
      {"NCCL_DEBUG", "INFO", "x"},          {"NCCL_IB_HCA", "=mlx5_0,mlx5_1", "x"},
      {"NCCL_SOCKET_IFNAME", "bond0", "x"}, {"CUDA_VISIBLE_DEVICES", "0,1,2,3", "x"},
      {"NCCL_SOMETHING_NEW", "1", "x"},     {"PATH", "/bin", "x"}};
  sick.topology_files = {{"t.xml", "dgx01", 256, {}, {{"0", "ff"}, {"1", "ff00"}}}};
  EXPECT_THAT(ids(sick.findings()), IsEmpty());
}

// Ports for management, as every server has them: half of them are not even plugged in.
TEST(Doctor, PassesOverPlainCards) {
  Sick sick = healthy("dgx-h100");
  for (const graph::VertexIndex node : sick.graph.of_kind(graph::Kind::Node)) {
    for (const char* name : {"eno1", "eno2"}) {
      const graph::VertexIndex card =
          sick.graph.add(graph::Kind::Nic, sick.graph.vertex(node).id + "/nic:" + name, node);
      sick.graph.set(card, graph::key::kName, std::string(name), sick.source);
      sick.graph.set(card, graph::key::kLinkLayer, std::string("Ethernet"), sick.source);
      sick.graph.set(card, graph::key::kState,
                     std::string(name == std::string("eno1") ? "active" : "down"), sick.source);
      sick.graph.set(card, graph::key::kSpeed, std::int64_t{1000}, sick.source);
      sick.graph.set(card, graph::key::kPcieWidth, std::int64_t{1}, sick.source);
      sick.graph.set(card, graph::key::kPcieMaxWidth, std::int64_t{4}, sick.source);
    }
  }
  sick.remove("dgx03/nic:eno2");
  EXPECT_THAT(ids(sick.findings()), IsEmpty());
}

// A fault, planted into a healthy example: exactly its id must come out, once.
struct Fault {
  const char* name;
  const char* example;
  const char* id;
  std::function<void(Sick&)> plant;
  graph::Severity severity;
  const char* subject;
  const char* words;
  double lost_gb_per_s = -1;  // -1: none is told
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};
class Planted : public testing::TestWithParam<Fault> {};
TEST_P(Planted, IsFoundAndNothingElse) {
  Sick sick = healthy(GetParam().example);
  GetParam().plant(sick);
  const auto findings = sick.findings();
  ASSERT_THAT(ids(findings), ElementsAre(GetParam().id));
  const graph::Finding& finding = findings.front();
  EXPECT_EQ(finding.severity, GetParam().severity);
  EXPECT_EQ(finding.subject, GetParam().subject);
  EXPECT_THAT(finding.words, HasSubstr(GetParam().words));
  EXPECT_THAT(finding.remedy, Not(IsEmpty()));
  ASSERT_THAT(finding.evidence, Not(IsEmpty()));
  for (const graph::Evidence& evidence : finding.evidence)
    EXPECT_NE(evidence.path + evidence.value, "");
  EXPECT_NEAR(finding.cost_gb_per_s.value_or(-1), GetParam().lost_gb_per_s, 0.1);
}

constexpr graph::Severity kNote = graph::Severity::Note, kWarning = graph::Severity::Warning,
                          kError = graph::Severity::Error;

const std::vector<Fault>& pcie_faults() {
  static const std::vector<Fault> kFaults = {
      {"x8", "dgx-h100", "pcie.width",
       [](Sick& s) { s.set("dgx03/gpu#5", graph::key::kPcieWidth, 8); }, kError, "dgx03/gpu#5",
       "8 lanes instead of 16 lanes", 31.5},
      {"x8_of_many", "dgx-h100", "pcie.width",
       [](Sick& s) {
         for (const char* id : {"dgx03/gpu#5", "dgx03/gpu#6", "dgx07/gpu#0"}) {
           s.set(id, graph::key::kPcieWidth, 8);
         }
       },
       kError, "dgx03/gpu#5", "3 GPUs of dgx[03,07]", 31.5},
      {"nic_x4", "pcie-100gbe", "pcie.width",
       [](Sick& s) { s.set("box01/nic:mlx5_1", graph::key::kPcieWidth, 4); }, kError,
       "box01/nic:mlx5_1", "4 lanes instead of 16", 23.6},
      {"gen1_busy", "dgx-h100", "pcie.speed",
       [](Sick& s) {
         s.set("dgx01/gpu#0", graph::key::kPcieGen, 3);
         s.set("dgx01/gpu#0", graph::key::kPcieMaxGen, 5);
         s.set("dgx01/gpu#0", graph::key::kBusy, 1);
       },
       kWarning, "dgx01/gpu#0", "8 GT/s instead of 32 GT/s", 47.3},
      {"nic_gen3", "dgx-h100", "pcie.speed",
       [](Sick& s) { s.set("dgx01/nic:mlx5_2", graph::key::kPcieSpeed, graph::Value{16.0}); },
       kWarning, "dgx01/nic:mlx5_2", "16 GT/s instead of 32 GT/s", 31.5},
      {"acs", "dgx-h100", "pcie.acs",
       [](Sick& s) {
         for (int i = 0; i < 8; ++i) s.set("dgx02/pci#" + std::to_string(i), graph::key::kAcs, 1);
       },
       kWarning, "dgx02/pci#0", "8 PCIe bridges of dgx02"},
      {"far_nic_same_socket", "dgx-h100", "gpu.far_nic",
       [](Sick& s) { s.move("dgx04/nic:mlx5_0", "dgx04/pci#1"); }, kWarning, "dgx04/gpu#0",
       "at one NUMA domain", 32.3},
      {"far_nic_other_socket", "pcie-100gbe", "gpu.far_nic",
       [](Sick& s) { s.move("box09/nic:mlx5_1", "box09/pci#0"); }, kWarning, "box09/gpu#2",
       "across NUMA domains", 8.06},
      {"nic_shared", "dgx-a100", "gpu.nic_shared",
       [](Sick& s) { s.move("dgx04/nic:mlx5_0", "dgx04/pci#1"); }, kWarning, "dgx04",
       "more than 1 GPUs share a NIC", 12.5},
  };
  return kFaults;
}

const std::vector<Fault>& nvlink_faults() {
  static const std::vector<Fault> kFaults = {
      {"one_link", "dgx-h100", "nvlink.missing",
       [](Sick& s) { s.set("dgx03/gpu#5", graph::key::kNvlinks, 17); }, kError, "dgx03/gpu#5",
       "1 of 18 NVLinks", 25},
      {"links_down", "dgx-a100", "nvlink.missing",
       [](Sick& s) { s.set("dgx03/gpu#5", graph::key::kNvlinksDown, 2); }, kError, "dgx03/gpu#5",
       "2 of 12 NVLinks", 50},
      {"rack_links", "gb200-nvl72", "nvlink.missing",
       [](Sick& s) {
         for (int i = 0; i < 4; ++i)
           s.set("tray05/gpu#" + std::to_string(i), graph::key::kNvlinks, 16);
       },
       kError, "tray05/gpu#0", "4 GPUs of tray05: 2 of 18", 100},
      {"slow_links", "hgx-h200", "nvlink.asymmetric",
       [](Sick& s) {
         s.set_link(graph::LinkKind::NvLink, "hgx07/gpu#2", "hgx07/nvswitch#0",
                    graph::key::kBandwidth, 360.0);
       },
       kWarning, "hgx07/gpu#2", "slower", 90},
      {"fabric_manager", "hgx-h200", "nvlink.fabric_state",
       [](Sick& s) {
         for (int i = 0; i < 8; ++i) {
           s.set("hgx07/gpu#" + std::to_string(i), graph::key::kFabricState,
                 graph::Value{std::string("in progress")});
           s.set("hgx07/gpu#" + std::to_string(i), graph::key::kNvlinks, 0);
         }
       },
       kError, "hgx07/gpu#0", "8 GPUs of hgx07: not registered"},
      {"health", "gb200-nvl72", "nvlink.health",
       [](Sick& s) { s.set("tray02/gpu#1", graph::key::kFabricHealth, 0x59A); }, kError,
       "tray02/gpu#1", "a route is unhealthy, too few NVLinks"},
  };
  return kFaults;
}

const std::vector<Fault>& network_faults() {
  static const std::vector<Fault> kFaults = {
      {"port_down", "dgx-h100", "nic.port_down",
       [](Sick& s) {
         s.set("dgx09/nic:mlx5_3", graph::key::kState, graph::Value{std::string("down")});
       },
       kError, "dgx09/nic:mlx5_3", "not active", 50},
      {"port_unused", "dgx-h100", "nic.port_down",
       [](Sick& s) {
         for (const graph::VertexIndex nic : s.graph.of_kind(graph::Kind::Nic)) {
           if (s.graph.vertex(nic).id.find("mlx5_9") == std::string::npos) continue;
           s.graph.set(nic, graph::key::kState, std::string("2: INIT"), s.source);
         }
       },
       kNote, "dgx01/nic:mlx5_9", "not active on any node", 50},
      {"slow_port", "dgx-h100", "nic.slow",
       [](Sick& s) {
         s.set("dgx09/nic:mlx5_3", graph::key::kSpeed, 100000);
         s.set("dgx11/nic:mlx5_0", graph::key::kSpeed, 100000);
       },
       kError, "dgx09/nic:mlx5_3", "2 NICs of dgx[09,11]: the port has 100 Gbit/s", 37.5},
      {"older_nodes", "dgx-h100", "nic.generations",
       [](Sick& s) {
         for (int n = 1; n <= 4; ++n) {
           for (int i = 0; i < 8; ++i) {
             s.set("dgx0" + std::to_string(n) + "/nic:mlx5_" + std::to_string(i),
                   graph::key::kSpeed, 200000);
           }
         }
       },
       kNote, "dgx01/nic:mlx5_0", "32 NICs of dgx[01-04]: all ports of these nodes", 25},
      {"one_lane", "dgx-h100", "fabric.narrow_link",
       [](Sick& s) {
         s.set("dgx09/nic:mlx5_3", graph::key::kSpeed, 100000);
         s.set("dgx09/nic:mlx5_3", graph::key::kLanes, 1);
       },
       kError, "dgx09/nic:mlx5_3", "one lane"},
      {"one_lane_by_rate", "dgx-h100", "fabric.narrow_link",
       [](Sick& s) {
         s.set("dgx09/nic:mlx5_3", "rate", graph::Value{std::string("100 Gb/sec (1X NDR)")});
         s.set("dgx09/nic:mlx5_3", graph::key::kSpeed, 100000);
       },
       kError, "dgx09/nic:mlx5_3", "one lane"},
      {"sdr_uplink", "dgx-h100", "fabric.narrow_link",
       [](Sick& s) {
         s.set_link(graph::LinkKind::Fabric, "switch:compute-rail0-leaf1", "switch:compute-spine1",
                    graph::key::kLanes, std::int64_t{1});
       },
       kError, "switch:compute-rail0-leaf1", "one lane"},
      {"slow_uplink", "dgx-h100", "fabric.slow_cable",
       [](Sick& s) {
         // 8 cables at HDR speed; the leaf is not full, so that it stays wide enough.
         s.disconnect([&](const graph::Link& link) {
           for (const graph::VertexIndex end : {link.a, link.b}) {
             const std::string node = s.graph.vertex(end).id.substr(0, 5);
             if (link.kind == graph::LinkKind::Fabric && node > "dgx15" && node < "dgx33")
               return true;
           }
           return false;
         });
         s.set_link(graph::LinkKind::Fabric, "switch:compute-rail0-leaf1", "switch:compute-spine1",
                    graph::key::kBandwidth, 200.0);
       },
       kWarning, "switch:compute-rail0-leaf1", "25 GB/s where others have 50", 25},
      {"errors", "dgx-h100", "nic.errors",
       [](Sick& s) { s.set("dgx09/nic:mlx5_3", "symbol_error", 4711); }, kWarning,
       "dgx09/nic:mlx5_3", "symbol_error"},
      {"oversubscribed", "dgx-h100", "fabric.oversubscribed",
       [](Sick& s) {
         s.set_link(graph::LinkKind::Fabric, "switch:compute-rail3-leaf1", "switch:compute-spine2",
                    graph::key::kCount, std::int64_t{4});
         s.set_link(graph::LinkKind::Fabric, "switch:compute-rail3-leaf1", "switch:compute-spine2",
                    graph::key::kBandwidth, 200.0);
       },
       kWarning, "switch:compute-rail3-leaf1", "1.14 times as much", 6.25},
      {"miscabled", "hgx-h200", "fabric.miscabled",
       [](Sick& s) {
         s.set("hgx05/nic:mlx5_3", graph::key::kRail, 4);
         s.set("hgx05/nic:mlx5_4", graph::key::kRail, 3);
       },
       kWarning, "hgx05/nic:mlx5_3", "2 NICs of hgx05: cabled to the leaf of another rail"},
      {"island", "dgx-h100", "fabric.island",
       [](Sick& s) {
         const graph::VertexIndex leaf = s.graph.find("switch:compute-rail2-leaf1");
         s.disconnect([&s, leaf](const graph::Link& link) {
           return link.kind == graph::LinkKind::Fabric && (link.a == leaf || link.b == leaf) &&
                  s.graph.vertex(link.a).kind == graph::Kind::FabricSwitch &&
                  s.graph.vertex(link.b).kind == graph::Kind::FabricSwitch;
         });
       },
       kError, "switch:compute-rail2-leaf1", "cut off"},
      {"no_gdr", "dgx-h100", "gdr.off",
       [](Sick& s) {
         s.set("dgx05", graph::key::kPeerMemory, graph::Value{std::string("none")});
         s.set("dgx06", graph::key::kPeerMemory, graph::Value{std::string("none")});
       },
       kError, "dgx05", "dgx[05-06]: GPUDirect RDMA is off", 322.6},
      {"no_module", "pcie-100gbe", "gdr.off",
       [](Sick& s) {
         s.hosts = {{"box03", std::nullopt, std::vector<std::string>{"nvidia", "mlx5_core"}}};
       },
       kError, "box03", "GPUDirect RDMA is off", 16.1},
      {"bond", "dgx-h100", "nic.mixed",
       [](Sick& s) {
         s.set_all(graph::Kind::Node, graph::key::kDriver, std::string("580"));
         for (const graph::VertexIndex node : s.graph.of_kind(graph::Kind::Node)) {
           const std::string id = s.graph.vertex(node).id + "/nic:mlx5_bond_0";
           s.graph.set(s.graph.add(graph::Kind::Nic, id, node), graph::key::kLinkLayer,
                       std::string("Ethernet"), s.source);
         }
       },
       kWarning, "dgx01/nic:mlx5_bond_0", "an Ethernet port among InfiniBand"},
  };
  return kFaults;
}

const std::vector<Fault>& node_faults() {
  static const std::vector<Fault> kFaults = {
      {"hca_prefix", "dgx-h100", "env.hca_prefix",
       [](Sick& s) {
         for (const graph::VertexIndex node : s.graph.of_kind(graph::Kind::Node)) {
           s.graph.add(graph::Kind::Nic, s.graph.vertex(node).id + "/nic:mlx5_10", node);
         }
         s.environment = {{"NCCL_IB_HCA", "mlx5_0,mlx5_1:1", "run.yaml"}};
       },
       kError, "NCCL_IB_HCA", "also takes mlx5_10"},
      {"vendors", "hgx-h200", "cpu.vendors",
       [](Sick& s) {
         s.set("hgx03/numa:0", graph::key::kVendor, graph::Value{std::string("GenuineIntel")});
         s.set("hgx03/numa:1", graph::key::kVendor, graph::Value{std::string("GenuineIntel")});
       },
       kError, "hgx03", "several makers"},
      {"generations", "hgx-h200", "gpu.generations",
       [](Sick& s) { s.set("hgx03/gpu#0", graph::key::kComputeCapability, 100); }, kWarning,
       "hgx01/gpu#0", "several generations"},
      {"lost_gpu", "dgx-h100", "node.differs", [](Sick& s) { s.remove("dgx08/gpu#7"); }, kWarning,
       "dgx08", "GPUs: 7 instead of 8"},
      {"lost_storage_nic", "dgx-h100", "node.differs",
       [](Sick& s) { s.remove("dgx08/nic:mlx5_8"); }, kWarning, "dgx08", "NICs: 9 instead of 10"},
      {"driver", "dgx-h100", "node.differs",
       [](Sick& s) {
         s.set_all(graph::Kind::Node, graph::key::kDriver, std::string("580.65"));
         s.set("dgx08", graph::key::kDriver, graph::Value{std::string("570.86")});
         s.set("dgx09", graph::key::kDriver, graph::Value{std::string("570.86")});
       },
       kWarning, "dgx08", "dgx[08-09]: differs"},
      {"cpuset", "dgx-h100", "cpu.set",
       [](Sick& s) {
         s.hosts = {{"dgx02", "0-55,112-167", std::nullopt}};
       },
       kWarning, "dgx02/gpu#4", "4 GPUs of dgx02: jobs may use none of the CPUs"},
      {"allowed_cpus", "dgx-h100", "cpu.set",
       [](Sick& s) {
         s.set("dgx02", "cpus_allowed", graph::Value{std::string("0-3")});
         s.set("dgx02/gpu#7", "local_cpus", graph::Value{std::string("2,168-223")});
       },
       kWarning, "dgx02/gpu#4", "3 GPUs of dgx02"},
      {"vendor_of_node", "gb200-nvl72", "cpu.vendors",
       [](Sick& s) {
         for (int i = 0; i < 2; ++i) {
           s.set("tray04/numa:" + std::to_string(i), graph::key::kVendor,
                 graph::Value{std::string()});
         }
         s.set("tray04", graph::key::kVendor, graph::Value{std::string("AuthenticAMD")});
       },
       kError, "tray04", "several makers"},
      {"conflict", "dgx-h100", "graph.conflict",
       [](Sick& s) {
         const auto xml = s.graph.add_source(graph::Source::NcclXml, "topo.xml");
         for (const char* id : {"dgx01/nic:mlx5_0", "dgx01/nic:mlx5_1"}) {
           s.graph.set(s.graph.find(id), graph::key::kSpeed, std::int64_t{200000}, xml);
         }
       },
       kWarning, "dgx01/nic:mlx5_0", "user and nccl-xml disagree on mbit_per_s of 2 parts"},
      {"file_too_large", "dgx-h100", "topology_file.too_large",
       [](Sick& s) {
         s.topology_files = {{"t.xml", "", 257, {}, {}}};
       },
       kError, "t.xml", "more elements"},
      {"file_masks", "dgx-h100", "topology_file.masks",
       [](Sick& s) {
         s.topology_files = {{"t.xml", "", 9, {}, {{"0", "ffff"}, {"1", "ffff"}}}};
       },
       kWarning, "t.xml", "NUMA domains 0 and 1 have the same CPUs"},
      {"file_bus_ids", "dgx-h100", "topology_file.bus_ids",
       [](Sick& s) {
         s.set("dgx01/gpu#0", graph::key::kBusId, graph::Value{std::string("0000:1b:00.0")});
         s.topology_files = {{"t.xml", "", 9, {"0000:1b:00.0", "0001:00:00.0"}, {}}};
       },
       kError, "t.xml", "devices that dgx01 has not"},
  };
  return kFaults;
}

Fault variable(const char* name, const char* variable, const char* value, const char* id,
               graph::Severity severity, const char* words, double lost = -1) {
  return {name,
          "dgx-h100",
          id,
          [variable, value](Sick& s) {
            s.environment = {{variable, value, "run.yaml slurm.environment"}};
          },
          severity,
          variable,
          words,
          lost};
}
std::vector<Fault> variable_faults() {
  return {
      variable("hca_unknown", "NCCL_IB_HCA", "=mlx5_0,mlx5_77", "env.hca_unknown", kError,
               "no node has mlx5_77"),
      variable("ib_disable", "NCCL_IB_DISABLE", "1", "env.leftover", kError, "TCP", 479.7),
      variable("p2p_disable", "NCCL_P2P_DISABLE", "1", "env.leftover", kError, "host memory", 387),
      variable("nvls", "NCCL_NVLS_ENABLE", "0", "env.leftover", kWarning, "370"),
      variable("socket", "NCCL_NET", "socket", "env.leftover", kError, "TCP", 479.7),
      variable("blocking", "CUDA_LAUNCH_BLOCKING", "1", "env.leftover", kError, "overlaps"),
      variable("gdr_level", "NCCL_NET_GDR_LEVEL", "LOC", "env.leftover", kError, "GPUDirect",
               322.6),
      variable("algo", "NCCL_ALGO", "Tree", "env.forced", kWarning, "one algorithm"),
      variable("algo_of_one", "NCCL_ALGO", "allreduce:tree", "env.forced", kWarning,
               "from NCCL 2.31 on the others may be left without any"),
      variable("ll128", "NCCL_PROTO", "LL128", "env.forced", kError, "may corrupt"),
      variable("not_ll128", "NCCL_PROTO", "^LL128", "env.forced", kWarning, "one protocol"),
      variable("channels", "NCCL_MAX_NCHANNELS", "4", "env.forced", kWarning, "limited"),
      variable("cross_nic", "NCCL_CROSS_NIC", "1", "env.cross_nic", kWarning, "rails"),
      variable("interface", "NCCL_SOCKET_IFNAME", "lo", "env.interface", kError, "other nodes"),
      variable("mistyped", "NCCL_IB_TIMEOUTS", "22", "env.unknown", kNote, "NCCL_IB_TIMEOUT meant"),
      variable("twice", "CUDA_VISIBLE_DEVICES", "0,1,1", "env.visible_devices", kError, "twice"),
      variable("no_such_gpu", "CUDA_VISIBLE_DEVICES", "0,8", "env.visible_devices", kError,
               "no GPU 8"),
  };
}

std::string name_of_row(const testing::TestParamInfo<Fault>& row) { return row.param.name; }
INSTANTIATE_TEST_SUITE_P(Pcie, Planted, testing::ValuesIn(pcie_faults()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Nvlink, Planted, testing::ValuesIn(nvlink_faults()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Network, Planted, testing::ValuesIn(network_faults()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Node, Planted, testing::ValuesIn(node_faults()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Variable, Planted, testing::ValuesIn(variable_faults()), name_of_row);

// What a virtual machine shows: eight GPUs and eight NICs in one heap.
Sick flat_machine() {
  Sick sick;
  sick.source = sick.graph.add_source(graph::Source::NvidiaSmi, "topo.txt");
  const graph::VertexIndex node = sick.graph.add(graph::Kind::Node, "vm");
  for (int i = 0; i < 8; ++i) {
    sick.graph.add(graph::Kind::Gpu, "vm/gpu#" + std::to_string(i), node);
    sick.graph.add(graph::Kind::Nic, "vm/nic:mlx5_" + std::to_string(i), node);
  }
  return sick;
}

TEST(Doctor, FlatMachines) {
  Sick sick = flat_machine();
  EXPECT_THAT(sick.findings(), IsEmpty()) << "nobody says that it is one";
  sick.set("vm", graph::key::kVirtual, 1);
  EXPECT_THAT(ids(sick.findings()), ElementsAre("vm.flat"));
  sick.environment = {{"NCCL_TOPO_FILE", "/etc/topo.xml", "x"}};
  EXPECT_THAT(sick.findings(), IsEmpty());
  sick = flat_machine();
  sick.set_all(graph::Kind::Nic, graph::key::kNuma, std::int64_t{-1});
  sick.set_all(graph::Kind::Nic, graph::key::kGdr, std::int64_t{0});
  EXPECT_THAT(ids(sick.findings()), ElementsAre("vm.flat"));
}

TEST(Doctor, ReadsNearnessFromAMatrix) {
  Sick sick = flat_machine();
  for (int gpu = 0; gpu < 8; ++gpu) {
    for (int nic = 0; nic < 8; ++nic) {
      const std::string key = graph::key::kPath + ("vm/nic:mlx5_" + std::to_string(nic));
      const char* path = gpu == 3 ? "NODE" : gpu == nic ? "PXB" : "SYS";
      sick.set("vm/gpu#" + std::to_string(gpu), key.c_str(), graph::Value{std::string(path)});
    }
  }
  const auto findings = sick.findings();
  ASSERT_THAT(ids(findings), ElementsAre("gpu.far_nic"));
  EXPECT_EQ(findings[0].subject, "vm/gpu#3");
}

TEST(Doctor, BridgesAreExpectedWhereOthersHaveThem) {
  const auto cluster = sources::parse_cluster(
      "nodes: {n: {count: 3, gpus: {model: NVIDIA H100 NVL, count: 4, nvlink: pairs}}}", "c");
  Sick sick{sources::cluster_graph(cluster), 0};
  sick.source = sick.graph.add_source(graph::Source::Nvml, "n02");
  EXPECT_THAT(sick.findings(), IsEmpty());
  sick.set("n02/gpu#2", graph::key::kNvlinks, 0);
  sick.set("n02/gpu#3", graph::key::kNvlinks, 0);
  // Nvml comes before what is derived.
  const auto findings = sick.findings();
  ASSERT_THAT(ids(findings), ElementsAre("nvlink.missing"));
  EXPECT_THAT(findings[0].words, HasSubstr("2 GPUs of n02: 12 of 12"));
}

TEST(Doctor, OversubscriptionByDesignIsANote) {
  sources::ClusterDescription cluster = example("dgx-h100");
  cluster.fabrics[0].oversubscription = 3;
  const auto findings = doctor::diagnose({sources::generate(cluster, 144)});
  ASSERT_THAT(ids(findings), ElementsAre("fabric.oversubscribed"));
  EXPECT_EQ(findings[0].severity, graph::Severity::Note);
  EXPECT_THAT(findings[0].words, HasSubstr("24 switches: 3 times"));
}

TEST(Doctor, SwappedCablesWithoutRailNumbers) {
  graph::Graph graph;
  const auto source = graph.add_source(graph::Source::Ibnetdiscover, "fabric");
  const graph::VertexIndex fabric = graph.add(graph::Kind::Fabric, "fabric:ib");
  for (int n = 0; n < 6; ++n) {
    const std::string host = "h" + std::to_string(n);
    const graph::VertexIndex node = graph.add(graph::Kind::Node, host);
    for (int i = 0; i < 2; ++i) {
      const graph::VertexIndex nic =
          graph.add(graph::Kind::Nic, host + "/nic:mlx5_" + std::to_string(i), node);
      const int leaf = n == 4 ? 1 - i : i;
      const auto link = graph.connect(
          graph::LinkKind::Fabric, nic,
          graph.add(graph::Kind::FabricSwitch, "switch:" + std::to_string(leaf), fabric));
      graph.set_link(link, graph::key::kBandwidth, 50.0, source);
    }
  }
  graph.connect(graph::LinkKind::Fabric, graph.find("switch:0"), graph.find("switch:1"));
  const auto findings = doctor::diagnose({graph});
  ASSERT_THAT(ids(findings), ElementsAre("fabric.miscabled"));
  EXPECT_THAT(findings[0].words, HasSubstr("2 NICs of h4"));
}

TEST(Doctor, WorstComesFirst) {
  Sick sick = healthy("dgx-h100");
  sick.environment = {
      {"NCCL_IB_TIMEOUTS", "22", "x"}, {"NCCL_ALGO", "Ring", "x"}, {"NCCL_IB_DISABLE", "1", "x"}};
  EXPECT_THAT(ids(sick.findings()), ElementsAre("env.leftover", "env.forced", "env.unknown"));
}

TEST(Doctor, AdvisesTheFormOfNcclAlgoThatLeavesNoCollectiveOut) {
  Sick sick = healthy("dgx-h100");
  for (const char* value : {"Tree", "allreduce:Tree"}) {
    sick.environment = {{"NCCL_ALGO", value, "x"}};
    EXPECT_THAT(sick.findings().front().remedy, HasSubstr("'ring,tree;allreduce:Tree'")) << value;
  }
  sick.environment = {{"NCCL_ALGO", "ring,tree;allreduce:Tree", "x"}};
  EXPECT_THAT(sick.findings().front().words, Not(HasSubstr("2.31")));
  EXPECT_THAT(sick.findings().front().remedy, Not(HasSubstr("NCCL_ALGO=")));
}

TEST(Doctor, TimeIsToldWithBandwidth) {
  Sick sick = healthy("dgx-h100");
  sick.set("dgx09/nic:mlx5_3", graph::key::kSpeed, 200000);
  const auto findings = sick.findings();
  ASSERT_THAT(findings, SizeIs(1));
  // 1.344 GB at 25 instead of 50 GB/s.
  EXPECT_NEAR(findings[0].cost_milliseconds.value_or(0), 26.9, 0.1);
}

TEST(Doctor, EveryCheckIsDocumentedAndHasAFault) {
  std::set<std::string> planted = {"vm.flat"};  // above
  for (const auto& faults :
       {pcie_faults(), nvlink_faults(), network_faults(), node_faults(), variable_faults()}) {
    for (const Fault& fault : faults) planted.insert(fault.id);
  }
  std::string before;
  for (const doctor::CheckInfo& check : doctor::list_checks()) {
    EXPECT_LT(before, check.id) << "in order, and once";
    before = check.id;
    EXPECT_EQ(planted.count(check.id), 1U) << check.id << " has no planted fault";
    for (const char* text : {check.what, check.why, check.remedy}) {
      EXPECT_THAT(std::string(text), Not(IsEmpty())) << check.id;
    }
    planted.erase(check.id);
  }
  EXPECT_THAT(planted, IsEmpty()) << "checks that are in no list";
}

}  // namespace
}  // namespace regatta::topology
