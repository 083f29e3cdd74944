// The doctor: looks at all that is known of machines, fabrics and settings, and says what is wrong,
// what it costs and what to do. Pure: it reads no file and runs no command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/graph/finding.h"
#include "topology/graph/graph.h"

namespace regatta::topology::doctor {

// An environment variable, and who sets it: "run.yaml slurm.environment", "this shell".
struct Setting {
  std::string name, value, place;
};

// What is known of one machine beside its graph; nothing: not known.
struct HostState {
  std::string node;                                 // its vertex's id
  std::optional<std::string> cpuset;                // CPUs that jobs may use: "0-31,64-95"
  std::optional<std::vector<std::string>> modules;  // kernel modules that are loaded
  bool dma_buf = false;                             // the NVIDIA driver shares memory by dma-buf
};

// An NCCL topology file, as far as the checks look at it.
struct TopologyFile {
  struct Cpu {
    std::string numa;      // "0"
    std::string affinity;  // hexadecimal mask: "ffffffff,00000000"
  };
  std::string path;
  std::string node;  // the vertex of the machine that uses it; empty: any
  std::size_t elements = 0;
  std::vector<std::string> devices;  // normal bus ids of what has no bridge below it
  std::vector<Cpu> cpus;
};

// What is examined: a graph and what else is known of its machines.
struct Subject {
  const graph::Graph& graph;
  std::vector<Setting> environment{};
  std::vector<HostState> hosts{};
  std::vector<TopologyFile> topology_files{};
};

struct CheckInfo {
  const char* id;
  graph::Severity severity;  // that it usually has
  const char* what;          // is wrong
  const char* why;           // it matters
  const char* remedy;
};
// In order of id.
[[nodiscard]] std::vector<CheckInfo> list_checks();

// Worst first, then by id and subject. One finding for one cause, whatever number of devices shows
// it. Devices of which too little is known give none.
[[nodiscard]] std::vector<graph::Finding> diagnose(const Subject& subject);

}  // namespace regatta::topology::doctor
