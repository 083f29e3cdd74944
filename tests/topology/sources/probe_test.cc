// A machine that is made of files, a library that plays NVML, and what a capture makes of them.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "tests/shared_data.h"
#include "topology/doctor/doctor.h"
#include "topology/graph/figures.h"
#include "topology/sources/collect.h"
#include "topology/sources/nvml.h"
#include "topology/sources/pci_config.h"
#include "topology/sources/sysfs.h"

namespace regatta::topology {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/regatta-probe-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// Two sockets; on the first a PCIe switch with a GPU and an HCA, on the second a GPU at a root port
// and an Ethernet card that is trained down.
class Machine {
 public:
  explicit Machine(fs::path root) : root_(std::move(root)) {
    write("/proc/cpuinfo",
          "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: fpu sse\n\n"
          "processor\t: 1\nvendor_id\t: Other\n");
    write("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\nMems_allowed:\t1\n");
    write("/proc/modules", "nvidia_peermem 16384 0 - Live 0x0\nnvidia 1 1 - Live 0x0\n");
    write("/sys/devices/system/node/node0/cpulist", "0-1\n");
    write("/sys/devices/system/node/node1/cpulist", "2-3\n");
    write("/sys/devices/system/node/possible", "0-1\n");
    const std::string one = "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/";
    device(one + "0000:1b:00.0", "0x030200", 0, "32.0 GT/s PCIe", "16");
    device("/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:1c:00.0",
           "0x020700", 0, "32.0 GT/s PCIe", "16");
    device("/sys/devices/pci0000:20/0000:20:01.0/0000:2b:00.0", "0x030200", 1, "32.0 GT/s PCIe",
           "16");
    device("/sys/devices/pci0000:20/0000:20:02.0/0000:2d:00.0", "0x020000", 1, "8.0 GT/s PCIe",
           "4");
    for (const char* bridge : {"/sys/devices/pci0000:10/0000:10:01.0",
                               "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"}) {
      device(bridge, "0x060400", 0, "32.0 GT/s PCIe", "16");
    }
    const std::string hca = "/sys/class/infiniband/mlx5_0";
    link(hca + "/device",
         "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:1c:00.0");
    write(hca + "/hca_type", "MT4129\n");
    write(hca + "/ports/1/state", "4: ACTIVE\n");
    write(hca + "/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    write(hca + "/ports/1/link_layer", "InfiniBand\n");
    write(hca + "/ports/1/counters/symbol_error", "12\n");
    link("/sys/class/net/eth0/device", "/sys/devices/pci0000:20/0000:20:02.0/0000:2d:00.0");
    write("/sys/class/net/eth0/speed", "25000\n");
    write("/sys/class/net/eth0/operstate", "up\n");
    write("/sys/class/net/lo/operstate", "unknown\n");
  }

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = root_ / fs::path(path).relative_path();
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

 private:
  void link(const std::string& path, const std::string& target) const {
    const fs::path from = root_ / fs::path(path).relative_path();
    fs::create_directories(from.parent_path());
    fs::create_symlink(root_ / fs::path(target).relative_path(), from);
  }
  void device(const std::string& path, const std::string& type, int numa, const std::string& speed,
              const std::string& width) const {
    write(path + "/class", type + "\n");
    write(path + "/vendor", type.rfind("0x03", 0) == 0 ? "0x10de\n" : "0x15b3\n");
    write(path + "/numa_node", std::to_string(numa) + "\n");
    write(path + "/current_link_speed", speed + "\n");
    write(path + "/max_link_speed", "32.0 GT/s PCIe\n");
    write(path + "/current_link_width", width + "\n");
    write(path + "/max_link_width", "16\n");
    const std::string bus = path.substr(path.rfind('/') + 1);
    link("/sys/bus/pci/devices/" + bus, path);
  }

  fs::path root_;
};

sources::CollectOptions options_for(const fs::path& root) {
  sources::CollectOptions options;
  options.root = root;
  options.host = "n1";
  return options;
}

class ProbeTest : public testing::Test {
 protected:
  sources::Capture take(const sources::CollectOptions& options) {
    return sources::collect(options, base::system_clock());
  }
  std::string parent(const graph::Graph& graph, const std::string& id) {
    const graph::VertexIndex vertex = graph.find(id);
    if (vertex == graph::kNoVertex) return "(no " + id + ")";
    const graph::VertexIndex above = graph.vertex(vertex).parent;
    return above == graph::kNoVertex ? "" : graph.vertex(above).id;
  }
  const std::vector<graph::Fact>& facts(const graph::Graph& graph, const std::string& id) {
    return graph.vertex(graph.find(id)).facts;
  }

