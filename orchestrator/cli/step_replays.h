// Steps of two runs, taken again by `regatta-train debug probe` on this machine.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
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

// What a run's environment tells is whoever's word that could write to its directory, and a replay
// is this user's process: a program is run only if it is a `regatta-train` that only this user or
// root can have put there (files::is_trusted_path).
[[nodiscard]] bool is_trusted_program(const base::Path& program);

// Of the variables, those that tell a library how to compute, and neither what to load nor what to
// write: the settings of oneDNN, OpenMP, MKL, OpenBLAS, CUDA, cuBLAS and malloc. And
// REGATTA_PLUGIN_DIR, where only this user or root can have put what is in it.
[[nodiscard]] bool is_harmless_variable(const std::string& name, const std::string& value);

// Each replay has the run's own program, where that still is what its attempt ran, and its
// instruction set and variables; a line on stderr tells of each. For one comparison.
class StepReplays {
 public:
  StepReplays(ReplayedRun a, ReplayedRun b, ReplayOptions options,
              const site::ProgramEnvironment& environment);

  // As compare::Replayer.
  [[nodiscard]] compare::ReplayAnswer take(const compare::ReplayRequest& request);

 private:
  [[nodiscard]] base::Path program_of(const ReplayedRun& run);
  [[nodiscard]] std::map<std::string, std::string> variables_of(
      const ReplayedRun& run, const compare::ReplayChange& change) const;
  [[nodiscard]] double seconds_left() const;

  ReplayedRun a_, b_;
  ReplayOptions options_;
  std::map<std::string, std::string> whole_;  // this program's own environment
  std::chrono::steady_clock::time_point begin_;
  int taken_ = 0;
  std::set<std::string> untrusted_;  // programs that are not run, told once
};

}  // namespace regatta::orchestrator::cli
