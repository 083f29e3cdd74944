#include "orchestrator/api/node_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "orchestrator/slurm/node_condition.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json gpus_json(const std::optional<slurm::Gpus>& gpus) {
  if (!gpus) return nullptr;
  Json types = Json::object();
  for (const auto& [type, count] : gpus->by_type) types[type] = count;
  return {{"count", gpus->count}, {"types", types}};
}

// Slurm's own text: a list that cannot be read must not cost the whole answer.
std::vector<std::string> names_in(const std::string& hostlist) {
  try {
    return topology::graph::expand_hostlist(hostlist);
  } catch (const base::Error&) {
    return {};
  }
}

std::map<std::string, std::set<std::string>> runs_by_node(const NodesAnswer& answer) {
  std::map<std::string, std::set<std::string>> runs;
  for (const auto& [token, nodes] : answer.nodes.jobs) {
    const auto run = answer.run_by_token.find(token);
    if (run == answer.run_by_token.end()) continue;
    for (const std::string& node : names_in(nodes)) runs[node].insert(run->second);
  }
  return runs;
}

Json node_json(const slurm::NodeRow& node) {
  const slurm::NodeCondition condition = slurm::condition_of(node);
  return {{"name", node.name},
          {"state", condition.word},
          {"slurm_state", slurm::to_string(node.state)},
          {"usable", slurm::can_work(node.state)},
          {"reason", or_null(node.reason)},
          {"action", condition.action},
          {"cpus", or_null(node.cpus)},
          {"cpus_allocated", or_null(node.cpus_allocated)},
          {"memory_bytes", or_null(node.memory_bytes)},
          {"memory_free_bytes", or_null(node.memory_free_bytes)},
          {"gpus", gpus_json(node.gpus)},
          {"gpus_allocated", or_null(node.gpus_allocated)},
          {"features", node.features},
          {"partitions", node.partitions}};
}

// Those that are not over.
Json reservations_json(const std::vector<slurm::Reservation>& reservations, double now_utc) {
  Json list = Json::array();
  for (const slurm::Reservation& each : reservations) {
    if (each.end <= now_utc) continue;
    list.push_back({{"name", each.name},
                    {"starts_at", base::iso8601(each.start)},
                    {"ends_at", base::iso8601(each.end)},
                    {"seconds", each.end - each.start},
                    {"nodes", each.nodes},
                    {"maintenance", each.maintenance}});
  }
  return list;
}

}  // namespace

Json nodes_json(const NodesAnswer& answer) {
  const slurm::NodeSnapshot& nodes = answer.nodes;
  const auto runs = runs_by_node(answer);
  std::map<std::string, slurm::Avoided> suspects;
  for (slurm::Avoided& suspect : slurm::suspicions(answer.events, answer.now_utc, {})) {
    suspects[suspect.node] = std::move(suspect);
  }
  Json list = Json::array();
  for (const slurm::NodeRow& row : nodes.rows) {
    Json node = node_json(row);
    const auto on_it = runs.find(row.name);
    node["runs"] = on_it == runs.end() ? Json::array() : Json(on_it->second);
    const auto suspect = suspects.find(row.name);
    node["suspicion"] = suspect == suspects.end() ? 0.0 : suspect->second.score;
    node["suspicion_why"] = suspect == suspects.end() ? "" : suspect->second.why;
    list.push_back(std::move(node));
  }
  Json taken = nullptr;
  Json age = nullptr;
  if (nodes.taken_utc) {
    taken = base::iso8601(*nodes.taken_utc);
    age = std::max(0.0, answer.now_utc - *nodes.taken_utc);
  }
  return {{"scheduler", answer.scheduler},
          {"taken_at", taken},
          {"age_seconds", age},
          {"trouble", nodes.trouble.empty() ? Json(nullptr) : Json(nodes.trouble)},
          {"reservations", reservations_json(nodes.reservations, answer.now_utc)},
          {"nodes", list}};
}

}  // namespace regatta::orchestrator::api
