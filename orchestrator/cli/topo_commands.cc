#include "orchestrator/cli/topo_commands.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "topology/fabric/fabric_shape.h"
#include "topology/graph/hostlist.h"
#include "topology/graph/paths.h"
#include "topology/sources/collect.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/nvml_calls.h"
#include "topology/sources/read_any.h"
#include "topology/sources/slurm_topology.h"

namespace regatta::orchestrator::cli {
namespace {

using topology::graph::Graph;
using topology::graph::Kind;
using topology::graph::VertexIndex;
using topology::sources::Capture;

constexpr std::uint64_t kMaxFile = std::uint64_t{256} << 20U;  // graph.json of some thousand nodes
constexpr double kStepSeconds = 120;  // for srun to get its nodes and to probe them

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return std::string(name).substr(0, std::string(name).find('.'));
}

// A directory that goes with its owner.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "regatta-topo-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) base::throw_errno(errno, "cannot make " + name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  base::Path path_;
};

// One step of `regatta probe` on every node; srun gathers a file per node.
Graph probe_allocation(const std::vector<std::string>& options,
                       const site::ProgramEnvironment& environment) {
  const TemporaryDirectory folder;
  base::Command command;
  // Nodes that are busy are told of after a minute, unless the user's own options say otherwise.
  command.arguments = {"srun", "--ntasks-per-node=1", "--immediate=60",
                       "--output=" + (folder.path() / "%N.json").string(),
                       "--error=" + (folder.path() / "%N.notes").string()};
  command.arguments.insert(command.arguments.end(), options.begin(), options.end());
  command.arguments.insert(command.arguments.end(), {environment.program.string(), "probe"});
  const base::Output done = base::run(command, kStepSeconds);
  if (done.timed_out || done.exit.code != 0) {
    throw base::Error(base::Code::Operator,
                      "srun " + base::join(options, " ") + ": " +
                          (done.timed_out ? "no end after 2 minutes"
                                          : base::printable(done.errors.substr(0, 500))) +
                          "; try it by hand, or probe the nodes and give their captures");
  }
  Graph graph;
  for (const std::string& name : base::posix_file_system().list(folder.path())) {
    if (base::Path(name).extension() != ".json") continue;
    graph.merge(
        topology::sources::read_any(read_input((folder.path() / name).string()), name).graph);
  }
  if (graph.of_kind(Kind::Node).empty()) {
    throw base::Error(base::Code::Operator, "srun probed no node; is regatta at " +
                                                environment.program.string() +
                                                " on the nodes, too?");
  }
  return graph;
}

std::string plural(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

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
  return plural(devices.size(), name) + (models.empty() ? "" : " (" + models + ")");
}

