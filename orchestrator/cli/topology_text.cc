#include "orchestrator/cli/topology_text.h"

#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "topology/fabric/fabric_shape.h"
#include "topology/graph/hostlist.h"
#include "topology/graph/paths.h"

namespace regatta::orchestrator::cli {
namespace {

using topology::graph::Graph;
using topology::graph::Kind;
using topology::graph::VertexIndex;

std::string models_of(const Graph& graph, const std::vector<VertexIndex>& devices) {
  std::set<std::string> models;
  for (const VertexIndex device : devices) {
    const std::string model =
        topology::graph::text_of(graph, graph.vertex(device).facts, topology::graph::key::kModel);
    if (!model.empty()) models.insert(base::printable(model));
  }
  return base::join({models.begin(), models.end()}, ", ");
}

// "8 GPUs (NVIDIA H100 80GB HBM3)", or that there is none.
std::string devices_text(const Graph& graph, VertexIndex node, Kind kind, const std::string& name) {
  const auto devices = graph.below(node, kind);
  if (devices.empty()) return "no " + name;
  const std::string models = models_of(graph, devices);
  return base::plural(devices.size(), name) + (models.empty() ? "" : " (" + models + ")");
}

std::string node_text(const Graph& graph, const topology::graph::Paths& paths, VertexIndex node) {
  const auto& facts = graph.vertex(node).facts;
  std::string text = "  ";
  const std::string model = topology::graph::text_of(graph, facts, topology::graph::key::kModel);
  if (!model.empty()) text += base::printable(model) + ", ";
  const std::string cpu = topology::graph::text_of(graph, facts, "cpu_model");
  if (!cpu.empty()) text += base::printable(cpu) + ", ";
  const auto domains = graph.below(node, Kind::Numa);
  if (!domains.empty()) text += base::plural(domains.size(), "NUMA domain") + ", ";
  text += devices_text(graph, node, Kind::Gpu, "GPU") + ", " +
          devices_text(graph, node, Kind::Nic, "NIC");
  const auto switches = graph.below(node, Kind::NvSwitch);
  if (!switches.empty()) {
    text += ", " + base::plural(switches.size(), "NVSwitch");
  }
  if (topology::graph::integer_of(graph, facts, topology::graph::key::kVirtual) == 1) {
    text += ", a virtual machine";
  }
  text += "\n";
  if (!graph.below(node, Kind::Gpu).empty())
    text += topology::graph::matrix_text(graph, paths, node);
  return text;
}

// Of a host list that Slurm would not take, the names one by one.
std::string names_text(const std::vector<std::string>& names) {
  try {
    return topology::graph::compress_hosts(names);
  } catch (const base::Error&) {
    return base::printable(base::join(names, ","));
  }
}

// Of a node of which no device is known: what Slurm says of it.
std::string slurm_text(const Graph& graph, VertexIndex node) {
  namespace key = topology::graph::key;
  const auto& facts = graph.vertex(node).facts;
  const auto gpus = topology::graph::integer_of(graph, facts, key::kGpuCount);
  const std::string types = topology::graph::text_of(graph, facts, key::kGpuType);
  const std::string state = topology::graph::text_of(graph, facts, key::kNodeState);
  std::vector<std::string> parts;
  if (!state.empty()) parts.push_back("state " + base::printable(state));
  if (gpus) {
    parts.push_back(base::plural(*gpus, "GPU") +
                    (types.empty() ? "" : " (" + base::printable(types) + ")"));
  }
  if (parts.empty()) return "  no device is known\n";
  return "  Slurm says: " + base::join(parts, ", ") +
         (gpus ? "; how they are connected is not known: give a capture (`regatta probe`)\n"
               : "; no device is known\n");
}

bool has_devices(const Graph& graph, VertexIndex node) { return !graph.children(node).empty(); }

}  // namespace

std::string topology_text(const Graph& graph) {
  // Nodes that look alike are listed together.
  const topology::graph::Paths paths(graph);
  std::map<std::string, std::vector<std::string>> alike;
  for (const VertexIndex node : graph.of_kind(Kind::Node)) {
    const std::string& name = graph.vertex(node).id;
    alike[has_devices(graph, node) ? node_text(graph, paths, node) : slurm_text(graph, node)]
        .push_back(name);
  }
  std::string text;
  for (const auto& [words, names] : alike) {
    text += (names.size() == 1 ? "node " : base::plural(names.size(), "node") + " ") +
            names_text(names) + "\n" + words;
  }
  if (graph.of_kind(Kind::Fabric).empty()) {
    return text + "no fabric is known; give a dump of ibnetdiscover or Slurm's topology\n";
  }
  return text + topology::fabric::fabric_text(graph);
}

}  // namespace regatta::orchestrator::cli
