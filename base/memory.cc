#include "base/memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace regatta::base {
namespace {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number at the beginning of a text; nothing for "max" and the like.
std::optional<std::uint64_t> number_at(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// What follows `key` at the beginning of a line.
std::optional<std::uint64_t> value_of(std::string_view text, std::string_view key) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.substr(0, key.size()) == key) return number_at(line.substr(key.size()));
    begin = end + 1;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cache_key;  // in memory.stat: page cache that goes first
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file "};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file "};

std::optional<std::uint64_t> left_in_group(const ReadText& read, const std::string& directory,
                                           const GroupFiles& names) {
  const auto limit_text = read(directory + "/" + names.limit);
  const auto used_text = read(directory + "/" + names.used);
  if (!limit_text || !used_text) return std::nullopt;
  const auto limit = number_at(*limit_text);
  const auto used = number_at(*used_text);
  if (!limit || !used) return std::nullopt;
  const auto stat = read(directory + "/memory.stat");
  const std::uint64_t cache = stat ? value_of(*stat, names.cache_key).value_or(0) : 0;
  const std::uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

// The group and those it lies in, each of which may set a limit.
void narrow(const ReadText& read, const std::string& root, std::string group,
            const GroupFiles& names, std::optional<std::uint64_t>* left) {
  while (true) {
    const auto here = left_in_group(read, root + group, names);
    if (here) *left = std::min(left->value_or(*here), *here);
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

}  // namespace

std::optional<std::uint64_t> available_memory(const ReadText& read) {
  std::optional<std::uint64_t> left;
  if (const auto text = read("/proc/meminfo")) {
    if (const auto kibibytes = value_of(*text, "MemAvailable:")) left = *kibibytes * 1024;
  }
  std::istringstream groups(read("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(groups, line);) {  // "0::/path" or "4:memory,cpu:/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") narrow(read, "/sys/fs/cgroup", group, kVersion2, &left);
    if (controllers.find(",memory,") != std::string::npos) {
      narrow(read, "/sys/fs/cgroup/memory", group, kVersion1, &left);
    }
  }
  return left;
}

std::optional<std::uint64_t> available_memory() { return available_memory(read_file); }

}  // namespace regatta::base
