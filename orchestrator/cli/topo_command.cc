// `regatta topo`: what machines are, from this one, from captures and other files, or from a Slurm
// allocation.
#include <iostream>

#include "base/error.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/machines.h"
#include "orchestrator/cli/output.h"
#include "orchestrator/cli/topology_text.h"
#include "topology/fabric/fabric_shape.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/slurm_topology.h"

namespace regatta::orchestrator::cli {
namespace {

using topology::graph::Graph;
using topology::graph::Kind;

enum class TopoFormat { Text, GraphJson, NcclXml, Slurm, SlurmBlock, SlurmYaml };
struct TopoOptions {
  std::vector<std::string> files;  // any that topology/sources/read_any.h knows; none: this machine
  std::vector<std::string> srun;   // options of srun: probes an allocation's nodes, one step
  std::string nvml_library = "libnvidia-ml.so.1";
  TopoFormat format = TopoFormat::Text;
};
int show_topology(const TopoOptions& options, const site::ProgramEnvironment& environment) {
  const bool here = options.files.empty() && options.srun.empty();
  Graph graph =
      machines_of({options.files, options.srun, here, options.nvml_library}, environment, "topo");
  topology::fabric::note_shape(&graph);
  switch (options.format) {
    case TopoFormat::Text:
      print(topology_text(graph));
      break;
    case TopoFormat::GraphJson:
      print(topology::graph::to_json(graph));
      break;
    case TopoFormat::NcclXml: {
      const auto nodes = graph.of_kind(Kind::Node);
      if (nodes.size() != 1) {
        throw base::Error(base::Code::User,
                          "NCCL's topology file describes one machine, and there are " +
                              std::to_string(nodes.size()) + "; give the files of one");
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

class Topo : public Command {
 public:
  explicit Topo(const Program& program)
      : Command({"topo",
                 Group::Machines,
                 "show what machines are and how they are cabled; without a file, this one",
                 {"topo", "topo node1.json ibnetdiscover.txt", "topo --srun=-N4 -o json"}}),
        environment_(program.environment) {}

  void add_options(OptionList& options) override {
    options.add(
        "file", ValueKind::File, &options_.files,
        "captures, nvidia-smi's matrices, NCCL topologies, ibnetdiscover's dumps, "
        "Slurm's topology and nodes (`scontrol show topology`, `scontrol show node`), cluster "
        "descriptions, graph.json; - for stdin");
    add_srun(options, &options_.srun);
    add_nvml_library(options, &options_.nvml_library);
    const Choices<TopoFormat> formats{{"text", TopoFormat::Text},
                                      {"json", TopoFormat::GraphJson},
                                      {"nccl-xml", TopoFormat::NcclXml},
                                      {"slurm", TopoFormat::Slurm},
                                      {"slurm-block", TopoFormat::SlurmBlock},
                                      {"slurm-yaml", TopoFormat::SlurmYaml}};
    options.choose("-o,--output", &options_.format, formats,
                   "for people; graph.json; NCCL's topology file; Slurm's topology.conf (tree or "
                   "block) or topology.yaml");
  }
  int run() override { return show_topology(options_, environment_); }

 private:
  site::ProgramEnvironment environment_;
  TopoOptions options_;
};

}  // namespace

std::unique_ptr<Command> topo_command(const Program& program) {
  return std::make_unique<Topo>(program);
}

}  // namespace regatta::orchestrator::cli
