// Tells what happens to nodes as events, whatever runs on them. What was told last is in the store,
// so a controller that starts anew tells only what has changed meanwhile, once. Called by one
// thread.
#pragma once

#include <cstdint>
#include <optional>

#include "orchestrator/slurm/node_changes.h"
#include "orchestrator/slurm/node_table.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::control {

class NodeWatch {
 public:
  // Both outlive the object; no table: there is nothing to watch.
  NodeWatch(store::Store& store, const slurm::NodeTable* table) : store_(store), table_(table) {}

  // What the newest answer says, if it has not been looked at. Errors are the store's, and then the
  // answer is looked at again.
  void look();

 private:
  store::Store& store_;
  const slurm::NodeTable* table_;
  std::uint64_t looked_at_ = 0;
  std::optional<slurm::NodeStandings> known_;  // nothing: to be read from the store
};

}  // namespace regatta::orchestrator::control
