#include "trainer/ranks/node_layout.h"

#include <cstddef>
#include <set>

#include "base/error.h"
#include "base/host.h"

namespace regatta::trainer::ranks {

HostName this_host_name() {
  const std::string text = base::host_name();
  if (text.empty()) {
    throw base::Error(base::Code::Operator, "this host's name cannot be read; set one");
  }
  HostName name{};
  text.copy(name.data(), name.size() - 1);
  return name;
}

int ranks_per_node(const std::vector<HostName>& names) {
  base::check(!names.empty(), "a run has ranks");
  std::size_t count = 1;
  while (count < names.size() && names[count] == names[0]) ++count;
  if (names.size() % count != 0) return 1;
  std::set<HostName> hosts;
  for (std::size_t first = 0; first < names.size(); first += count) {
    for (std::size_t r = first + 1; r < first + count; ++r) {
      if (names[r] != names[first]) return 1;
    }
    if (!hosts.insert(names[first]).second) return 1;
  }
  return static_cast<int>(count);
}

int ranks_per_node(HostCollectives& host) {
  std::vector<HostName> names(static_cast<std::size_t>(host.ranks()));
  const HostName mine = this_host_name();
  host.all_gather(mine.data(), sizeof mine, names.data());
  return ranks_per_node(names);
}

}  // namespace regatta::trainer::ranks
