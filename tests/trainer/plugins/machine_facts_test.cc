// What is read of a machine, of small made-up /proc and /sys trees.
#include "trainer/plugins/machine_facts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/base/faulty_file_system.h"
#include "trainer/plugins/machine_files.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using Json = nlohmann::ordered_json;
using Files = std::map<std::string, std::string>;

// A root with these files.
class Tree {
 public:
  explicit Tree(const Files& files) {
    for (const auto& [path, text] : files) {
      const base::Path full = folder_.path() / base::Path(path).relative_path();
      std::filesystem::create_directories(full.parent_path());
      std::ofstream(full, std::ios::binary) << text;
    }
  }
  [[nodiscard]] plugins::MachineFiles machine() const {
    return plugins::MachineFiles(base::posix_file_system(), folder_.path());
  }

 private:
  TemporaryDirectory folder_;
};

Json facts_of(const Files& files) { return plugins::machine_facts(Tree(files).machine()); }

std::string processor(int number, int socket, int core, const std::string& mhz) {
  return "processor\t: " + std::to_string(number) +
         "\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
         "model name\t: Xeon of the Test @ 2.00GHz\nstepping\t: 8\nmicrocode\t: 0x2b000571\n"
         "cpu MHz\t\t: " +
         mhz + "\nphysical id\t: " + std::to_string(socket) +
         "\ncore id\t\t: " + std::to_string(core) +
         "\nflags\t\t: fpu sse sse2 avx avx2 avx512f fma amx_bf16 smep hypervisor rdtscp\n\n";
}

// Two sockets of one core with two threads each.
Files two_sockets() {
  Files files{
      {"/proc/cpuinfo", processor(0, 0, 0, "2000.5") + processor(1, 0, 0, "1000") +
                            processor(2, 1, 0, "3000") + processor(3, 1, 0, "2000.5")},
      {"/proc/meminfo", "MemTotal:       16384 kB\nMemFree:  12 kB\n"},
      {"/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,3\n"},
      {"/proc/sys/kernel/ostype", "Linux\n"},
      {"/proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"},
      {"/proc/pressure/cpu", "some avg10=12.34 avg60=1.00 avg300=0.10 total=99\n"},
      {"/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"},
      {"/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
      {"/sys/kernel/mm/transparent_hugepage/defrag", "always defer [never]\n"},
      {"/sys/class/dmi/id/sys_vendor", "Test Inc.\n"},
      {"/sys/class/dmi/id/product_name", "Box 1\n"},
      {"/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"},
      {"/sys/devices/system/node/node0/cpulist", "0-1\n"},
      {"/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        8192 kB\n"},
      {"/sys/devices/system/node/node1/cpulist", "2-3\n"},
  };
  const std::string processors = "/sys/devices/system/cpu/cpu";
  for (int i = 0; i < 4; ++i) {
    const std::string folder = processors + std::to_string(i);
    files[folder + "/cpufreq/scaling_driver"] = "intel_pstate\n";
    files[folder + "/cpufreq/scaling_governor"] = i == 3 ? "performance\n" : "powersave\n";
    files[folder + "/cpufreq/scaling_min_freq"] = "800000\n";
    files[folder + "/topology/physical_package_id"] = std::to_string(i / 2);
    files[folder + "/topology/core_id"] = "0\n";
    files[folder + "/thermal_throttle/core_throttle_count"] = std::to_string(10 + i / 2);
    files[folder + "/thermal_throttle/package_throttle_count"] = std::to_string(100 + i / 2);
  }
  const std::string caches = processors + "0/cache/index";
  files[caches + "0/level"] = "1\n";
  files[caches + "0/type"] = "Data\n";
  files[caches + "0/size"] = "48K\n";
  files[caches + "0/shared_cpu_list"] = "0-1\n";
  files[caches + "10/level"] = "3\n";
  files[caches + "10/size"] = "2M\n";
  return files;
}

TEST(MachineFacts, AreThoseOfTheKernel) {
  const Json expected = Json::parse(R"json({
    "processor": {"name": "Xeon of the Test @ 2.00GHz", "vendor": "GenuineIntel", "family": "6",
                  "model": "143", "stepping": "8", "microcode": "0x2b000571"},
    "sockets": 2, "cores": 2, "threads": 4, "usable_threads": 3,
    "instruction_sets": ["amx_bf16", "avx", "avx2", "avx512f", "fma", "sse", "sse2"],
    "hypervisor": true,
    "caches": [{"level": 1, "type": "Data", "bytes": 49152, "threads": 2},
               {"level": 3, "bytes": 2097152}],
    "numa_nodes": [{"node": "node0", "threads": 2, "bytes": 8388608},
                   {"node": "node1", "threads": 2}],
    "frequency": {"driver": "intel_pstate", "governor": ["performance", "powersave"],
                  "minimum_khz": 800000, "turbo": false},
    "memory_bytes": 16777216,
    "huge_pages": {"enabled": "madvise", "defrag": "never"},
    "kernel": "Linux 6.1.0-13-amd64",
    "operating_system": "Debian GNU/Linux 12 (bookworm)",
    "product": "Test Inc. Box 1"})json");
  EXPECT_EQ(facts_of(two_sockets()).dump(2), expected.dump(2));
}

