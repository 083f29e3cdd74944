// Where commands read machines from: files, this machine, or an allocation of Slurm.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/command_options.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/site/environment.h"
#include "topology/graph/graph.h"
#include "topology/sources/capture.h"

namespace regatta::orchestrator::cli {

// Where machines are read from; `here` is this one.
struct MachineSources {
  std::vector<std::string> files;  // any that topology/sources/read_any.h knows; "-": stdin
  std::vector<std::string> srun;   // options of srun: probes an allocation's nodes, one step
  bool here = false;
  std::string nvml_library;
};
// --srun, repeatable.
void add_srun(OptionList& options, std::vector<std::string>* srun);
// --nvml-library.
void add_nvml_library(OptionList& options, std::string* library);

// All of them merged. What could not be read is said on stderr, after "regatta `command`: ".
[[nodiscard]] topology::graph::Graph machines_of(const MachineSources& sources,
                                                 const site::ProgramEnvironment& environment,
                                                 const std::string& command);

// This machine, read now.
[[nodiscard]] topology::sources::Capture probe_here(const std::string& nvml_library,
                                                    const site::ProgramEnvironment& environment);

// A log of nccl-tests, "FILE" or "Ring/Simple=FILE".
[[nodiscard]] plan::MeasuredLog read_measured(const std::string& text);

}  // namespace regatta::orchestrator::cli
