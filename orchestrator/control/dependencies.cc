#include "orchestrator/control/dependencies.h"

#include <cmath>

#include "base/shell_words.h"
#include "base/wording.h"

namespace regatta::orchestrator::control {
namespace {

constexpr const char* kCategory = "dependency";

// What a dependency asks of people; the greater is named first.
enum class Need { Nothing, Somebody, Impossible };

bool has_ended(const runs::Run& run) {
  return runs::is_over(run.state) && run.wanted != runs::Wanted::Resume;
}

Need need_of(const Dependency& dependency) {
  if (!dependency.run) return dependency.may_come ? Need::Nothing : Need::Impossible;
  return has_ended(*dependency.run) ? Need::Somebody : Need::Nothing;
}

std::string what_it_does(const runs::Run& run) {
  const runs::RunSummary& summary = run.summary;
  switch (run.wanted == runs::Wanted::Resume ? runs::RunState::Queued : run.state) {
    case runs::RunState::Queued:
      return "is queued";
    case runs::RunState::Starting:
      return "is starting";
    case runs::RunState::Running:
      return "is " + (summary.phase.empty() ? "training" : summary.phase) + " (step " +
             std::to_string(summary.step) +
             (summary.progress ? ", worth " + base::formatted("%.0f", std::floor(*summary.progress))
                               : "") +
             " of " + std::to_string(summary.steps) + ")";
    case runs::RunState::Stopping:
      return "is stopping";
    case runs::RunState::Failed:
      return "failed";
    case runs::RunState::Stopped:
      return "was stopped";
    case runs::RunState::Cancelled:
      return "was cancelled";
    case runs::RunState::Succeeded:
      break;
  }
  return "succeeded";
}

}  // namespace

std::optional<Blockage> blockage_of(const runs::Run& run,
                                    const std::vector<Dependency>& dependencies) {
  const Dependency* first = nullptr;
  int others = -1;
  for (const Dependency& each : dependencies) {
    if (each.run && each.run->state == runs::RunState::Succeeded) continue;
    ++others;
    if (first == nullptr || need_of(each) > need_of(*first)) first = &each;
  }
  if (first == nullptr) return std::nullopt;
  const std::string more = others == 0   ? ""
                           : others == 1 ? ", and for 1 more run"
                                         : ", and for " + std::to_string(others) + " more runs";
  const std::string cancel = "`" + base::shown_command("regatta cancel", run.id) + "`";
  const Need need = need_of(*first);
  Blockage blockage;
  blockage.wait.category = kCategory;
  blockage.wait.clears = "by itself";
  blockage.reason = "waits for " + first->id + ", which ";
  if (need == Need::Impossible) {
    blockage.reason += "was removed, so this run will never begin";
    blockage.wait = {kCategory, cancel, "never", std::nullopt, std::nullopt};
  } else if (!first->run) {
    blockage.reason += "has not been read yet";
  } else {
    blockage.reason += what_it_does(*first->run);
  }
  if (need == Need::Somebody) {
    const bool by_hand = first->run->wanted == runs::Wanted::Observe;
    blockage.reason += "; this run will not begin unless that one goes on and succeeds";
    blockage.wait.action =
        "`" +
        (by_hand ? base::shown_command("regatta-train run --directory", first->run->directory)
                 : base::shown_command("regatta resume", first->id)) +
        "`, or " + cancel;
    blockage.wait.clears = "never";
  }
  blockage.reason += more;
  const int state = first->run ? static_cast<int>(first->run->state) : -1;
  blockage.key = first->id + " " + std::to_string(state) + " " +
                 (first->run ? first->run->summary.phase : "") + " " +
                 std::to_string(static_cast<int>(need)) + more;
  return blockage;
}

}  // namespace regatta::orchestrator::control
