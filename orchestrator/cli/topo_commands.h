// `regatta probe` and `regatta topo`: what machines are, from this one, from captures and other
// files, or from a Slurm allocation.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/commands.h"
#include "topology/graph/graph.h"
#include "topology/sources/capture.h"

namespace regatta::orchestrator::cli {

struct ProbeOptions {
  std::string output = "-";  // where capture.json goes; "-": stdout
  std::string nvml_library = "libnvidia-ml.so.1";
  bool nvml_calls = false;        // be the child that asks NVML
  std::vector<std::string> skip;  // calls that it leaves out
};
// Reads this machine and writes a capture. 0, also where there is no GPU: notes say so on stderr.
int probe(const ProbeOptions& options, const site::ProgramEnvironment& environment);

enum class TopoFormat { Text, Json, NcclXml, Slurm, SlurmBlock, SlurmYaml };
struct TopoOptions {
  std::vector<std::string> files;  // any that topology/sources/read_any.h knows; none: this machine
  std::vector<std::string> srun;   // options of srun: probes an allocation's nodes, one step
  std::string nvml_library = "libnvidia-ml.so.1";
  TopoFormat format = TopoFormat::Text;
};
// Shows what all of it makes together. Throws base::Error for what cannot be read or written.
int topo(const TopoOptions& options, const site::ProgramEnvironment& environment);

// Where machines are read from; `here` is this one.
struct MachineSources {
  std::vector<std::string> files;  // any that topology/sources/read_any.h knows; "-": stdin
  std::vector<std::string> srun;
  bool here = false;
  std::string nvml_library;
};
// All of them merged. What could not be read is told on stderr, after "regatta `command`: ".
[[nodiscard]] topology::graph::Graph machines_of(const MachineSources& sources,
                                                 const site::ProgramEnvironment& environment,
                                                 const std::string& command);
// A file, or stdin for "-".
[[nodiscard]] std::string read_input(const std::string& file);

// This machine, read now.
[[nodiscard]] topology::sources::Capture probe_here(const std::string& nvml_library,
                                                    const site::ProgramEnvironment& environment);

// What people read: every kind of node with its devices and how they reach each other, machines
// that are alike together, then the fabrics. Escapes and line breaks of foreign text are shown.
[[nodiscard]] std::string topology_text(const topology::graph::Graph& graph);

}  // namespace regatta::orchestrator::cli
