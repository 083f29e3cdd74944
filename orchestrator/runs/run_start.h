// What a run is trained for, and which weights it begins with, as its run file says.
#pragma once

#include <optional>
#include <string>

#include "base/file_system.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::runs {

struct StartModel {
  std::string path;
  bool optimizer = false;  // with its moments
};
struct RunStart {
  std::string task = "pretraining";
  std::optional<StartModel> model;  // nothing: new weights, or a fork's own checkpoint
};
// config: Run::config; one that cannot be read says nothing.
[[nodiscard]] RunStart start_of(const std::string& config);

// The checkpoint of another run, in that one's directory, that this one begins with; empty: it
// begins with none, or as a fork has a copy.
[[nodiscard]] base::Path start_checkpoint(const Run& run);
// "continues STEP of RUN", "begins with STEP of RUN", "begins with PATH"; empty: with new weights.
[[nodiscard]] std::string origin_text(const Run& run);

}  // namespace regatta::orchestrator::runs