std::string node_text(const Graph& graph, const topology::graph::Paths& paths, VertexIndex node) {
  const auto& facts = graph.vertex(node).facts;
  std::string text = "  ";
  const std::string model = topology::graph::text_of(graph, facts, topology::graph::key::kModel);
  if (!model.empty()) text += base::printable(model) + ", ";
  const std::string cpu = topology::graph::text_of(graph, facts, "cpu_model");
  if (!cpu.empty()) text += base::printable(cpu) + ", ";
  const auto domains = graph.below(node, Kind::Numa);
  if (!domains.empty()) text += plural(domains.size(), "NUMA domain") + ", ";
  text += devices_text(graph, node, Kind::Gpu, "GPU") + ", " +
          devices_text(graph, node, Kind::Nic, "NIC");
  const auto switches = graph.below(node, Kind::NvSwitch);
  if (!switches.empty()) {
    text += ", " + std::to_string(switches.size()) +
            (switches.size() == 1 ? " NVSwitch" : " NVSwitches");
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

bool has_devices(const Graph& graph, VertexIndex node) { return !graph.children(node).empty(); }

void print(const std::string& text) { std::cout << text << std::flush; }

}  // namespace

std::string read_input(const std::string& file) {
  if (file != "-") return base::posix_file_system().read(file, kMaxFile);
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

Capture probe_here(const std::string& nvml_library, const site::ProgramEnvironment& environment) {
  topology::sources::CollectOptions options;
  options.host = host_name();
  options.environment = environment.whole;
  options.nvml_child = {environment.program.string(), "probe", "--nvml-calls", "--nvml-library",
                        nvml_library};
  return topology::sources::collect(options, base::system_clock());
}

int probe(const ProbeOptions& options, const site::ProgramEnvironment& environment) {
  if (options.nvml_calls) {
    return topology::sources::ask_nvml(options.nvml_library,
                                       {options.skip.begin(), options.skip.end()},
                                       [](const std::string& line) { print(line + "\n"); });
  }
  const Capture capture = probe_here(options.nvml_library, environment);
  for (const std::string& note : capture.notes) {
    std::cerr << "regatta probe: " << base::printable(note) << "\n";
  }
  const std::string text = topology::sources::to_json(capture);
  if (options.output == "-") {
    print(text);
  } else {
    base::replace_file(base::posix_file_system(), options.output, text);
  }
  return 0;
}

std::string topology_text(const Graph& graph) {
  // Nodes that look alike are told once.
  const topology::graph::Paths paths(graph);
  std::map<std::string, std::vector<std::string>> alike;
  std::vector<std::string> bare;
  for (const VertexIndex node : graph.of_kind(Kind::Node)) {
    const std::string& name = graph.vertex(node).id;
    if (has_devices(graph, node)) {
      alike[node_text(graph, paths, node)].push_back(name);
    } else {
      bare.push_back(name);
    }
  }
  std::string text;
  for (const auto& [words, names] : alike) {
    text += (names.size() == 1 ? "node " : plural(names.size(), "node") + " ") + names_text(names) +
            "\n" + words;
  }
  if (!bare.empty()) {
    text += (bare.size() == 1 ? "node " : plural(bare.size(), "node") + " ") + names_text(bare) +
            "\n  nothing is known of what is in " + (bare.size() == 1 ? "it\n" : "them\n");
  }
  if (graph.of_kind(Kind::Fabric).empty()) {
    return text + "no fabric is known: give a dump of ibnetdiscover or Slurm's topology\n";
  }
  return text + topology::fabric::fabric_text(graph);
}

Graph machines_of(const MachineSources& sources, const site::ProgramEnvironment& environment,
                  const std::string& command) {
  const auto tell = [&](const std::string& what) {
    std::cerr << "regatta " << command << ": " << base::printable(what) << "\n";
  };
  Graph graph;
  if (!sources.srun.empty()) graph = probe_allocation(sources.srun, environment);
  for (const std::string& file : sources.files) {
    topology::sources::Reading reading =
        topology::sources::read_any(read_input(file), file == "-" ? "stdin" : file);
    for (const topology::graph::Finding& finding : reading.findings) {
      tell(finding.words + (finding.remedy.empty() ? "" : "; " + finding.remedy));
    }
    graph.merge(reading.graph);
  }
  if (sources.here) {
    const Capture here = probe_here(sources.nvml_library, environment);
    for (const std::string& note : here.notes) tell(note);
    graph.merge(topology::sources::replay(here).graph);
  }
  return graph;
}

int topo(const TopoOptions& options, const site::ProgramEnvironment& environment) {
  const bool here = options.files.empty() && options.srun.empty();
  Graph graph =
      machines_of({options.files, options.srun, here, options.nvml_library}, environment, "topo");
  topology::fabric::note_shape(&graph);
  switch (options.format) {
    case TopoFormat::Text:
      print(topology_text(graph));
      break;
    case TopoFormat::Json:
      print(topology::graph::to_json(graph));
      break;
    case TopoFormat::NcclXml: {
      const auto nodes = graph.of_kind(Kind::Node);
      if (nodes.size() != 1) {
        throw base::Error(base::Code::User, "NCCL's file is of one machine, and there are " +
                                                std::to_string(nodes.size()) +
                                                "; give what belongs to one");
      }
      print(topology::sources::write_nccl_xml(graph, nodes.front()));
      break;
    }
    case TopoFormat::Slurm:
      print(topology::sources::write_tree_conf(graph));
      break;
    case TopoFormat::SlurmBlock:
      print(topology::sources::write_block_conf(graph));
      break;
    case TopoFormat::SlurmYaml:
      print(topology::sources::write_topology_yaml(graph));
      break;
  }
  return 0;
}

}  // namespace regatta::orchestrator::cli