TEST(MachineFacts, AreAbsentWhereNothingTellsThem) {
  EXPECT_EQ(facts_of({}).dump(), "{}");
  EXPECT_EQ(plugins::clocks_now(Tree(Files{}).machine()).dump(), "{}");
  // What cannot be is as absent as what is not there.
  EXPECT_EQ(facts_of({{"/proc/cpuinfo", "no colon\n\xff\xfe"},
                      {"/proc/meminfo", "MemTotal: much kB\n"},
                      {"/proc/self/status", "Cpus_allowed_list:\t3-1\n"},
                      {"/proc/self/cgroup", "0::/job\n:\n"},
                      {"/sys/fs/cgroup/job/cpu.max", "0 0\n"},
                      {"/sys/fs/cgroup/job/memory.max", "-5\n"},
                      {"/sys/kernel/mm/transparent_hugepage/enabled", "] always [\n"}})
                .dump(),
            "{}");
}

TEST(MachineFacts, OfArmHaveNumbersInPlaceOfNames) {
  const std::string one =
      "processor\t: 0\nFeatures\t: fp asimd sve2 crc32 bf16\nCPU implementer\t: 0x41\n"
      "CPU part\t: 0xd4f\n\n";
  std::string other = one;
  other.replace(other.find(": 0\n"), 4, ": 1\n").replace(other.find(" bf16"), 5, "");
  const Json facts = facts_of({{"/proc/cpuinfo", one + other}});
  EXPECT_EQ(facts["processor"].dump(), R"({"implementer":"0x41","part":"0xd4f"})");
  EXPECT_EQ(facts["threads"], 2);
  EXPECT_EQ(facts["instruction_sets"].dump(), R"(["asimd","sve2"])") << "what both have";
  EXPECT_FALSE(facts.contains("sockets"));
  EXPECT_FALSE(facts.contains("cores"));
  EXPECT_EQ(facts["hypervisor"], false);
}

