#include "base/memory.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace regatta::base {
namespace {

using Files = std::map<std::string, std::string>;

std::optional<std::uint64_t> left(const Files& files) {
  return available_memory([&](const std::string& path) -> std::optional<std::string> {
    const auto it = files.find(path);
    if (it == files.end()) return std::nullopt;
    return it->second;
  });
}

const char* const kMeminfo = "MemTotal:  16000 kB\nMemFree:  100 kB\nMemAvailable:    9000 kB\n";

TEST(AvailableMemory, IsTheMachinesOrTheTightestGroups) {
  struct Row {
    const char* what;
    Files files;
    std::optional<std::uint64_t> expected;
  };
  const std::string v2 = "/sys/fs/cgroup/job/step/";
  const std::string v1 = "/sys/fs/cgroup/memory/slurm/";
  const std::vector<Row> rows{
      {"nothing is told", {}, std::nullopt},
      {"no such line", {{"/proc/meminfo", "MemFree: 5 kB\n"}}, std::nullopt},
      {"no number", {{"/proc/meminfo", "MemAvailable: much kB\n"}}, std::nullopt},
      {"the machine", {{"/proc/meminfo", kMeminfo}}, 9000 * 1024},
      {"version 2",
       {{"/proc/meminfo", kMeminfo},
        {"/proc/self/cgroup", "0::/job/step\n"},
        {v2 + "memory.max", "5000000\n"},
        {v2 + "memory.current", "3000000\n"},
        {v2 + "memory.stat", "anon 1\ninactive_file 1000000\nactive_file 7\n"}},
       3000000},
      {"version 2, the group above is tighter",
       {{"/proc/meminfo", kMeminfo},
        {"/proc/self/cgroup", "0::/job/step\n"},
        {v2 + "memory.max", "max\n"},
        {v2 + "memory.current", "3000000\n"},
        {"/sys/fs/cgroup/job/memory.max", "4000000\n"},
        {"/sys/fs/cgroup/job/memory.current", "3500000\n"}},
       500000},
      {"version 2, used up",
       {{"/proc/meminfo", kMeminfo},
        {"/proc/self/cgroup", "0::/job/step\n"},
        {v2 + "memory.max", "100\n"},
        {v2 + "memory.current", "3000\n"}},
       0},
      {"version 2, looser than the machine",
       {{"/proc/meminfo", kMeminfo},
        {"/proc/self/cgroup", "0::/\n"},
        {"/sys/fs/cgroup/memory.max", "99999999999999"},
        {"/sys/fs/cgroup/memory.current", "1"}},
       9000 * 1024},
      {"version 1",
       {{"/proc/meminfo", kMeminfo},
        {"/proc/self/cgroup", "7:cpu,memory:/slurm\n3:freezer:/x\n0::/\n"},
        {v1 + "memory.limit_in_bytes", "2000000\n"},
        {v1 + "memory.usage_in_bytes", "1500000\n"},
        {v1 + "memory.stat", "total_inactive_file 250000\n"}},
       750000},
      {"lines that are none",
       {{"/proc/meminfo", kMeminfo}, {"/proc/self/cgroup", "rubbish\n:\n1:memory\n"}},
       9000 * 1024},
  };
  for (const Row& row : rows) EXPECT_EQ(left(row.files), row.expected) << row.what;
}

TEST(AvailableMemory, IsToldHere) {
  const auto bytes = available_memory();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, std::uint64_t{1} << 20U);
}

}  // namespace
}  // namespace regatta::base
