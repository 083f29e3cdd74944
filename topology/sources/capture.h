// What was read on one machine, as it was read: replayed anywhere into a graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::sources {

struct CommandOutput {
  int exit_code = 0;       // 127: it is not there
  bool timed_out = false;  // it was killed at its deadline
  std::string text;        // stdout
};

struct Capture {
  std::string host;
  double taken_utc = 0;                            // seconds since 1970
  std::map<std::string, std::string> files;        // by path: text, without the last line break
  std::map<std::string, std::string> links;        // by path: where a symbolic link leads, resolved
  std::map<std::string, CommandOutput> commands;   // by command line
  std::string nvml;                                // lines of nvml_calls.h; empty: no NVML
  std::map<std::string, std::string> environment;  // NCCL_*, CUDA_*, UCX_*, OMPI_* only
  std::vector<std::string> notes;                  // what could not be read, and why, for people
};

// capture.json (docs/formats/topology.md). parse throws Code::User naming `source` and what is
// wrong.
[[nodiscard]] std::string to_json(const Capture& capture);
[[nodiscard]] Capture parse_capture(const std::string& text, const std::string& source);

// Everything that the capture holds, merged. What cannot be read becomes a finding
// ("capture.unreadable", "capture.timed_out"), never an exception.
struct Replayed {
  graph::Graph graph;
  std::vector<graph::Finding> findings;
};
[[nodiscard]] Replayed replay(const Capture& capture);

}  // namespace regatta::topology::sources