TEST(MachineFacts, HaveTheTightestLimitOfTheGroups) {
  struct Row {
    const char* what;
    Files files;
    std::string expected;
  };
  const std::string root = "/sys/fs/cgroup";
  const std::vector<Row> rows{
      {"no group", {}, "{}"},
      {"version 2",
       {{"/proc/self/cgroup", "0::/job/step\n"},
        {root + "/job/step/cpu.max", "150000 100000\n"},
        {root + "/job/step/memory.max", "4096000\n"}},
       R"({"processors":1.5,"memory_bytes":4096000})"},
      {"version 2, the group above is tighter",
       {{"/proc/self/cgroup", "0::/job/step\n"},
        {root + "/job/step/cpu.max", "max 100000\n"},
        {root + "/job/step/memory.max", "max\n"},
        {root + "/job/cpu.max", "50000 100000\n"},
        {root + "/job/memory.max", "4096\n"}},
       R"({"processors":0.5,"memory_bytes":4096})"},
      {"version 2, a container's own root",
       {{"/proc/self/cgroup", "0::/\n"}, {root + "/cpu.max", "200000 100000\n"}},
       R"({"processors":2.0})"},
      {"version 1, no limits",
       {{"/proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n"},
        {root + "/memory/a/memory.limit_in_bytes", "9223372036854771712\n"},
        {root + "/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"},
        {root + "/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
       "{}"},
      {"version 1",
       {{"/proc/self/cgroup", "4:memory:/a/b\n3:cpu,cpuacct:/a/b\n"},
        {root + "/memory/a/memory.limit_in_bytes", "8192\n"},
        {root + "/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n"},
        {root + "/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
       R"({"processors":2.5,"memory_bytes":8192})"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    EXPECT_EQ(plugins::group_limits(Tree(row.files).machine()).dump(), row.expected);
    const Json facts = facts_of(row.files);
    EXPECT_EQ(facts.contains("limits") ? facts["limits"].dump() : "{}", row.expected);
  }
}

TEST(MachineFacts, KnowAContainerByItsMarks) {
  struct Row {
    Files files;
    std::string expected;
  };
  const std::vector<Row> rows{
      {{{"/.dockerenv", ""}}, "docker"},
      {{{"/run/.containerenv", ""}}, "podman"},
      {{{"/.singularity.d/runscript", ""}}, "apptainer"},
      {{{"/proc/self/cgroup", "0::/kubepods/besteffort/pod1\n"}}, "kubernetes"},
      {{{"/proc/self/cgroup", "0::/system.slice/ssh.service\n"}}, ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(facts_of(row.files).value("container", ""), row.expected);
  }
}

TEST(MachineFacts, ClocksAreMeasuredNow) {
  const Files files = two_sockets();
  const Json now = plugins::clocks_now(Tree(files).machine());
  // (2000.5 + 1000 + 3000 + 2000.5) / 4; two cores with 10 and 11, two packages with 100 and 101.
  EXPECT_EQ(now.dump(), R"({"mean_mhz":2000.25,"throttled":{"core_throttle_count":21,)"
                        R"("package_throttle_count":201},"processor_pressure":12.34})");
  Files later = files;
  later["/sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count"] = "15";
  EXPECT_EQ(plugins::throttled_between(now, plugins::clocks_now(Tree(later).machine())).dump(),
            R"({"core_throttle_count":4,"package_throttle_count":0})");
  EXPECT_EQ(plugins::throttled_between(Json::object(), now).dump(), "{}");

  // Nanoseconds that a thread ran and waited, and how often it ran: 3 and 2 s, then 6 and 3 s.
  EXPECT_EQ(plugins::waited_between(now, now), std::nullopt);
  const auto threads = [&](const std::string& one, const std::string& other) {
    Files with = files;
    with["/proc/self/task/7/schedstat"] = one;
    with["/proc/self/task/12/schedstat"] = other;
    return plugins::clocks_now(Tree(with).machine());
  };
  const Json first = threads("1000000000 500000000 3", "2000000000 1500000000 4\n");
  EXPECT_EQ(first["threads"].dump(), R"({"ran_seconds":3.0,"waited_seconds":2.0})");
  const Json second = threads("4000000000 500000000 3", "2000000000 2500000000 4\n");
  EXPECT_EQ(plugins::waited_between(first, second), 100.0 * 1 / (3 + 1));
  EXPECT_EQ(plugins::waited_between(second, first), std::nullopt) << "threads that ended";
  EXPECT_EQ(plugins::waited_between(now, second), std::nullopt);
  EXPECT_FALSE(threads("what", "1 2").contains("threads"));

  // Where the processors' list has none, as on ARM.
  const std::string folder = "/sys/devices/system/cpu/cpu";
  const Json arm = plugins::clocks_now(Tree({{folder + "0/cpufreq/scaling_cur_freq", "1500000"},
                                             {folder + "1/cpufreq/scaling_cur_freq", "2500000"}})
                                           .machine());
  EXPECT_EQ(arm.dump(), R"({"mean_mhz":2000.0})");
}

// Nothing that is measured is among what is compared.
TEST(MachineFacts, AreTheSameAMomentLater) {
  Files later = two_sockets();
  later["/proc/cpuinfo"] = processor(0, 0, 0, "1") + processor(1, 0, 0, "2") +
                           processor(2, 1, 0, "3") + processor(3, 1, 0, "4");
  later["/proc/meminfo"] = "MemTotal:       16384 kB\nMemFree:  9999 kB\n";
  later["/proc/pressure/cpu"] = "some avg10=99.00 avg60=1.00 avg300=0.10 total=9999\n";
  later["/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"] = "999";
  later["/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"] = "999";
  EXPECT_EQ(facts_of(later).dump(), facts_of(two_sockets()).dump());
  const plugins::MachineFiles here(base::posix_file_system());
  EXPECT_EQ(plugins::machine_facts(here).dump(), plugins::machine_facts(here).dump());
}

TEST(MachineFiles, CountsLists) {
  for (const auto& [list, count] :
       std::map<std::string, std::optional<std::int64_t>>{{"0", 1},
                                                          {"0-3", 4},
                                                          {"0-3,8,10-11", 7},
                                                          {"", std::nullopt},
                                                          {"3-1", std::nullopt},
                                                          {"0-99999999999", std::nullopt},
                                                          {"a-b", std::nullopt},
                                                          {"0,,1", std::nullopt}}) {
    EXPECT_EQ(plugins::count_of_list(list), count) << list;
  }
}

}  // namespace
}  // namespace regatta::tests
