// One attempt at a run, from its first to its last step: the same code on every rank.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "topology/plan/plan.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/plugins/rank_group.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/run/checkpoint_writer.h"
#include "trainer/run/deadline.h"
#include "trainer/run/journal_writer.h"
#include "trainer/run/training_run.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/plan_learning.h"
#include "trainer/step/snapshot.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::run {

class AttemptRunner {
 public:
  // Everything passed by reference outlives the attempt. Rank 0 alone writes: its journal, its
  // checkpoints, environment.json.
  AttemptRunner(base::FileSystem& files, base::Clock& clock,
                const contract::RunDirectory& directory, const contract::AttemptName& name,
                const contract::Fence& fence, JournalWriter& journal, plugins::RankGroup& group,
                const contract::RunConfig& config, const TrainingRunOptions& options);

  // Collective; returns the same on all ranks. Throws AgreedError, or Fenced, where all ranks do.
  [[nodiscard]] contract::EndRecord run();

 private:
  // What a run trains on and with.
  struct Inputs {
    Inputs(const AttemptRunner& attempt, const contract::RunConfig& config);
    data::Dataset dataset;
    contract::RunConfig config;  // complete
    samples::SampleSource training;
    std::vector<samples::Sample> evaluation;
    double baseline = 0;
    std::unique_ptr<device::Device> device;
  };

  [[nodiscard]] bool writes() const { return group_.rank() == 0; }
  [[nodiscard]] double peak_flops(device::Device& device) const;
  [[nodiscard]] topology::plan::Plan agreed_plan(const contract::TensorTable& table,
                                                 const device::Device& device) const;
  void learn_plan(const contract::TensorTable& table, const Resumed& start,
                  topology::plan::Plan* plan);
  void learn_from_step(std::int64_t done, bool was_writing);
  void warn_of_peak(double mfu);
  [[nodiscard]] std::unique_ptr<watch::Watchdog> make_watchdog();
  [[noreturn]] void give_up(const watch::Trip& trip);
  [[nodiscard]] step::StepFlags wishes();
  // Loads the state to begin with, or the one to go back to from a step that diverged; the same on
  // all ranks, its name and plan rank 0's.
  [[nodiscard]] Resumed load_state(const std::optional<std::int64_t>& diverged_at);
  // Of what was passed over in the search for a checkpoint.
  void tell_skipped(const std::vector<contract::CheckpointRecord>& skipped, bool found_another);
  void announce(const Inputs& inputs, const contract::TensorTable& table,
                const topology::plan::Plan& plan, const Resumed& start, double peak_flops);
  [[nodiscard]] contract::EndRecord train(std::int64_t done);
  void take_up(const std::vector<Rollback>& rollbacks);
  // Steps done where the run goes on; nothing when it stops.
  [[nodiscard]] std::optional<std::int64_t> go_back(const step::Diverged& error);
  [[nodiscard]] contract::DivergenceRecord record_of(const step::Diverged& error) const;
  [[nodiscard]] contract::EndRecord diverged(const step::Diverged& error);
  [[nodiscard]] bool evaluation_due(std::int64_t done) const;
  [[nodiscard]] bool evaluate(std::int64_t done);  // true when the target is met
  [[nodiscard]] int prepare_snapshot(const contract::TensorTable& table);
  void checkpoint(std::int64_t done);
  void journal(const std::vector<contract::CheckpointRecord>& records);
  [[nodiscard]] contract::EndRecord finish(const std::string& reason, std::int64_t done);

  base::FileSystem& files_;
  base::Clock& clock_;
  contract::RunDirectory directory_;
  contract::AttemptName name_;
  contract::Fence fence_;
  JournalWriter& journal_;
  plugins::RankGroup& group_;
  contract::RunConfig config_;
  TrainingRunOptions options_;
  std::vector<samples::Sample> evaluation_;
  std::vector<std::string> hosts_;  // by rank
  bool warned_of_peak_ = false;
  std::optional<double> target_;
  std::optional<double> metric_;  // of the last evaluation
  std::vector<Rollback> rollbacks_;
  // These while run() runs.
  device::Device* device_ = nullptr;
  ranks::Communicator* communicator_ = nullptr;
  step::TrainLoop* loop_ = nullptr;
  CheckpointKeeper* keeper_ = nullptr;
  watch::Watchdog* watchdog_ = nullptr;  // null: off
  double begin_ = 0;                     // monotonic seconds
  Deadline deadline_;
  std::optional<step::PlanLearning> learning_;
  std::optional<step::Snapshot> snapshot_;
  std::optional<CheckpointWriter> writer_;  // after the others: its thread reads them
};

}  // namespace regatta::trainer::run
