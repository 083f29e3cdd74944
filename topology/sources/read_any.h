// Any file that describes machines, whatever its format: one table to join a reader to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/doctor/doctor.h"
#include "topology/graph/graph.h"

namespace regatta::topology::sources {

struct Reading {
  std::string format;  // "graph", "capture", "cluster description", "NCCL topology", "variables"
  graph::Graph graph;
  std::vector<doctor::TopologyFile> topology_files;
  std::vector<doctor::HostState> hosts;
  std::vector<graph::Finding> findings;  // of reading: what was left out, and why
  std::vector<doctor::Setting>
      settings;  // of a capture, of nccl.conf, or of what `env` printed: NCCL's and CUDA's
};

// Detects the format by the text, not by the name, which is for messages and provenance; a
// byte-order mark before UTF-8 is passed over. Throws Code::User when it is none that is known, or
// not well-formed.
[[nodiscard]] Reading read_any(std::string_view text, const std::string& name);

}  // namespace regatta::topology::sources
