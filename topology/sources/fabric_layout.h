// How many switches a described fabric has and which leaf each NIC is cabled to: arithmetic only.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "topology/sources/cluster_file.h"

namespace regatta::topology::sources {

struct FabricLayout {
  std::size_t nodes = 0;  // that have a NIC in it
  std::size_t nics = 0;   // in it, of the node that has most
  std::size_t leaves = 0;
  std::size_t rails = 1;   // leaves that a node is cabled to, where the fabric has rails
  std::size_t down = 0;    // ports of a leaf for nodes
  std::size_t up = 0;      // ports of a leaf for spines; 0 where there is one leaf only
  std::size_t spines = 0;  // of a fabric with two levels
  std::vector<std::vector<std::size_t>> pods;  // leaves of each, where there are three levels
  std::string trouble;                         // why it cannot be built; empty: it can
};
[[nodiscard]] FabricLayout lay_out(const ClusterDescription& cluster, const FabricPlan& fabric);

// The leaf of a node's `nic`-th NIC in the fabric; nodes count through all kinds that have one.
[[nodiscard]] std::size_t leaf_of(const FabricLayout& layout, const FabricPlan& fabric,
                                  std::size_t node, std::size_t nic);

// Cables from one of many equal switches to `above` others: (which, how many), shared out so that
// those above get as many each as all `ports` allow.
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> spread(std::size_t number,
                                                                      std::size_t ports,
                                                                      std::size_t above);

// "dgx01" to "dgx32"; at least two digits.
[[nodiscard]] std::vector<std::string> numbered_hosts(const std::string& name, int count);

}  // namespace regatta::topology::sources
