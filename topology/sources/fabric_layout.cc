#include "topology/sources/fabric_layout.h"

#include <algorithm>

namespace regatta::topology::sources {
namespace {

std::size_t parts(std::size_t whole, std::size_t part) { return (whole + part - 1) / part; }

std::size_t nics_in(const NodeKind& kind, const FabricPlan& fabric) {
  std::size_t count = 0;
  for (const NicGroup& nics : kind.nics) {
    if (nics.fabric == fabric.name) count += static_cast<std::size_t>(nics.count);
  }
  return count;
}

// Three levels: pods of at most radix/2 leaves with spines of their own, which look up with half of
// their ports; all spines of one number share their core switches.
void lay_out_pods(const FabricPlan& fabric, FabricLayout* layout) {
  const auto half = static_cast<std::size_t>(fabric.radix) / 2;
  if (half == 0 || layout->up > half) {
    layout->trouble = "a leaf with fewer ports down than up needs a larger radix";
    return;
  }
  const std::size_t rails = fabric.rails ? layout->rails : 1;
  for (std::size_t rail = 0; rail < rails; ++rail) {
    std::size_t in_pod = half;
    for (std::size_t leaf = rail; leaf < layout->leaves; leaf += rails) {
      if (in_pod == half) {
        layout->pods.emplace_back();
        in_pod = 0;
      }
      layout->pods.back().push_back(leaf);
      ++in_pod;
    }
  }
  if (layout->pods.size() > static_cast<std::size_t>(fabric.radix)) {
    layout->trouble = "needs a fourth level of switches; give a larger radix or fewer nodes";
  }
}

}  // namespace

FabricLayout lay_out(const ClusterDescription& cluster, const FabricPlan& fabric) {
  FabricLayout layout;
  for (const NodeKind& kind : cluster.kinds) {
    const std::size_t nics = nics_in(kind, fabric);
    if (nics > 0) layout.nodes += kind.hosts.size();
    layout.nics = std::max(layout.nics, nics);
  }
  if (layout.nodes == 0) return layout;
  const auto radix = static_cast<std::size_t>(fabric.radix);
  const std::size_t ports = layout.nodes * layout.nics;
  layout.rails = layout.nics;
  const double down = fabric.radix * fabric.oversubscription / (1 + fabric.oversubscription);
  layout.down = std::clamp<std::size_t>(static_cast<std::size_t>(down), 1, radix - 1);
  layout.up = radix - layout.down;
  if (fabric.rails) {
    layout.leaves = parts(layout.nodes, layout.down) * layout.rails;
  } else if (ports <= radix) {
    layout.leaves = 1;
  } else if (layout.down >= layout.nics) {
    layout.leaves = parts(layout.nodes, layout.down / layout.nics);
  } else {
    layout.leaves = parts(ports, layout.down);
  }
  if (layout.leaves == 1) {
    layout.down = radix;
    layout.up = 0;
    return layout;
  }
  layout.spines = parts(layout.leaves * layout.up, radix);
  // Every leaf must reach every spine.
  if (layout.spines > layout.up) {
    layout.spines = 0;
    lay_out_pods(fabric, &layout);
  }
  return layout;
}

std::size_t leaf_of(const FabricLayout& layout, const FabricPlan& fabric, std::size_t node,
                    std::size_t nic) {
  if (fabric.rails) return node / layout.down * layout.rails + nic;
  if (layout.leaves == 1) return 0;
  if (layout.down >= layout.nics) return node / (layout.down / layout.nics);
  return (node * layout.nics + nic) / layout.down;
}

std::vector<std::pair<std::size_t, std::size_t>> spread(std::size_t number, std::size_t ports,
                                                        std::size_t above) {
  const std::size_t each = ports / above, rest = ports % above;
  std::vector<std::pair<std::size_t, std::size_t>> cables;
  for (std::size_t i = 0; i < above; ++i) {
    // The rest goes round, one switch after the other.
    const bool more = (i + above - number * rest % above) % above < rest;
    if (each + (more ? 1 : 0) > 0) cables.emplace_back(i, each + (more ? 1 : 0));
  }
  return cables;
}

}  // namespace regatta::topology::sources
