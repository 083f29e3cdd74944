// Sets of CPUs in the two forms of Linux.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace regatta::topology::graph {

using CpuSet = std::set<std::uint32_t>;
inline constexpr std::uint32_t kMostCpus = 8192;

// "0000ffff,ffffffff": groups of up to 8 hexadecimal digits, the most significant first.
[[nodiscard]] std::optional<CpuSet> parse_cpu_mask(std::string_view text);
// "0-31,64-95"
[[nodiscard]] std::optional<CpuSet> parse_cpu_list(std::string_view text);

// In groups of 32 CPUs, as many as hold `cpus` CPUs and all of the set.
[[nodiscard]] std::string cpu_mask(const CpuSet& set, std::uint32_t cpus);
[[nodiscard]] std::string cpu_list(const CpuSet& set);

}  // namespace regatta::topology::graph
