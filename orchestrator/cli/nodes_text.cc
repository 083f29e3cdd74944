#include "orchestrator/cli/nodes_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/text/terminal.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using text::text_of;

constexpr std::size_t kMostProblems = 40;      // lines; the rest is counted
constexpr std::size_t kMostReasonBytes = 160;  // of a reason; -o json has all of it

std::optional<double> number_of(const Json& json, const char* name) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_number()) return std::nullopt;
  return it->get<double>();
}
std::vector<std::string> texts_of(const Json& json, const char* name) {
  std::vector<std::string> out;
  const auto it = json.find(name);
  if (it == json.end() || !it->is_array()) return out;
  for (const Json& item : *it) {
    if (item.is_string()) out.push_back(item.get<std::string>());
  }
  return out;
}

// What is there and how much of it can be had, over some nodes; absent where no node says.
struct Amount {
  std::optional<double> free, total;
  void add(std::optional<double> more_free, std::optional<double> more_total) {
    if (more_total) total = total.value_or(0) + *more_total;
    if (more_free) free = free.value_or(0) + *more_free;
  }
};
std::string whole(const Amount& amount) {
  if (!amount.total) return "-";
  char text[64];
  std::snprintf(text, sizeof text, "%.0f", *amount.total);
  const std::string total = text;
  if (!amount.free) return "?/" + total;
  std::snprintf(text, sizeof text, "%.0f", *amount.free);
  return std::string(text) + "/" + total;
}
std::string bytes(const Amount& amount) {
  const auto human = [](double value) {
    return base::human_bytes(static_cast<std::uint64_t>(std::clamp(value, 0.0, 1e18)));
  };
  if (!amount.total) return "-";
  return (amount.free ? human(*amount.free) : "?") + " of " + human(*amount.total);
}

struct Node {
  std::string name, state, types, partitions, runs, reason, action, suspicion_why, bench_slow;
  bool usable = false;
  double suspicion = 0;
  Amount gpus, cpus, memory;
};

Amount amount(const Node& node, std::optional<double> total, std::optional<double> used) {
  Amount out;
  out.total = total;
  // Of a node that may not be used nothing can be had.
  if (!node.usable) {
    if (total) out.free = 0;
  } else if (total && used) {
    out.free = std::max(0.0, *total - *used);
  }
  return out;
}

Node node_of(const Json& json) {
  Node node;
  node.name = text_of(json, "name");
  node.state = text_of(json, "state");
  const auto usable = json.find("usable");
  node.usable = usable != json.end() && usable->is_boolean() && usable->get<bool>();
  node.reason = text_of(json, "reason");
  node.action = text_of(json, "action");
  node.partitions = base::join(texts_of(json, "partitions"), ",");
  node.runs = base::join(texts_of(json, "runs"), ",");
  node.suspicion = number_of(json, "suspicion").value_or(0);
  node.suspicion_why = text_of(json, "suspicion_why");
  node.bench_slow = text_of(json, "bench_slow");
  node.cpus = amount(node, number_of(json, "cpus"), number_of(json, "cpus_allocated"));
  const auto memory = number_of(json, "memory_bytes");
  node.memory = amount(node, memory, std::nullopt);
  if (node.usable) node.memory.free = number_of(json, "memory_free_bytes");
  const auto gpus = json.find("gpus");
  if (gpus == json.end() || !gpus->is_object()) return node;
  node.gpus = amount(node, number_of(*gpus, "count"), number_of(json, "gpus_allocated"));
  const auto types = gpus->find("types");
  if (types == gpus->end() || !types->is_object()) return node;
  for (const auto& [type, count] : types->items()) {
    node.types += (node.types.empty() ? " " : "+") + type;
  }
  return node;
}

struct NodeGroup {
  Node like;
  std::vector<std::string> names;
  Amount gpus, cpus, memory;
  void add(const Node& node) {
    names.push_back(node.name);
    gpus.add(node.gpus.free, node.gpus.total);
    cpus.add(node.cpus.free, node.cpus.total);
    memory.add(node.memory.free, node.memory.total);
  }
};

// In the order of the first node of each; free memory differs from node to node and is added up.
std::vector<NodeGroup> grouped(const std::vector<Node>& nodes) {
  std::vector<NodeGroup> groups;
  std::map<std::vector<std::string>, std::size_t> places;
  for (const Node& node : nodes) {
    Amount memory = node.memory;
    memory.free.reset();
    const std::vector<std::string> key = {node.state,   node.types,       node.partitions,
                                          node.runs,    whole(node.gpus), whole(node.cpus),
                                          bytes(memory)};
    const auto [place, is_new] = places.emplace(key, groups.size());
    if (is_new) groups.push_back({node, {}, {}, {}, {}});
    groups[place->second].add(node);
  }
  return groups;
}

// Slurm's names fold; a machine with another kind of name is listed as it is.
std::string folded(const std::vector<std::string>& names) {
  return names.size() == 1 ? names.front() : topology::graph::compress_hosts(names);
}

