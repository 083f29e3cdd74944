#include "topology/graph/cpu_mask.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace regatta::topology::graph {
namespace {

std::optional<std::uint32_t> parse_cpu(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = base::parse_integer(text);
  if (!number || *number >= kMostCpus) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::optional<std::uint32_t> parse_group(std::string_view text) {
  if (text.empty() || text.size() > 8) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool digit = lower >= '0' && lower <= '9';
    if (!digit && (lower < 'a' || lower > 'f')) return std::nullopt;
    value = value * 16 + static_cast<std::uint32_t>(digit ? lower - '0' : lower - 'a' + 10);
  }
  return value;
}

}  // namespace

std::optional<CpuSet> parse_cpu_mask(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  const std::vector<std::string> groups = base::split(text, ',');
  if (groups.size() > kMostCpus / 32) return std::nullopt;
  CpuSet set;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto value = parse_group(groups[groups.size() - 1 - i]);
    if (!value) return std::nullopt;
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      if ((*value >> bit & 1U) != 0) set.insert(static_cast<std::uint32_t>(32 * i) + bit);
    }
  }
  return set;
}

std::optional<CpuSet> parse_cpu_list(std::string_view text) {
  CpuSet set;
  for (const std::string& part : base::split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_cpu(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : parse_cpu(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (std::uint32_t cpu = *first; cpu <= *last; ++cpu) set.insert(cpu);
  }
  return set;
}

std::string cpu_mask(const CpuSet& set, std::uint32_t cpus) {
  if (!set.empty()) cpus = std::max(cpus, *set.rbegin() + 1);
  const std::uint32_t groups = std::max<std::uint32_t>((cpus + 31) / 32, 1);
  std::string mask;
  for (std::uint32_t i = groups; i-- > 0;) {
    std::uint32_t value = 0;
    for (auto at = set.lower_bound(32 * i); at != set.end() && *at < 32 * (i + 1); ++at) {
      value |= std::uint32_t{1} << (*at - 32 * i);
    }
    char group[12];
    std::snprintf(group, sizeof group, "%s%08x", mask.empty() ? "" : ",", value);
    mask += group;
  }
  return mask;
}

std::string cpu_list(const CpuSet& set) {
  std::string list;
  for (auto at = set.begin(); at != set.end();) {
    const std::uint32_t first = *at;
    std::uint32_t last = first;
    for (++at; at != set.end() && *at == last + 1; ++at) last = *at;
    if (!list.empty()) list += ',';
    list += std::to_string(first);
    if (last != first) list += '-' + std::to_string(last);
  }
  return list;
}

}  // namespace regatta::topology::graph
