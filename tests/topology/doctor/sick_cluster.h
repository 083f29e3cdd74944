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
  Graph graph;
  std::uint32_t source = 0;
  std::vector<Setting> environment{};
  std::vector<HostState> hosts{};
  std::vector<TopologyFile> topology_files{};

  // Who has spoken of it so far says something else now: a fault, and no conflict.
  void set(const std::string& id, const char* key, Value value) {
    ASSERT_NE(graph.find(id), kNoVertex) << id;
    const Fact* const before = fact_of(graph, graph.vertex(graph.find(id)).facts, key);
    graph.set(graph.find(id), key, std::move(value), before == nullptr ? source : before->source);
  }
  void set(const std::string& id, const char* key, int value) {
    set(id, key, Value{std::int64_t{value}});
  }
  void set_all(Kind kind, const char* key, const Value& value) {
    for (const VertexIndex each : graph.of_kind(kind)) graph.set(each, key, value, source);
  }
  void set_link(LinkKind kind, const std::string& a, const std::string& b, const char* key,
                Value value) {
    const auto link = graph.find_link(kind, graph.find(a), graph.find(b));
    ASSERT_TRUE(link) << a << " " << b;
    const Fact* const before = fact_of(graph, graph.links()[*link].facts, key);
    graph.set_link(*link, key, std::move(value), before == nullptr ? source : before->source);
  }
  // The same graph without one vertex and what hangs on it.
  void remove(const std::string& id) {
    Graph without;
    for (const Provenance& each : graph.sources()) without.add_source(each.source, each.place);
    const auto gone = [&](VertexIndex v) { return graph.vertex(v).id == id; };
    for (VertexIndex v = 0; v < graph.vertices().size(); ++v) {
      const Vertex& vertex = graph.vertex(v);
      if (gone(v)) continue;
      const VertexIndex parent =
          vertex.parent == kNoVertex ? kNoVertex : without.find(graph.vertex(vertex.parent).id);
      const VertexIndex own = without.add(vertex.kind, vertex.id, parent);
      for (const Fact& fact : vertex.facts) without.set(own, fact.key, fact.value, fact.source);
    }
    for (const Link& link : graph.links()) {
      if (gone(link.a) || gone(link.b)) continue;
      const auto own = without.connect(link.kind, without.find(graph.vertex(link.a).id),
                                       without.find(graph.vertex(link.b).id));
      for (const Fact& fact : link.facts) {
        without.set_link(own, fact.key, fact.value, fact.source);
      }
    }
    graph = std::move(without);
  }
  // As if it had been plugged in elsewhere; its cables stay.
  void move(const std::string& id, const std::string& parent) {
    const Graph before = graph;
    remove(id);
    const VertexIndex old = before.find(id);
    const VertexIndex own = graph.add(before.vertex(old).kind, id, graph.find(parent));
    for (const Fact& fact : before.vertex(old).facts) {
      graph.set(own, fact.key, fact.value, fact.source);
    }
    for (const Link& link : before.links()) {
      if (link.a != old && link.b != old) continue;
      const VertexIndex other = link.a == old ? link.b : link.a;
      const bool pcie = link.kind == LinkKind::Pcie;
      const auto made =
          graph.connect(link.kind, own, graph.find(pcie ? parent : before.vertex(other).id));
      for (const Fact& fact : link.facts) graph.set_link(made, fact.key, fact.value, fact.source);
    }
  }
  void disconnect(const std::function<bool(const Link&)>& goes) {
    Graph without;
    for (const Provenance& each : graph.sources()) without.add_source(each.source, each.place);
    for (const Vertex& vertex : graph.vertices()) {
      const VertexIndex own = without.add(
          vertex.kind, vertex.id,
          vertex.parent == kNoVertex ? kNoVertex : without.find(graph.vertex(vertex.parent).id));
      for (const Fact& fact : vertex.facts) without.set(own, fact.key, fact.value, fact.source);
    }
    for (const Link& link : graph.links()) {
      if (goes(link)) continue;
      const auto own = without.connect(link.kind, without.find(graph.vertex(link.a).id),
                                       without.find(graph.vertex(link.b).id));
      for (const Fact& fact : link.facts) {
        without.set_link(own, fact.key, fact.value, fact.source);
      }
    }
    graph = std::move(without);
  }
  [[nodiscard]] std::vector<Finding> findings() const {
    return diagnose({graph, environment, hosts, topology_files});
  }
};

inline Sick healthy(const std::string& name) {
  Sick sick{cluster_graph(example(name)), 0};
  sick.source = sick.graph.add_source(Source::Measured, "planted");
  return sick;
}

}  // namespace regatta::topology