std::string group_table(const std::vector<Node>& nodes) {
  const bool any_runs =
      std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return !node.runs.empty(); });
  std::vector<std::vector<std::string>> rows = {
      {"STATE", "COUNT", "GPUS FREE", "CPUS FREE", "MEMORY FREE", "PARTITIONS", "NODES"}};
  if (any_runs) rows.front().emplace_back("RUNS");
  const auto add = [&](const std::string& state, const NodeGroup& group, const std::string& names) {
    const std::string gpus = whole(group.gpus) + (group.gpus.total ? group.like.types : "");
    rows.push_back({state, std::to_string(group.names.size()), gpus, whole(group.cpus),
                    bytes(group.memory), group.like.partitions, names});
    if (any_runs) rows.back().push_back(group.like.runs);
  };
  const std::vector<NodeGroup> groups = grouped(nodes);
  for (const NodeGroup& group : groups) add(group.like.state, group, folded(group.names));
  NodeGroup total;
  for (const Node& node : nodes) total.add(node);
  if (groups.size() > 1) add("total", total, "");
  return text::table(rows);
}

// Slurm prints a line break as many blanks.
std::string shortened(std::string text) {
  const auto both_blank = [](char a, char b) { return a == ' ' && b == ' '; };
  text.erase(std::unique(text.begin(), text.end(), both_blank), text.end());
  if (text.size() <= kMostReasonBytes) return text;
  std::size_t end = kMostReasonBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;  // whole UTF-8
  return text.substr(0, end) + "…";
}

std::string problem_table(const std::vector<Node>& nodes) {
  std::vector<std::vector<std::string>> rows = {{"NODE", "STATE", "REASON", "WHAT TO DO"}};
  std::size_t more = 0;
  for (const Node& node : nodes) {
    const bool problem = !node.usable || !node.reason.empty() || !node.action.empty();
    if (!problem) continue;
    if (rows.size() > kMostProblems) {
      ++more;
      continue;
    }
    rows.push_back({node.name, node.state, node.reason.empty() ? "-" : shortened(node.reason),
                    node.action.empty() ? "nothing; it comes back by itself" : node.action});
  }
  if (rows.size() == 1) return "";
  return "\n" + text::table(rows) +
         (more > 0 ? "and " + std::to_string(more) + " more; -o json has them all\n" : "");
}

std::string suspect_table(std::vector<Node> nodes) {
  std::erase_if(nodes, [](const Node& node) { return node.suspicion < 0.05; });
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const Node& a, const Node& b) { return a.suspicion > b.suspicion; });
  if (nodes.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"SUSPECT", "SCORE", "WHY"}};
  for (const Node& node : nodes) {
    if (rows.size() > kMostProblems) break;
    char score[32];
    std::snprintf(score, sizeof score, "%.1f", node.suspicion);
    rows.push_back({node.name, score, node.suspicion_why});
  }
  return "\n" + text::table(rows);
}

// Nodes that are slow by their benches.
std::string bench_table(const std::vector<Node>& nodes) {
  std::vector<std::vector<std::string>> rows = {{"SLOW", "IN ITS NEWEST BENCH"}};
  std::size_t more = 0;
  for (const Node& node : nodes) {
    if (node.bench_slow.empty()) continue;
    if (rows.size() > kMostProblems) {
      ++more;
      continue;
    }
    rows.push_back({node.name, node.bench_slow});
  }
  if (rows.size() == 1) return "";
  return "\n" + text::table(rows) +
         (more > 0 ? "and " + std::to_string(more) + " more; -o json has them all\n" : "");
}

std::string reservation_table(const Json& answer) {
  const Json reservations = answer.value("reservations", Json::array());
  if (!reservations.is_array() || reservations.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"RESERVATION", "FROM", "FOR", "NODES", ""}};
  for (const Json& each : reservations) {
    if (rows.size() > kMostProblems) break;
    rows.push_back({text_of(each, "name"), text::local_date(each.value("starts_at", Json())),
                    base::human_seconds(number_of(each, "seconds").value_or(0)),
                    text_of(each, "nodes"), each.value("maintenance", false) ? "maintenance" : ""});
  }
  return "\n" + text::table(rows);
}

}  // namespace

Json only_nodes(Json answer, const std::vector<std::string>& names) {
  if (names.empty() || !answer.contains("nodes")) return answer;
  std::set<std::string> wanted;
  for (const std::string& name : names) {
    for (const std::string& one : topology::graph::expand_hostlist(name)) wanted.insert(one);
  }
  std::vector<std::string> known;
  Json kept = Json::array();
  for (const Json& node : answer["nodes"]) {
    known.push_back(text_of(node, "name"));
    if (wanted.count(known.back()) > 0) kept.push_back(node);
  }
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const auto suggestion = base::closest(name, known);
    throw base::Error(base::Code::NotFound,
                      "no node '" + base::printable(name) + "'" +
                          (suggestion ? "; did you mean '" + base::printable(*suggestion) + "'?"
                                      : "; 'regatta nodes' lists them"));
  }
  answer["nodes"] = kept;
  return answer;
}

std::string nodes_text(const Json& answer, const std::vector<std::string>& names) {
  const Json chosen = only_nodes(answer, names);
  std::vector<Node> nodes;
  if (chosen.contains("nodes")) {
    for (const Json& json : chosen["nodes"]) {
      if (!text_of(json, "name").empty()) nodes.push_back(node_of(json));
    }
  }
  if (nodes.empty()) return "";
  return group_table(nodes) + problem_table(nodes) + suspect_table(nodes) + bench_table(nodes) +
         reservation_table(answer);
}

}  // namespace regatta::orchestrator::cli
