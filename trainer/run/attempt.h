// One attempt at a run, from its first to its last step: the same code on every rank.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "topology/plan/plan.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/run/checkpoint_writer.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/run/deadline.h"
#include "trainer/run/journal_writer.h"
#include "trainer/step/plan_learning.h"
#include "trainer/plugins/rank_group.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/snapshot.h"
#include "trainer/step/train_loop.h"
#include "trainer/run/training_run.h"

namespace regatta::trainer {

class Attempt {
 public:
  // Everything passed by reference outlives the attempt. Rank 0 alone writes: its journal, its
  // checkpoints, environment.json.
  Attempt(base::FileSystem& files, base::Clock& clock, const RunDirectory& directory,
          const AttemptName& name, const Fence& fence, JournalWriter& journal, RankGroup& group,
          const RunConfig& config, const TrainingRunOptions& options);

  // Collective; returns the same on all ranks. Throws AgreedError, or Fenced, where all ranks do.
  [[nodiscard]] EndRecord run();

 private:
  // What a run trains on and with.
  struct Inputs {
    Inputs(const Attempt& attempt, const RunConfig& config);
    Dataset dataset;
    RunConfig config;  // complete
    SampleSource training;
    std::vector<Sample> evaluation;
    double baseline = 0;
    std::unique_ptr<Device> device;
  };

  [[nodiscard]] bool writes() const { return group_.rank() == 0; }
  [[nodiscard]] double peak_flops(Device& device) const;
  [[nodiscard]] topology::Plan agreed_plan(const TensorTable& table, const Device& device) const;
  void learn_plan(const TensorTable& table, const Resumed& start, topology::Plan* plan);
  void learn_from_step(std::int64_t done, bool was_writing);
  void warn_of_peak(double mfu);
  [[nodiscard]] std::unique_ptr<Watchdog> make_watchdog();
  [[noreturn]] void give_up(const Trip& trip);
  [[nodiscard]] StepFlags wishes();
  // Loads the state to begin with, or the one to go back to from a step that diverged; the same on
  // all ranks, its name and plan rank 0's.
  [[nodiscard]] Resumed load_state(const std::optional<std::int64_t>& diverged_at);
  // Of what was passed over in the search for a checkpoint.
  void tell_skipped(const std::vector<CheckpointRecord>& skipped, bool found_another);
  void announce(const Inputs& inputs, const TensorTable& table, const topology::Plan& plan,
                const Resumed& start, double peak_flops);
  [[nodiscard]] EndRecord train(std::int64_t done);
  void take_up(const std::vector<Rollback>& rollbacks);
  // Steps done where the run goes on; nothing when it stops.
  [[nodiscard]] std::optional<std::int64_t> go_back(const Diverged& error);
  [[nodiscard]] DivergenceRecord record_of(const Diverged& error) const;
  [[nodiscard]] EndRecord diverged(const Diverged& error);
  [[nodiscard]] bool evaluation_due(std::int64_t done) const;
  [[nodiscard]] bool evaluate(std::int64_t done);  // true when the target is met
  [[nodiscard]] int prepare_snapshot(const TensorTable& table);
  void checkpoint(std::int64_t done);
  void journal(const std::vector<CheckpointRecord>& records);
  [[nodiscard]] EndRecord finish(const std::string& reason, std::int64_t done);

  base::FileSystem& files_;
  base::Clock& clock_;
  RunDirectory directory_;
  AttemptName name_;
  Fence fence_;
  JournalWriter& journal_;
  RankGroup& group_;
  RunConfig config_;
  TrainingRunOptions options_;
  std::vector<Sample> evaluation_;
  std::vector<std::string> hosts_;  // by rank
  bool warned_of_peak_ = false;
  std::optional<double> target_;
  std::optional<double> metric_;  // of the last evaluation
  std::vector<Rollback> rollbacks_;
  // These while run() runs.
  Device* device_ = nullptr;
  Communicator* communicator_ = nullptr;
  TrainLoop* loop_ = nullptr;
  CheckpointKeeper* keeper_ = nullptr;
  Watchdog* watchdog_ = nullptr;  // null: off
  double begin_ = 0;              // monotonic seconds
  Deadline deadline_;
  std::optional<PlanLearning> learning_;
  std::optional<Snapshot> snapshot_;
  std::optional<CheckpointWriter> writer_;  // after the others: its thread reads them
};

}  // namespace regatta::trainer
