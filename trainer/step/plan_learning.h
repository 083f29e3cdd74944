// What an attempt learns about the cut of its gradient: what it begins with, whether its first
// steps try others (plan_trial.h), and where what they found is kept: in the journal, in the run's
// checkpoints, and for later runs on the like in the folder of plans beside the runs.
//
// Nothing is tried or remembered where the run file says how to cut, or its determinism is
// not fast; where state is sharded, since the parts of buckets belong to ranks; where the
// run clips by bucket, since other buckets then train other weights; and on one rank. A trial that
// is interrupted begins again with the next attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "topology/plan/plan.h"
#include "topology/plan/plan_store.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/step/plan_trial.h"

namespace regatta::trainer::step {

struct PlanSituation {
  std::string communicator;                      // Communicator::library_version()
  std::string device;                            // of rank 0
  std::int64_t first_step = 0;                   // done already
  std::vector<topology::plan::Bucket> standard;  // without a plan
  std::string kept;  // rank 0: what the checkpoint resumed from says of the plan
};

class PlanLearning {
 public:
  // Steps that must be left, so that a trial is at most a third of them.
  static constexpr std::int64_t kLeastStepsLeft = 3 * PlanTrial::kMostSteps;

  // `plan`: of plan.json, else with the standard buckets. Collective; rank 0 reads and writes
  // files. Everything passed by reference outlives the object, `config` and `plan` excepted.
  PlanLearning(base::FileSystem& files, const base::Clock& clock, ranks::HostCollectives& host,
               const contract::RunDirectory& directory, const contract::RunConfig& config,
               const contract::TensorTable& table, const topology::plan::Plan& plan,
               const PlanSituation& situation);

  // Of the next step; until observe() is told of it, of the last.
  [[nodiscard]] const std::vector<topology::plan::Bucket>& buckets() const;
  [[nodiscard]] bool is_trying() const { return trial_.has_value(); }
  // False: the buckets are always the plan's.
  [[nodiscard]] bool may_change() const { return may_change_; }
  // Whether buckets() are those that the attempt began with, or those of a trial that is over: the
  // journal tells of both.
  [[nodiscard]] bool has_first_buckets() const { return !trial_ || trial_->current() == 0; }
  // After each step while it is trying, on all ranks with the same figures. The record when that
  // was the trial's last step.
  [[nodiscard]] std::optional<contract::TrialRecord> observe(std::int64_t step,
                                                             const StepPace& pace);
  // For the manifests of checkpoints; empty: nothing was found.
  [[nodiscard]] const std::string& found() const { return found_; }

 private:
  [[nodiscard]] std::optional<topology::plan::StoredPlan> kept_plan(const std::string& text) const;
  void remember(const contract::TrialRecord& record);

  base::FileSystem& files_;
  const base::Clock& clock_;
  const contract::TensorTable& table_;
  bool writes_;  // rank 0
  base::Path plans_;
  topology::plan::PlanKey key_;
  bool may_change_ = false;
  std::vector<topology::plan::Bucket> planned_;  // plan.json's; empty: there is none
  std::vector<Cut> cuts_;                        // the first: what there was
  std::size_t current_ = 0;                      // when no trial is on
  std::optional<PlanTrial> trial_;
  std::string found_;
};

}  // namespace regatta::trainer::step
