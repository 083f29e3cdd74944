#include "orchestrator/store/run_nodes.h"

#include <vector>

#include "base/error.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::store {

void add_run_nodes(Database& database, std::int64_t run, const std::string& hostlist) {
  std::vector<std::string> nodes;
  try {
    nodes = topology::graph::expand_hostlist(hostlist);
  } catch (const base::Error&) {
  }
  for (const std::string& node : nodes) {
    database.prepare("INSERT OR IGNORE INTO run_nodes(node, run) VALUES(?1, ?2)")
        .bind(node, run)
        .run();
  }
}

void fill_run_nodes(Database& database) {
  Statement ask = database.prepare(
      "SELECT run, nodes FROM launches WHERE nodes <> '' UNION ALL "
      "SELECT run, CASE hosts WHEN '' THEN host ELSE hosts END FROM attempts "
      "WHERE started AND host <> ''");
  while (ask.step()) add_run_nodes(database, ask.integer(0), ask.text(1));
}

}  // namespace regatta::orchestrator::store
