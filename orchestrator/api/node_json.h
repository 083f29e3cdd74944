// The answer of GET /nodes: what the scheduler knows of nodes, joined with the runs on them and
// with what is held against them.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/slurm/node_suspicion.h"
#include "orchestrator/slurm/node_table.h"

namespace regatta::orchestrator::api {

struct NodesAnswer {
  std::string scheduler;
  slurm::NodeSnapshot nodes;
  std::map<std::string, std::string> run_by_token;  // of runs that are open
  std::vector<slurm::NodeEvent> events;             // of all nodes
  double now_utc = 0;
};
[[nodiscard]] nlohmann::ordered_json nodes_json(const NodesAnswer& answer);

}  // namespace regatta::orchestrator::api
