#include "orchestrator/api/topology_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/text/findings.h"
#include "topology/doctor/doctor.h"
#include "topology/fabric/fabric_shape.h"
#include "topology/graph/graph.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using topology::graph::Graph;
using topology::graph::Vertex;
using topology::graph::VertexIndex;

Json fact_text(const Graph& graph, const Vertex& vertex, const char* name) {
  const std::string text = topology::graph::text_of(graph, vertex.facts, name);
  return text.empty() ? Json(nullptr) : Json(text);
}

// How the GPUs of each node reach each other where it is not by PCIe.
std::map<VertexIndex, const char*> direct_links(const Graph& graph) {
  std::map<VertexIndex, const char*> links;
  for (const topology::graph::Link& link : graph.links()) {
    if (link.kind != topology::graph::LinkKind::NvLink &&
        link.kind != topology::graph::LinkKind::Xgmi)
      continue;
    for (const VertexIndex end : {link.a, link.b}) {
      if (graph.vertex(end).kind == topology::graph::Kind::Gpu) {
        links[graph.node_of(end)] = topology::graph::name_of(link.kind);
      }
    }
  }
  return links;
}

// Cards that are alike together, in the order of their first.
Json nics_json(const Graph& graph, VertexIndex node) {
  Json list = Json::array();
  for (const VertexIndex each : graph.below(node, topology::graph::Kind::Nic)) {
    const Vertex& nic = graph.vertex(each);
    const auto speed = topology::graph::number_of(graph, nic.facts, topology::graph::key::kSpeed);
    const Json model = fact_text(graph, nic, topology::graph::key::kModel);
    const Json rate = speed ? Json(*speed / 1000) : Json(nullptr);
    const auto alike = std::find_if(list.begin(), list.end(), [&](const Json& other) {
      return other["model"] == model && other["gbit_per_s"] == rate;
    });
    if (alike == list.end()) {
      list.push_back({{"count", 1}, {"model", model}, {"gbit_per_s", rate}});
    } else {
      (*alike)["count"] = (*alike)["count"].get<int>() + 1;
    }
  }
  return list;
}

// What nodes of one kind have in common.
Json kind_of(const Graph& graph, VertexIndex node,
             const std::map<VertexIndex, const char*>& direct) {
  const Vertex& vertex = graph.vertex(node);
  const std::vector<VertexIndex> gpus = graph.below(node, topology::graph::Kind::Gpu);
  std::set<std::string> models;
  for (const VertexIndex gpu : gpus) {
    const std::string model =
        topology::graph::text_of(graph, graph.vertex(gpu).facts, topology::graph::key::kModel);
    if (!model.empty()) models.insert(model);
  }
  const auto counted =
      topology::graph::integer_of(graph, vertex.facts, topology::graph::key::kGpuCount);
  const auto found = direct.find(node);
  const char* const way = found == direct.end() ? "pcie" : found->second;
  return {{"model", fact_text(graph, vertex, topology::graph::key::kModel)},
          {"gpus", gpus.empty() ? counted.value_or(0) : static_cast<std::int64_t>(gpus.size())},
          {"gpu_models", models},
          {"gpu_links", gpus.size() < 2 ? Json(nullptr) : Json(way)},
          {"nics", nics_json(graph, node)}};
}

// As a hostlist, where all of them can be in one.
std::string names_of(const std::vector<std::string>& nodes) {
  try {
    return topology::graph::compress_hosts(nodes);
  } catch (const base::Error&) {
    return base::join(nodes, ",");
  }
}

Json kinds_json(const Graph& graph) {
  const auto direct = direct_links(graph);
  std::map<std::string, std::pair<Json, std::vector<std::string>>> kinds;
  for (const VertexIndex node : graph.of_kind(topology::graph::Kind::Node)) {
    Json kind = kind_of(graph, node, direct);
    auto& [common, names] = kinds[base::json_text(kind)];
    common = std::move(kind);
    names.push_back(graph.vertex(node).id);
  }
  Json list = Json::array();
  for (const auto& [text, kind] : kinds) {
    Json row{{"nodes", kind.second.size()}, {"names", names_of(kind.second)}};
    row.update(kind.first);
    list.push_back(std::move(row));
  }
  return list;
}

Json fabrics_json(const Graph& graph) {
  const topology::fabric::FabricShape shape(graph);
  Json list = Json::array();
  for (const VertexIndex fabric : graph.of_kind(topology::graph::Kind::Fabric)) {
    std::map<int, int> by_level;
    for (const topology::fabric::SwitchShape& each : shape.switches()) {
      if (each.fabric == fabric) ++by_level[each.level];
    }
    Json tiers = Json::array();
    int switches = 0;
    for (const auto& [level, count] : by_level) {
      tiers.push_back({{"level", level < 0 ? Json(nullptr) : Json(level)}, {"switches", count}});
      switches += count;
    }
    list.push_back({{"name", topology::fabric::name_for_people(graph, fabric)},
                    {"switches", switches},
                    {"tiers", std::move(tiers)}});
  }
  return list;
}

// Of a vertex that is on one; null for switches, fabrics and what is no vertex.
Json node_of(const Graph& graph, const std::string& subject) {
  const VertexIndex vertex = graph.find(subject);
  const VertexIndex node = vertex == topology::graph::kNoVertex ? vertex : graph.node_of(vertex);
  return node == topology::graph::kNoVertex ? Json(nullptr) : Json(graph.vertex(node).id);
}

Response no_machines() {
  return error_response(404, "not_found",
                        "this controller was told of no machines, and plans no run; start it "
                        "with `regatta serve --cluster FILE`, a file that `regatta topo` reads");
}

}  // namespace

Json topology_json(const plan::RunPlanner& planner, GraphToo too) {
  const Graph& graph = planner.machines();
  Json sources = Json::array();
  for (const topology::graph::Provenance& each : graph.sources()) {
    sources.push_back({{"source", topology::graph::name_of(each.source)}, {"place", each.place}});
  }
  Json measured = Json::array();
  for (const plan::MeasuredLog& each : planner.measured()) measured.push_back(each.name);
  Json json{{"fingerprint", topology::graph::fingerprint(graph)},
            {"nodes", graph.of_kind(topology::graph::Kind::Node).size()},
            {"kinds", kinds_json(graph)},
            {"fabrics", fabrics_json(graph)},
            {"sources", std::move(sources)},
            {"measured", std::move(measured)}};
  if (too == GraphToo::Yes) {
    Graph shaped = graph;
    topology::fabric::note_shape(&shaped);
    json["graph"] = base::parse_json<Json>(topology::graph::to_json(shaped));
  }
  return json;
}

Json findings_json(const plan::RunPlanner& planner) {
  const Graph& graph = planner.machines();
  const std::vector<topology::graph::Finding> found = topology::doctor::diagnose({graph});
  Json list = Json::array();
  for (const topology::graph::Finding& finding : found) {
    if (list.size() == kMostFindings) break;
    Json json = text::finding_json(finding);
    json["node"] = node_of(graph, finding.subject);
    list.push_back(std::move(json));
  }
  return {{"total", found.size()}, {"findings", std::move(list)}};
}

Response show_topology(const plan::RunPlanner* planner, GraphToo too) {
  return planner == nullptr ? no_machines() : json_response(200, topology_json(*planner, too));
}
Response show_findings(const plan::RunPlanner* planner) {
  return planner == nullptr ? no_machines() : json_response(200, findings_json(*planner));
}

}  // namespace regatta::orchestrator::api
