// Clusters with a fault.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/topology/sources/examples.h"
#include "topology/doctor/doctor.h"

namespace regatta::topology {

// A healthy cluster into which a test plants a fault.
struct Sick {
  graph::Graph graph;
  std::uint32_t source = 0;
  std::vector<doctor::Setting> environment{};
  std::vector<doctor::HostState> hosts{};
  std::vector<doctor::TopologyFile> topology_files{};

  // Who has spoken of it so far says something else now: a fault, and no conflict.
  void set(const std::string& id, const char* key, graph::Value value) {
    ASSERT_NE(graph.find(id), graph::kNoVertex) << id;
    const graph::Fact* const before =
        graph::fact_of(graph, graph.vertex(graph.find(id)).facts, key);
    graph.set(graph.find(id), key, std::move(value), before == nullptr ? source : before->source);
  }
  void set(const std::string& id, const char* key, int value) {
    set(id, key, graph::Value{std::int64_t{value}});
  }
  void set_all(graph::Kind kind, const char* key, const graph::Value& value) {
    for (const graph::VertexIndex each : graph.of_kind(kind)) graph.set(each, key, value, source);
  }
  void set_link(graph::LinkKind kind, const std::string& a, const std::string& b, const char* key,
                graph::Value value) {
    const auto link = graph.find_link(kind, graph.find(a), graph.find(b));
    ASSERT_TRUE(link) << a << " " << b;
    const graph::Fact* const before = graph::fact_of(graph, graph.links()[*link].facts, key);
    graph.set_link(*link, key, std::move(value), before == nullptr ? source : before->source);
  }
  // The same graph without one vertex and what hangs on it.
  void remove(const std::string& id) {
    graph::Graph without;
    for (const graph::Provenance& each : graph.sources())
      without.add_source(each.source, each.place);
    const auto gone = [&](graph::VertexIndex v) { return graph.vertex(v).id == id; };
    for (graph::VertexIndex v = 0; v < graph.vertices().size(); ++v) {
      const graph::Vertex& vertex = graph.vertex(v);
      if (gone(v)) continue;
      const graph::VertexIndex parent = vertex.parent == graph::kNoVertex
                                            ? graph::kNoVertex
                                            : without.find(graph.vertex(vertex.parent).id);
      const graph::VertexIndex own = without.add(vertex.kind, vertex.id, parent);
      for (const graph::Fact& fact : vertex.facts)
        without.set(own, fact.key, fact.value, fact.source);
    }
    for (const graph::Link& link : graph.links()) {
      if (gone(link.a) || gone(link.b)) continue;
      const auto own = without.connect(link.kind, without.find(graph.vertex(link.a).id),
                                       without.find(graph.vertex(link.b).id));
      for (const graph::Fact& fact : link.facts) {
        without.set_link(own, fact.key, fact.value, fact.source);
      }
    }
    graph = std::move(without);
  }
  // As if it had been plugged in elsewhere; its cables stay.
  void move(const std::string& id, const std::string& parent) {
    const graph::Graph before = graph;
    remove(id);
    const graph::VertexIndex old = before.find(id);
    const graph::VertexIndex own = graph.add(before.vertex(old).kind, id, graph.find(parent));
    for (const graph::Fact& fact : before.vertex(old).facts) {
      graph.set(own, fact.key, fact.value, fact.source);
    }
    for (const graph::Link& link : before.links()) {
      if (link.a != old && link.b != old) continue;
      const graph::VertexIndex other = link.a == old ? link.b : link.a;
      const bool pcie = link.kind == graph::LinkKind::Pcie;
      const auto made =
          graph.connect(link.kind, own, graph.find(pcie ? parent : before.vertex(other).id));
      for (const graph::Fact& fact : link.facts)
        graph.set_link(made, fact.key, fact.value, fact.source);
    }
  }
  void disconnect(const std::function<bool(const graph::Link&)>& goes) {
    graph::Graph without;
    for (const graph::Provenance& each : graph.sources())
      without.add_source(each.source, each.place);
    for (const graph::Vertex& vertex : graph.vertices()) {
      const graph::VertexIndex own = without.add(
          vertex.kind, vertex.id,
          vertex.parent == graph::kNoVertex ? graph::kNoVertex
                                            : without.find(graph.vertex(vertex.parent).id));
      for (const graph::Fact& fact : vertex.facts)
        without.set(own, fact.key, fact.value, fact.source);
    }
    for (const graph::Link& link : graph.links()) {
      if (goes(link)) continue;
      const auto own = without.connect(link.kind, without.find(graph.vertex(link.a).id),
                                       without.find(graph.vertex(link.b).id));
      for (const graph::Fact& fact : link.facts) {
        without.set_link(own, fact.key, fact.value, fact.source);
      }
    }
    graph = std::move(without);
  }
  [[nodiscard]] std::vector<graph::Finding> findings() const {
    return doctor::diagnose({graph, environment, hosts, topology_files});
  }
};

inline Sick healthy(const std::string& name) {
  Sick sick{sources::cluster_graph(example(name)), 0};
  sick.source = sick.graph.add_source(graph::Source::Measured, "planted");
  return sick;
}

}  // namespace regatta::topology