  TemporaryDirectory folder_;
};

TEST_F(ProbeTest, ReadsTheTreeOfAMachine) {
  const Machine machine(folder_.path());
  const sources::Capture capture = take(options_for(folder_.path()));
  const graph::Graph graph = sources::read_sysfs(capture);
  EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(2));
  EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(2));
  EXPECT_THAT(graph.of_kind(graph::Kind::Numa), SizeIs(2));
  EXPECT_EQ(parent(graph, "n1/gpu:0000:1b:00.0"), "n1/pci:0000:11:00.0");
  EXPECT_EQ(parent(graph, "n1/nic:mlx5_0"), "n1/pci:0000:11:00.0") << "beside its GPU";
  EXPECT_EQ(parent(graph, "n1/pci:0000:11:00.0"), "n1/numa:0");
  EXPECT_EQ(parent(graph, "n1/gpu:0000:2b:00.0"), "n1/numa:1") << "a root port is not a switch";
  EXPECT_EQ(parent(graph, "n1/nic:eth0"), "n1/numa:1");
  EXPECT_EQ(graph::text_of(graph, facts(graph, "n1"), graph::key::kVendor), "GenuineIntel");
  EXPECT_EQ(graph::text_of(graph, facts(graph, "n1"), "cpus_allowed"), "0-3");
  EXPECT_EQ(graph::integer_of(graph, facts(graph, "n1"), "peermem"), 1);
  EXPECT_FALSE(graph::integer_of(graph, facts(graph, "n1"), graph::key::kVirtual));
  const auto& hca = facts(graph, "n1/nic:mlx5_0");
  EXPECT_EQ(graph::integer_of(graph, hca, graph::key::kSpeed), 400000);
  EXPECT_EQ(graph::text_of(graph, hca, graph::key::kState), "active");
  EXPECT_EQ(graph::integer_of(graph, hca, "symbol_error"), 12);
  const auto& card = facts(graph, "n1/nic:eth0");
  EXPECT_EQ(graph::integer_of(graph, card, graph::key::kPcieWidth), 4);
  EXPECT_EQ(graph::integer_of(graph, card, graph::key::kPcieMaxWidth), 16);
  EXPECT_EQ(graph::integer_of(graph, card, graph::key::kSpeed), 25000);
  const auto link = graph.find_link(graph::LinkKind::Pcie, graph.find("n1/gpu:0000:2b:00.0"),
                                    graph.find("n1/numa:1"));
  ASSERT_TRUE(link);
  // 32 GT/s × 16 lanes × 128/130 / 8 bits
  EXPECT_NEAR(*graph::number_of(graph, graph.links()[*link].facts, graph::key::kBandwidth), 63.02,
              0.01);
}

// Configuration space with these extended capabilities: where, which, and the word after the
// header.
struct Capability {
  std::size_t at;
  std::uint16_t id;
  std::uint32_t word;
  std::size_t next;
};
std::string config_space(const std::vector<Capability>& capabilities, std::size_t bytes = 4096) {
  std::string config(bytes, '\0');
  const auto put = [&](std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) config.at(at + i) = static_cast<char>(value >> 8 * i);
  };
  for (const Capability& each : capabilities) {
    put(each.at, each.id | 1U << 16 | static_cast<std::uint32_t>(each.next) << 20);
    put(each.at + 4, each.word);
  }
  return config;
}
constexpr std::uint16_t kErrors = 0x0001, kAccess = 0x000D;  // AER, ACS
constexpr std::uint32_t kRedirecting = 0x001D005FU;          // control 0x1D: V, R, C, U

