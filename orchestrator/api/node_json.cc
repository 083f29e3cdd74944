#include "orchestrator/api/node_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/slurm/node_condition.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kSlimNodeKeys = {
    "name",      "state",          "usable",       "reason",
    "cpus",      "cpus_allocated", "memory_bytes", "memory_free_bytes",
    "gpus",      "gpus_allocated", "partitions",   "runs",
    "suspicion", "bench_slow"};

// "not responding" as not_responding; "down, drained" is both.
bool has_state(const slurm::NodeRow& row, const std::vector<std::string>& states) {
  if (states.empty()) return true;
  std::string word = slurm::word_of(row.state);
  std::replace(word.begin(), word.end(), ' ', '_');
  const std::size_t comma = word.find(',');
  const std::string first = word.substr(0, comma);
  const bool drains = comma != std::string::npos;
  return std::any_of(states.begin(), states.end(), [&](const std::string& state) {
    return state == first || (drains && state == "drained");
  });
}

bool has_text(const slurm::NodeRow& row, const std::string& text) {
  const auto is_in = [&text](const std::string& whole) {
    return base::lower_case(whole).find(text) != std::string::npos;
  };
  return is_in(row.name) || (row.reason && is_in(*row.reason));
}

bool fits(const slurm::NodeRow& row, const NodeQuery& query) {
  const auto& partitions = row.partitions;
  return row.name.compare(0, query.name_prefix.size(), query.name_prefix) == 0 &&
         (!query.names || query.names->count(row.name) > 0) &&
         (!query.usable || slurm::can_work(row.state) == *query.usable) &&
         (query.partition.empty() ||
          std::find(partitions.begin(), partitions.end(), query.partition) != partitions.end()) &&
         (query.text.empty() || has_text(row, query.text)) && has_state(row, query.states);
}

struct Page {
  std::vector<const slurm::NodeRow*> rows;
  std::size_t total = 0;
  bool more = false;
};

Page page_of(const slurm::NodeRows& rows, const NodeQuery& query) {
  Page page;
  for (const slurm::NodeRow& row : rows) {
    if (!fits(row, query)) continue;
    ++page.total;
    if (!query.after.empty() && row.name <= query.after) continue;
    page.more = page.rows.size() == query.limit;
    if (!page.more) page.rows.push_back(&row);
  }
  return page;
}

// Slurm's own text: a list that cannot be read must not cost the whole answer.
std::vector<std::string> names_in(const std::string& hostlist) {
  try {
    return topology::graph::expand_hostlist(hostlist);
  } catch (const base::Error&) {
    return {};
  }
}

// Of the nodes of a page alone.
std::map<std::string, std::set<std::string>> runs_by_node(const NodesAnswer& answer,
                                                          const Page& page) {
  std::set<std::string_view> shown;
  for (const slurm::NodeRow* row : page.rows) shown.insert(row->name);
  std::map<std::string, std::set<std::string>> runs;
  for (const auto& [token, nodes] : answer.nodes.jobs) {
    const auto run = answer.run_by_token.find(token);
    if (run == answer.run_by_token.end()) continue;
    for (const std::string& node : names_in(nodes)) {
      if (shown.count(node) > 0) runs[node].insert(run->second);
    }
  }
  return runs;
}

ShownNode shown_node(const slurm::NodeRow& node, const std::set<std::string>& runs) {
  slurm::NodeCondition condition = slurm::condition_of(node);
  return {node.name,
          std::move(condition.word),
          slurm::to_string(node.state),
          slurm::can_work(node.state),
          node.reason.value_or(""),
          std::move(condition.action),
          node.cpus,
          node.cpus_allocated,
          node.memory_bytes,
          node.memory_free_bytes,
          node.gpus,
          node.gpus_allocated,
          node.features,
          node.partitions,
          {runs.begin(), runs.end()}};
}

// So that what fades is the same text for some seconds.
double rounded(double score) { return std::round(score * 1000) / 1000; }

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

std::variant<NodeQuery, Response> parse_node_query(const Call& call) {
  for (const char* const name : {"name", "nodes", "partition", "text"}) {
    if (call.text(name) == "") return empty_filter(name);
  }
  NodeQuery query;
  query.states = call.words("state");
  if (call.text("usable")) query.usable = call.flag("usable");
  query.name_prefix = call.text("name").value_or("");
  query.partition = call.text("partition").value_or("");
  query.text = base::lower_case(call.text("text").value_or(""));
  query.after = call.text("after").value_or("");
  query.limit = static_cast<std::size_t>(call.integer("limit"));
  query.full = call.flag("full");
  if (const auto nodes = call.text("nodes")) {
    try {
      const auto names = topology::graph::expand_hostlist(*nodes);
      query.names.emplace(names.begin(), names.end());
    } catch (const base::Error& error) {
      return parameter_problem("nodes", error.what());
    }
  }
  return query;
}

Json slim_node(const Json& row) {
  Json slim;
  for (const char* const key : kSlimNodeKeys) slim[key] = row.at(key);
  return slim;
}

Json nodes_json(const NodesAnswer& answer, const NodeQuery& query) {
  const slurm::NodeSnapshot& nodes = answer.nodes;
  const Page page = page_of(nodes.rows, query);
  const auto runs = runs_by_node(answer, page);
  std::map<std::string, slurm::Avoided> suspects;
  for (slurm::Avoided& suspect : slurm::suspicions(answer.events, answer.now_utc, {})) {
    suspects[suspect.node] = std::move(suspect);
  }
  Json list = Json::array();
  for (const slurm::NodeRow* const row : page.rows) {
    const auto on_it = runs.find(row->name);
    Json node;
    add_fields(shown_node(*row, on_it == runs.end() ? std::set<std::string>() : on_it->second),
               &node);
    const auto suspect = suspects.find(row->name);
    node["suspicion"] = suspect == suspects.end() ? 0.0 : rounded(suspect->second.score);
    node["suspicion_why"] = suspect == suspects.end() ? "" : suspect->second.why;
    const auto bench = answer.benches.find(row->name);
    const bool benched = bench != answer.benches.end();
    node["bench"] = benched ? report_json(bench->second) : Json(nullptr);
    node["bench_slow"] = benched ? compare::slow_text(bench->second) : "";
    list.push_back(query.full ? std::move(node) : slim_node(node));
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
          {"total", page.total},
          {"next", page.more ? Json(page.rows.back()->name) : Json(nullptr)},
          {"nodes", list}};
}

Response list_nodes(const NodesAnswer& answer, const NodeQuery& query) {
  Json json = nodes_json(answer, query);
  const Json age = std::exchange(json["age_seconds"], nullptr);
  const std::string tag = "W/\"" + base::digest_of(base::json_text(json)) + "\"";
  json["age_seconds"] = age;
  Response response = json_response(200, json);
  response.headers["ETag"] = tag;
  return response;
}

}  // namespace regatta::orchestrator::api
