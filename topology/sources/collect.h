// Reads this machine into a capture: /sys and /proc, NVML, and the output of vendor's tools.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "topology/sources/capture.h"

namespace regatta::topology::sources {

struct CollectOptions {
  base::Path root = "/";  // in front of /sys and /proc
  std::string host;
  // Runs ask_nvml() and prints its lines: a command whose last words are ours to add
  // ("--skip NAME" for each call that hung). Empty: NVML is not asked.
  std::vector<std::string> nvml_child;
  double nvml_seconds = 5;     // per child; after that it is killed and asked to skip a call
  int nvml_children = 4;       // at most
  double command_seconds = 5;  // per tool
  std::map<std::string, std::string> environment;  // of which NCCL's and its like are kept
};

// Never throws for what is not there or does not answer: notes say so.
[[nodiscard]] Capture collect(const CollectOptions& options, const base::Clock& clock);

// Whether a variable changes how collectives run: NCCL_*, CUDA_*, UCX_*, OMPI_MCA_*, …
[[nodiscard]] bool is_kept_variable(const std::string& name);

}  // namespace regatta::topology::sources
