// What Slurm says of its nodes (slurm_topology.h).
#include "base/error.h"
#include "base/text.h"
#include "topology/graph/hostlist.h"
#include "topology/slurm_text/nodes.h"
#include "topology/sources/slurm_topology.h"
#include "topology/sources/switch_lines.h"

namespace regatta::topology::sources {
namespace {

void add_node(const slurm_text::NodeRecord& record, std::uint32_t source, graph::Graph* graph) {
  const graph::VertexIndex node = graph->add(graph::Kind::Node, record.name);
  graph->set(node, graph::key::kNodeState, base::printable(record.state.raw), source);
  if (record.cpus) graph->set(node, graph::key::kCpuCount, *record.cpus, source);
  if (record.memory_bytes) {
    graph->set(node, graph::key::kMemory, static_cast<std::int64_t>(*record.memory_bytes), source);
  }
  if (!record.features.empty()) {
    graph->set(node, graph::key::kFeatures, base::printable(base::join(record.features, ",")),
               source);
  }
  if (!record.gpus) return;
  graph->set(node, graph::key::kGpuCount, record.gpus->count, source);
  std::vector<std::string> types;
  for (const auto& [type, count] : record.gpus->by_type) types.push_back(base::printable(type));
  if (types.empty()) return;
  graph->set(node, graph::key::kGpuType, base::join(types, ","), source);
}

}  // namespace

graph::Graph read_scontrol_nodes(std::string_view text, const std::string& place) {
  graph::Graph graph;
  const std::uint32_t source = graph.add_source(graph::Source::Slurm, place);
  for (const slurm_text::NodeText& node : slurm_text::read_nodes(text)) {
    const auto refuse = [&](const std::string& why) {
      throw base::Error(base::Code::User, place + ":" + std::to_string(node.line) + ": " + why);
    };
    if (!node.is_node || node.name.empty()) {
      refuse("is not a line of scontrol show node: " + shown(node.begin) +
             "; give its whole output, or leave this line out");
    }
    std::vector<std::string> names;
    try {
      names = graph::expand_hostlist(node.name, 1);
    } catch (const base::Error& error) {
      refuse(error.what());
    }
    if (names != std::vector<std::string>{node.name}) refuse("names several nodes in one line");
    if (!node.record) {
      refuse("node " + node.name + " has no State; its text is cut off: take it again");
    }
    if (graph.find(node.name) != graph::kNoVertex) refuse("node " + node.name + " is a duplicate");
    add_node(*node.record, source, &graph);
  }
  if (graph.vertices().empty()) {
    throw base::Error(base::Code::User,
                      place + ": names no node; give the output of scontrol show node");
  }
  return graph;
}

}  // namespace regatta::topology::sources
