// Host values of ranks that are threads of one process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "trainer/ranks/host_collectives.h"

namespace regatta::tests {

// One for each rank. Plain: a rank that is lost lets the others wait for ever.
[[nodiscard]] std::vector<std::unique_ptr<trainer::ranks::HostCollectives>> make_thread_hosts(
    int ranks);

// Hosts of groups: what a member takes for the n-th time meets what the others do.
class ThreadHostGroups {
 public:
  // Of member number `rank`.
  [[nodiscard]] std::unique_ptr<trainer::ranks::HostCollectives> take(
      const std::vector<int>& members, int rank);

 private:
  using Hosts = std::vector<std::unique_ptr<trainer::ranks::HostCollectives>>;
  std::mutex mutex_;
  std::map<std::vector<int>, std::vector<Hosts>> hosts_;
};

}  // namespace regatta::tests
