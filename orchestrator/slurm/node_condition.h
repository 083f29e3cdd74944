// What a node's state means to people: one word, and what to do where it cannot be used. After the
// manual pages of sinfo (NODE STATE CODES) and scontrol (update, node specifications).
#pragma once

#include <string>

#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::slurm {

struct NodeCondition {
  std::string word;    // "idle", "allocated", "drained", "down", …; a few words for rare states
  std::string action;  // what somebody should do; empty when nothing is to be done
};
[[nodiscard]] NodeCondition condition_of(const NodeRow& node);
// condition_of()'s word alone.
[[nodiscard]] std::string word_of(const NodeState& state);

}  // namespace regatta::orchestrator::slurm
