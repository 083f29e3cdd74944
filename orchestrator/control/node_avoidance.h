// Which nodes runs are kept away from: judges launches and attempts that are over, and tells the
// scheduler of suspects. Called by one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "orchestrator/control/node_judge.h"
#include "orchestrator/control/run_reading.h"
#include "orchestrator/runs/scheduler.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::control {

// What is known of a launch, by its owner.
struct Avoidance {
  std::vector<std::string> avoided;  // what the scheduler was told
  std::int64_t judgements = -1;      // when that was looked at last, and
  double look_again = 0;             // when to do so though nothing was judged: suspicions fade
};

class NodeAvoidance {
 public:
  // All outlive the object.
  NodeAvoidance(base::Clock& clock, store::Store& store, runs::Scheduler& scheduler)
      : clock_(clock), store_(store), scheduler_(scheduler) {}

  void judge_launch(const runs::Run& run, const runs::ProcessReport& report, double ended_utc);
  // Those that are over and whose end has not been looked at, oldest first, and of which there is a
  // part in `parts`; they are judged then. `report`: of the newest launch.
  void judge_attempts(const runs::Run& run, const runs::ProcessReport& report,
                      std::vector<runs::Attempt>* attempts,
                      const std::vector<runs::Launch>& launches,
                      const std::vector<JournalPart>& parts);

  // Of ranks that were found to be wrong, as their journals were followed; each once.
  void judge_corruption(const runs::Run& run, const std::vector<runs::Launch>& launches,
                        const std::vector<FollowedCorruption>& corruption);

  // Nodes that the next launch had better leave out, in order of name. Where nobody knows the
  // nodes this is a wish: one that leaves too few is refused, and the scheduler submits without it.
  [[nodiscard]] std::vector<std::string> suspects(const runs::Run& run);
  // A job that waits again after an early end must not come back to the node that was to blame. One
  // job a round is told.
  void tell_waiting_job(const runs::Run& run, const std::string& handle, Avoidance* avoidance);
  void begin_round();

 private:
  // An attempt that ended early and whose nodes share the blame, as long as none of them is named.
  struct EarlyEnd {
    std::string run;
    std::vector<std::string> nodes;
    double utc = 0;
  };
  // The scheduler notices a dead node minutes after the ranks on the others did.
  void blame_dead_nodes();
  [[nodiscard]] bool is_blamed(const slurm::NodeEvent& event);

  void judge(const std::optional<runs::AttemptNumber>& attempt,
             const std::vector<slurm::NodeEvent>& events);
  [[nodiscard]] const std::vector<slurm::NodeEvent>& events();
  [[nodiscard]] std::vector<std::string> suspects_among(
      const std::optional<std::vector<std::string>>& usable, int least_nodes);

  base::Clock& clock_;
  store::Store& store_;
  runs::Scheduler& scheduler_;
  std::optional<std::vector<slurm::NodeEvent>> events_;  // nothing: to be read from the store
  std::vector<EarlyEnd> early_ends_;
  double dead_looked_ = 0;       // monotonic seconds
  std::int64_t judgements_ = 0;  // Store::judgements() of events_
  bool may_tell_ = true;
};

}  // namespace regatta::orchestrator::control