struct AccessControlRow {
  const char* name;
  std::string config;
  std::optional<std::uint16_t> control;
};
TEST(AccessControl, IsFoundInConfigurationSpace) {
  const std::vector<AccessControlRow> rows{
      {"unread", "", std::nullopt},
      {"not by root", std::string(64, '\xff'), std::nullopt},
      {"cut off", config_space({{0x100, kAccess, kRedirecting, 0}}, 1024), std::nullopt},
      {"no PCI Express", std::string(256, '\xff'), 0},
      {"none", config_space({}), 0},
      {"another", config_space({{0x100, kErrors, kRedirecting, 0}}), 0},
      {"first", config_space({{0x100, kAccess, kRedirecting, 0}}), 0x1D},
      {"off", config_space({{0x100, kAccess, 0x0000005FU, 0}}), 0},
      {"last",
       config_space({{0x100, kErrors, 0, 0x148},
                     {0x148, 0x19, 0, 0xFF8},
                     {0xFF8, kAccess, kRedirecting, 0}}),
       0x1D},
      {"circle", config_space({{0x100, kErrors, 0, 0x148}, {0x148, 0x19, 0, 0x100}}), 0},
      {"pointer to the header", config_space({{0x100, kErrors, 0, 0x40}}), 0},
      {"no device any more", std::string(4096, '\xff'), 0}};
  for (const AccessControlRow& row : rows) {
    EXPECT_EQ(sources::acs_control(row.config), row.control) << row.name;
  }
  EXPECT_TRUE(sources::redirects(0x1D) && sources::redirects(0x04) && sources::redirects(0x08));
  EXPECT_FALSE(sources::redirects(0x00) || sources::redirects(0x01) || sources::redirects(0x10))
      << "nothing is sent up";
}

class SwitchPortsTest : public ProbeTest {
 protected:
  SwitchPortsTest() {
    for (const char* port : {"0000:12:00.0", "0000:12:01.0"}) {
      machine_.write(below_ + port + "/class", "0x060400\n");
    }
  }
  void give(const std::string& port, const std::string& config) {
    machine_.write(below_ + port + "/config", config);
  }
  Machine machine_{folder_.path()};
  const std::string below_ = "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/";
};

TEST_F(SwitchPortsTest, ThatRedirectAreNamed) {
  give("0000:12:00.0", config_space({{0x100, kAccess, 0, 0}}));
  give("0000:12:01.0", config_space({{0x100, kAccess, kRedirecting, 0}}));
  const sources::Capture capture = take(options_for(folder_.path()));
  const graph::Graph graph =
      sources::read_sysfs(sources::parse_capture(sources::to_json(capture), "c.json"));
  EXPECT_EQ(graph::integer_of(graph, facts(graph, "n1/pci:0000:11:00.0"), graph::key::kAcs), 1);
  EXPECT_EQ(graph::text_of(graph, facts(graph, "n1/pci:0000:11:00.0"), graph::key::kAcsPorts),
            "0000:12:01.0");
  EXPECT_THAT(capture.notes, IsEmpty());
  const std::vector<graph::Finding> findings = doctor::diagnose({graph});
  const auto acs =
      std::find_if(findings.begin(), findings.end(),
                   [](const graph::Finding& finding) { return finding.id == "pcie.acs"; });
  ASSERT_NE(acs, findings.end());
  ASSERT_THAT(acs->evidence, SizeIs(1));
  EXPECT_EQ(acs->evidence[0].value, "0000:12:01.0");
}

TEST_F(SwitchPortsTest, ThatDoNotRedirectAreNoFinding) {
  give("0000:12:00.0", config_space({}));
  give("0000:12:01.0", config_space({{0x100, kAccess, 0x0001005FU, 0}}));
  const graph::Graph graph = sources::read_sysfs(take(options_for(folder_.path())));
  EXPECT_EQ(graph::integer_of(graph, facts(graph, "n1/pci:0000:11:00.0"), graph::key::kAcs), 0);
  for (const graph::Finding& finding : doctor::diagnose({graph})) EXPECT_NE(finding.id, "pcie.acs");
}

