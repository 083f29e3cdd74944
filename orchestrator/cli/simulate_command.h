// `regatta simulate`: what a run would take on machines that are described.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/plan/step_model.h"

namespace regatta::orchestrator::cli {

enum class SimulateFormat { Table, Json };
enum class Gantt { None, Text, Svg };

struct SimulateOptions {
  std::string run_file;               // "-": stdin
  std::string cluster;                // what topology/sources/read_any.h knows
  std::vector<int> nodes = {1};       // numbers of nodes to compare
  std::string lengths;                // a table of lengths; empty: all as long as data.max_length
  std::vector<std::string> measured;  // logs of nccl-tests on such machines
  int samples_per_rank = 0;           // 0: the run's batch, whatever the number of ranks
  std::optional<double> samples_to_converge;  // else the run's steps
  double samples_deviation = 0;               // of that, over runs
  double mtbf_hours = 0;                      // of a node; 0: none fails
  double restart_seconds = 300;
  double checkpoint_seconds = 0;  // that training stands still for one
  int vocabulary = 0;             // 0: of the run file, or of its dataset
  plan::GivenFigures given;
  bool sharp = false;  // sums within the network
  int steps = 200;     // that are drawn
  std::optional<std::uint64_t> seed;
  SimulateFormat format = SimulateFormat::Table;
  Gantt gantt = Gantt::None;
  std::string study;  // "mlperf"; empty: none
};

// Prints to stdout; 0. Throws base::Error.
int simulate(const SimulateOptions& options);

}  // namespace regatta::orchestrator::cli
