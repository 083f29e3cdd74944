#include "orchestrator/runs/run.h"

#include <iterator>

namespace regatta::orchestrator::runs {
namespace {

constexpr const char* kStates[] = {"queued",    "starting", "running", "stopping",
                                   "succeeded", "stopped",  "failed",  "cancelled"};

}  // namespace

const char* name_of(RunState state) { return kStates[static_cast<std::size_t>(state)]; }

std::optional<RunState> parse_run_state(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    if (name == kStates[i]) return static_cast<RunState>(i);
  }
  return std::nullopt;
}

std::vector<std::string> run_state_names() { return {std::begin(kStates), std::end(kStates)}; }

}  // namespace regatta::orchestrator::runs
