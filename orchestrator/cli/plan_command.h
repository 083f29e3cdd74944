// `regatta plan`: reads a run file and what tells of machines, and prints or writes the plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/cli/commands.h"
#include "orchestrator/plan/run_plan.h"

namespace regatta::orchestrator::cli {

enum class PlanFormat : std::uint8_t { Text, Explain, Json, Env, Csv, Xml, Run };

struct PlanOptions {
  std::string file;                   // the run file; "-": stdin
  std::vector<std::string> clusters;  // any that topology/sources/read_any.h knows
  int nodes = 0;                      // of a cluster description: as if it had so many; 0: its own
  bool live = false;                  // this machine
  std::vector<std::string> srun;      // options; not empty: the nodes that it gives
  std::string nvml_library = "libnvidia-ml.so.1";
  std::vector<std::string> measured;  // logs of nccl-tests or of `regatta-train bench comm`
  std::string lengths;                // a table of sample lengths; empty: all of max_length
  int vocabulary = 0;                 // 0: of the run file, or of its dataset
  std::string ranks;                  // a number, or "all": of every GPU; empty: the run file's
  plan::GivenFigures given;
  std::optional<double> slowdown{};  // nothing: by the channels that NCCL takes
  std::string runs;                  // whose earlier runs count; empty: $REGATTA_RUNS, or none
  std::string directory;             // where plan.json and plan.tuner go; empty: nowhere
  PlanFormat format = PlanFormat::Text;
};

// "FILE" or "Ring/Simple=FILE", read.
[[nodiscard]] plan::MeasuredLog read_measured(const std::string& text);

// Throws base::Error: a file that cannot be read, and what plan_run() throws.
int plan(const PlanOptions& options, const site::ProgramEnvironment& environment);

}  // namespace regatta::orchestrator::cli
