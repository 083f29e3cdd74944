// GET /nodes: what the scheduler knows of nodes, joined with the runs on them and with what is held
// against them, filtered, a page at a time (docs/api.md).
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "orchestrator/api/bench_book.h"
#include "orchestrator/api/routes.h"
#include "orchestrator/runs/fields.h"
#include "orchestrator/slurm/node_suspicion.h"
#include "orchestrator/slurm/node_table.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::api {

// What the scheduler says of a node, and the runs on it, as answers have it; what is held against
// it is computed beside.
struct ShownNode {
  std::string name, state, slurm_state;
  bool usable = false;
  std::string reason, action;
  std::optional<std::int64_t> cpus, cpus_allocated;
  std::optional<double> memory_bytes, memory_free_bytes;
  std::optional<slurm::Gpus> gpus;
  std::optional<std::int64_t> gpus_allocated;
  std::vector<std::string> features, partitions;
  std::vector<std::string> runs;  // ids
};
template <typename Archive, runs::RecordOf<ShownNode> R>
void fields(Archive& archive, R& r) {
  archive(runs::served("name"), r.name);
  archive(runs::served("state"), r.state);
  archive(runs::served("slurm_state"), r.slurm_state);
  archive(runs::served("usable"), r.usable);
  archive(runs::served("reason").or_null(), r.reason);
  archive(runs::served("action"), r.action);
  archive(runs::served("cpus"), r.cpus);
  archive(runs::served("cpus_allocated"), r.cpus_allocated);
  archive(runs::served("memory_bytes"), r.memory_bytes);
  archive(runs::served("memory_free_bytes"), r.memory_free_bytes);
  archive(runs::served("gpus"), r.gpus);
  archive(runs::served("gpus_allocated"), r.gpus_allocated);
  archive(runs::served("features"), r.features);
  archive(runs::served("partitions"), r.partitions);
  archive(runs::served("runs"), r.runs);
}

struct NodesAnswer {
  std::string scheduler;
  slurm::NodeSnapshot nodes;
  std::map<std::string, std::string> run_by_token;  // of runs that are open
  std::vector<slurm::NodeEvent> events;             // of all nodes
  double now_utc = 0;
  BenchReports benches;
};

// Which nodes, and how much of each; all of all where it does not say.
struct NodeQuery {
  std::vector<std::string> states;  // one of these words; empty: any
  std::optional<bool> usable;
  std::string name_prefix, partition, text;  // empty: any. text: lower case, in name or reason
  std::optional<std::set<std::string>> names;
  std::string after;  // only names after this one
  std::size_t limit = std::numeric_limits<std::size_t>::max();
  bool full = true;
};
// The words that `state` takes, with blanks between them.
inline constexpr const char* kNodeStates =
    "idle mixed allocated completing reserved draining drained down error failing invalid "
    "maintenance not_responding rebooting blocked powering_up powering_down powered_down future "
    "unknown";
// Of a route's parameters, or 400.
[[nodiscard]] std::variant<NodeQuery, Response> parse_node_query(const Call& call);

// It costs a look at every node, and what the page itself has.
[[nodiscard]] nlohmann::ordered_json nodes_json(const NodesAnswer& answer,
                                                const NodeQuery& query = {});
// The same, with an ETag that is another one only when something but the age of the answer is.
[[nodiscard]] Response list_nodes(const NodesAnswer& answer, const NodeQuery& query);

// What a page has of a node unless all is asked for; `row`: nodes_json()'s.
[[nodiscard]] nlohmann::ordered_json slim_node(const nlohmann::ordered_json& row);

}  // namespace regatta::orchestrator::api