TEST_F(SwitchPortsTest, ThatOnlyRootMayReadAreANote) {
  give("0000:12:00.0", std::string(64, '\0'));
  const sources::Capture capture = take(options_for(folder_.path()));
  EXPECT_THAT(capture.notes, ElementsAre(HasSubstr("0000:12:00.0/config")));
  const graph::Graph graph = sources::read_sysfs(capture);
  EXPECT_FALSE(graph::integer_of(graph, facts(graph, "n1/pci:0000:11:00.0"), graph::key::kAcs));
}

TEST_F(ProbeTest, KeepsOfTheEnvironmentWhatMatters) {
  sources::CollectOptions options = options_for(folder_.path());
  options.environment = {{"NCCL_ALGO", "Ring"}, {"AWS_SECRET", "x"}, {"CUDA_VISIBLE_DEVICES", "0"}};
  const sources::Capture capture = take(options);
  EXPECT_THAT(capture.environment, SizeIs(2));
  EXPECT_EQ(capture.environment.count("AWS_SECRET"), 0U);
}

TEST_F(ProbeTest, AnEmptyMachineIsANode) {
  const sources::Capture capture = take(options_for(folder_.path()));
  const sources::Replayed replayed = sources::replay(capture);
  EXPECT_THAT(replayed.graph.vertices(), SizeIs(1));
  EXPECT_THAT(replayed.findings, IsEmpty());
}

TEST_F(ProbeTest, ACaptureIsReadBackAsItWas) {
  const Machine machine(folder_.path());
  sources::Capture capture = take(options_for(folder_.path()));
  capture.notes = {"no NVML: \x1b[1mnot there"};
  capture.commands["nvidia-smi topo -m"] = {9, true, "half a line\xff"};
  const sources::Capture back = sources::parse_capture(sources::to_json(capture), "c.json");
  EXPECT_EQ(sources::to_json(back), sources::to_json(capture));
  EXPECT_EQ(graph::to_json(sources::replay(back).graph),
            graph::to_json(sources::replay(capture).graph));
}

TEST(BadCapture, IsRefused) {
  for (const char* text :
       {"", "[]", "{}", R"({"regatta_capture": 2})", R"({"regatta_capture": 1})",
        R"({"regatta_capture": 1, "host": ""})", R"({"regatta_capture": 1, "host": "n"})",
        R"({"regatta_capture": 1, "host": "n", "taken_utc": "x"})",
        R"({"regatta_capture": 1, "host": "n", "taken_utc": 1, "files": []})",
        R"({"regatta_capture": 1, "host": "n", "taken_utc": 1, "files": {"a": 1}})",
        R"({"regatta_capture": 1, "host": "n", "taken_utc": 1, "notes": {}})",
        R"({"regatta_capture": 1, "host": "n", "taken_utc": 1, "commands": {"x": 1}})",
        R"({"regatta_capture": 1, "host": "n", "taken_utc": 1, "commands": {"x":)"
        R"( {"text": "", "exit_code": "a"}}})"}) {
    EXPECT_THROW((void)sources::parse_capture(text, "c.json"), base::Error) << text;
  }
  EXPECT_NO_THROW(
      (void)sources::parse_capture(R"({"regatta_capture": 1, "host": "n", "taken_utc": 1})", ""));
}

class NvmlTest : public ProbeTest {
 protected:
  sources::CollectOptions options() {
    sources::CollectOptions options = options_for(folder_.path());
    options.nvml_child = {NVML_CHILD, library_};
    options.nvml_seconds = 60;
    options.command_seconds = 60;
    return options;
  }
  std::string library_ = FAKE_NVML;
};

