// Steps of two runs, taken again by `regatta-train debug probe` on this machine.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/file_system.h"
#include "orchestrator/compare/learning_replay.h"
#include "orchestrator/site/environment.h"

namespace regatta::orchestrator::cli {

struct ReplayedRun {
  std::string name;
  base::Path directory;
  // Known, and living as long as this.
  const nlohmann::ordered_json* environment;
};

struct ReplayOptions {
  base::Path trainer;  // where the attempt's own program is not here any more
  double seconds = 0;  // for all replays together
};

// Each replay has the run's own program, where that still is what its attempt ran, and its
// instruction set and variables; a line on stderr tells of each. For one comparison.
class StepReplays {
 public:
  StepReplays(ReplayedRun a, ReplayedRun b, ReplayOptions options,
              const site::ProgramEnvironment& environment);

  // As compare::Replayer.
  [[nodiscard]] compare::ReplayAnswer take(const compare::ReplayRequest& request);

 private:
  [[nodiscard]] base::Path program_of(const ReplayedRun& run) const;
  [[nodiscard]] std::map<std::string, std::string> variables_of(
      const ReplayedRun& run, const compare::ReplayChange& change) const;
  [[nodiscard]] double seconds_left() const;

  ReplayedRun a_, b_;
  ReplayOptions options_;
  std::map<std::string, std::string> whole_;  // this program's own environment
  std::chrono::steady_clock::time_point begin_;
  int taken_ = 0;
};

}  // namespace regatta::orchestrator::cli
