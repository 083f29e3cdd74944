// What has happened to nodes between two of Slurm's answers, and how much of it is told: pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/slurm/node_table.h"

namespace regatta::orchestrator::slurm {

// What was told of a node last.
struct NodeStanding {
  std::string node;
  bool present = true;  // false: Slurm has it no more; kept while its changes are counted
  bool down = false;
  bool silent = false;     // not responding, and not down yet
  bool drained = false;    // it gets no new jobs
  std::string reason;      // that it is down or drained, as Slurm has it
  double since_utc = 0;    // when that was seen first
  double counted_utc = 0;  // since when changes are counted, and
  int changes = 0;         // how many were told since then

  bool operator==(const NodeStanding&) const = default;
};
using NodeStandings = std::map<std::string, NodeStanding>;  // by node

// For an event.
struct NodeChange {
  std::string_view kind;  // "node.down", …
  std::string node;       // empty: of several, which the words name
  std::string words;
};

struct NodeNews {
  std::vector<NodeChange> told;
  std::vector<NodeStanding> changed;   // to be kept in the place of what was known
  std::vector<std::string> forgotten;  // names that are to be dropped
};

struct NodeNewsLimits {
  // In one answer, of one kind; more are told in one event.
  std::size_t most_single = 20;
  // Of one node in `window_seconds`; the last of them says that no more will be told until then.
  int most_changes = 6;
  double window_seconds = 3600;
};

// rows: of an answer that was given at `utc`. whole: it has every node, so one that is missing is
// there no more. Where nothing is known so far, nodes are not told to have appeared, but what is
// wrong with them is.
[[nodiscard]] NodeNews news_of_nodes(const NodeStandings& known, const NodeRows& rows, bool whole,
                                     double utc, const NodeNewsLimits& limits = {});

}  // namespace regatta::orchestrator::slurm