TEST_F(NvmlTest, TellsGpusAndTheirLinks) {
  const Machine machine(folder_.path());
  const sources::Capture capture = take(options());
  const sources::Replayed replayed = sources::replay(capture);
  const graph::Graph& graph = replayed.graph;
  EXPECT_THAT(graph.of_kind(graph::Kind::Gpu), SizeIs(2)) << "those of sysfs";
  const auto& gpu = facts(graph, "n1/gpu:0000:1b:00.0");
  EXPECT_EQ(graph::text_of(graph, gpu, graph::key::kModel), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(graph::integer_of(graph, gpu, graph::key::kComputeCapability), 90);
  EXPECT_EQ(graph::integer_of(graph, gpu, graph::key::kNvlinks), 18);
  EXPECT_EQ(graph::text_of(graph, gpu, graph::key::kFabricState), "completed");
  EXPECT_EQ(parent(graph, "n1/gpu:0000:1b:00.0"), "n1/pci:0000:11:00.0");
  EXPECT_EQ(graph::integer_of(graph, facts(graph, "n1/gpu:0000:2b:00.0"), graph::key::kNvlinksDown),
            1);
  const auto link = graph.find_link(graph::LinkKind::NvLink, graph.find("n1/gpu:0000:1b:00.0"),
                                    graph.find("n1/nvswitch:0000:c1:00.0"));
  ASSERT_TRUE(link);
  const auto& link_facts = graph.links()[*link].facts;
  EXPECT_EQ(graph::integer_of(graph, link_facts, graph::key::kCount), 18);
  EXPECT_NEAR(*graph::number_of(graph, link_facts, graph::key::kBandwidth), 18 * 26.562, 0.01);
  EXPECT_THAT(graph.of_kind(graph::Kind::NvlinkDomain), SizeIs(1));
  for (const graph::Finding& finding : replayed.findings) ADD_FAILURE() << finding.words;
}

// The GPUs' links run with 1 of 5 generations, as every idle GPU's do.
TEST_F(NvmlTest, ASlowLinkIsAFindingWhereTheGpuIsAtWork) {
  const auto slow = [this] {
    const sources::Replayed replayed = sources::replay(take(options()));
    std::vector<std::string> words;
    for (const graph::Finding& finding : doctor::diagnose({replayed.graph})) {
      if (finding.id == "pcie.speed") words.push_back(finding.words);
    }
    return words;
  };
  EXPECT_THAT(slow(), IsEmpty());
  const Variable busy("FAKE_NVML_BUSY", "1");
  EXPECT_THAT(slow(), ElementsAre(HasSubstr("2.5 GT/s instead of 32 GT/s")));
}

TEST_F(NvmlTest, ACallThatHangsIsAFindingAndTheOthersAreTold) {
  const Variable hang("FAKE_NVML_HANG", "nvmlDeviceGetGpuFabricInfoV:1");
  sources::CollectOptions short_of_time = options();
  sources::Replayed replayed;
  // What hangs hangs for ever; on a busy machine the other calls may need more than two seconds.
  for (const double seconds : {2.0, 10.0, 40.0}) {
    short_of_time.nvml_seconds = seconds;
    replayed = sources::replay(take(short_of_time));
    if (replayed.findings.size() == 1) break;
  }
  ASSERT_THAT(replayed.findings, SizeIs(1));
  EXPECT_EQ(replayed.findings[0].id, "capture.timed_out");
  EXPECT_THAT(replayed.findings[0].words, HasSubstr("nvmlDeviceGetGpuFabricInfoV(1)"));
  const graph::Graph& graph = replayed.graph;
  EXPECT_EQ(graph::integer_of(graph, facts(graph, "n1/gpu:0000:2b:00.0"), graph::key::kNvlinks),
            17);
  EXPECT_EQ(graph::text_of(graph, facts(graph, "n1/gpu:0000:1b:00.0"), graph::key::kFabricState),
            "completed");
}

TEST_F(NvmlTest, NoLibraryIsANote) {
  library_ = "libnvidia-ml-that-is-not-there.so.1";
  const sources::Capture capture = take(options());
  EXPECT_THAT(capture.nvml, IsEmpty());
  EXPECT_THAT(capture.notes, ElementsAre(HasSubstr("no NVML: ")));
  EXPECT_THAT(capture.commands, IsEmpty()) << "nvidia-smi would know no more";
}

TEST_F(NvmlTest, NoDriverIsANote) {
  const Variable fail("FAKE_NVML_FAIL", "9");
  const sources::Capture capture = take(options());
  EXPECT_THAT(capture.notes, Contains(HasSubstr("NVML ended early")));
  EXPECT_THAT(sources::replay(capture).graph.of_kind(graph::Kind::Gpu), IsEmpty());
}

TEST(ReadNvml, PassesOverWhatIsNotOfTheFormat) {
  const std::string end = R"({"end": ")";
  for (const std::string& lines :
       {std::string(), std::string("garbage"), std::string("{}"), std::string(R"({"end": 5})"),
        end + "x(\"}", end + "x(1\", \"code\": 0}",
        end + "nvmlDeviceGetName(-1)\", \"code\": 0, \"value\": \"a\"}",
        end + "nvmlDeviceGetName(99999999999999999999)\", \"code\": 0}",
        end + "nvmlDeviceGetNvLinkState(0,1000)\", \"code\": 0, \"value\": 1}",
        end + "nvmlDeviceGetGpuFabricInfoV(0)\", \"code\": 0, \"value\": {\"state\": \"x\"}}",
        end + "nvmlDeviceGetGpuFabricInfoV(0)\", \"code\": 0, \"value\": {\"state\": 99}}"}) {
    EXPECT_NO_THROW((void)sources::read_nvml(lines, "n1")) << lines;
  }
}

struct Chain {
  const char* path;
  std::vector<sources::PciSwitchPorts> switches;
};
TEST(SwitchesAbove, AreEveryOtherBridge) {
  const std::vector<Chain> rows{
      {"", {}},
      {"/sys/devices/pci0000:10/0000:1b:00.0", {}},
      {"/sys/devices/pci0000:10/0000:10:01.0/0000:1b:00.0", {}},
      {"/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:1b:00.0",
       {{"0000:11:00.0", "0000:12:00.0"}}},
      {"/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:00.0/"
       "0000:1b:00.0",
       {{"0000:11:00.0", "0000:12:00.0"}, {"0000:13:00.0", "0000:14:00.0"}}}};
  for (const Chain& row : rows)
    EXPECT_EQ(sources::switches_above(row.path), row.switches) << row.path;
}

TEST(PcieRate, FollowsTheLineCode) {
  EXPECT_NEAR(graph::pcie_gb_per_s(2.5, 16), 4, 1e-9);
  EXPECT_NEAR(graph::pcie_gb_per_s(8, 16), 15.75, 0.01);
  EXPECT_NEAR(graph::pcie_gb_per_s(32, 16), 63.02, 0.01);
  EXPECT_NEAR(graph::pcie_gb_per_s(64, 16), 121, 1e-9);
  EXPECT_EQ(graph::pcie_gb_per_s(0, 16), 0);
}

// The HCAs of a real machine; its files lack the links to PCIe devices.
TEST(SharedSysfs, HcasOfAnH100Machine) {
  REGATTA_NEED_SHARED("topologies/sysfs/sys-class-infiniband-h100.0")
  TemporaryDirectory folder;
  fs::create_directories(folder.path() / "sys/class");
  fs::copy(tests::shared_path("topologies/sysfs/sys-class-infiniband-h100.0"),
           folder.path() / "sys/class/infiniband", fs::copy_options::recursive);
  sources::CollectOptions options;
  options.root = folder.path();
  options.host = "h100";
  const graph::Graph graph = sources::read_sysfs(sources::collect(options, base::system_clock()));
  EXPECT_THAT(graph.of_kind(graph::Kind::Nic), SizeIs(9));
  int fast = 0;
  for (const graph::VertexIndex nic : graph.of_kind(graph::Kind::Nic)) {
    fast += graph::integer_of(graph, graph.vertex(nic).facts, graph::key::kSpeed) == 400000 ? 1 : 0;
  }
  EXPECT_EQ(fast, 8);
}

// This machine, whatever it is.
TEST(Live, CollectsWithoutTrouble) {
  sources::CollectOptions options;
  options.host = "here";
  const sources::Replayed replayed =
      sources::replay(sources::collect(options, base::system_clock()));
  EXPECT_THAT(replayed.graph.of_kind(graph::Kind::Node), SizeIs(1));
  EXPECT_THAT(replayed.graph.of_kind(graph::Kind::Numa), testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace regatta::topology
