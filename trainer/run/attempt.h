// One attempt at a run, from its first to its last step: the same code on every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
#include "trainer/run/run_data.h"
#include "trainer/run/training_run.h"
#include "trainer/step/plan_learning.h"
#include "trainer/step/snapshot.h"
#include "trainer/step/train_loop.h"
#include "trainer/watch/stragglers.h"
#include "trainer/watch/watchdog.h"

namespace regatta::trainer::run {

constexpr std::uint64_t kMaxPlanBytes = std::uint64_t{64} << 20U;

// What an attempt is given. Everything outlives it.
struct AttemptContext {
  base::FileSystem& files;
  base::Clock& clock;
  const contract::RunDirectory& directory;
  const contract::AttemptName& name;
  const contract::Fence& fence;
  JournalWriter& journal;
  plugins::RankGroup& group;
  const contract::RunConfig& config;  // the run file's, with_ranks
  const TrainingRunOptions& options;
  MllogWriter* mllog = nullptr;  // null: no log is asked for, or another rank has it
};

class AttemptRunner {
 public:
  // Loads everything: dataset, device, model, and the state to begin with. Rank 0 alone writes: its
  // journal, its checkpoints, environment.json. Collective; throws AgreedError, or Fenced, where
  // all ranks do.
  explicit AttemptRunner(const AttemptContext& context);
  AttemptRunner(const AttemptRunner&) = delete;
  AttemptRunner& operator=(const AttemptRunner&) = delete;

  // Trains until the run ends, or has to stop. Called once. Collective; returns the same on all
  // ranks. Throws as the constructor does.
  [[nodiscard]] contract::EndRecord run();

 private:
  // What a run trains on and with.
  struct Inputs {
    explicit Inputs(const AttemptContext& context);
    std::unique_ptr<RunData> data;  // never null
    contract::RunConfig config;     // complete
    std::unique_ptr<device::Device> device;
  };

  // The constructor's, in its order.
  [[nodiscard]] static std::unique_ptr<Inputs> load_inputs(const AttemptContext& context);
  [[nodiscard]] static ranks::Communicator& join(const AttemptContext& context,
                                                 device::Device& device);
  [[nodiscard]] double peak_flops() const;
  [[nodiscard]] topology::plan::Plan agreed_plan() const;
  [[nodiscard]] std::unique_ptr<watch::Watchdog> make_watchdog();
  [[nodiscard]] step::TrainLoopOptions loop_options();
  [[nodiscard]] double snapshot_bytes_of_node() const;
  [[nodiscard]] std::unique_ptr<step::Snapshot> reserve_snapshot() const;
  [[nodiscard]] Deadline make_deadline() const;
  [[nodiscard]] step::PlanSituation plan_situation() const;
  // Loads the state to begin with, or the one to go back to from a step that diverged; the same on
  // all ranks, its name and plan rank 0's.
  [[nodiscard]] Resumed load_state(const std::optional<std::int64_t>& diverged_at);
  void tell_start(Resumed* start);
  [[nodiscard]] std::int64_t begin(step::TrainingState* state);
  // Journals and logs the checkpoints that were skipped in the search for a good one.
  void report_skipped(const std::vector<contract::CheckpointRecord>& skipped, bool found_another);
  void take_up(const std::vector<Rollback>& rollbacks);

  [[nodiscard]] bool writes() const { return context_.group.rank() == 0; }
  // Of checkpoints.
  [[nodiscard]] bool has_shard() const { return loop_.shard().has_value(); }
  [[nodiscard]] std::vector<step::StatePiece> shard_pieces() const;
  // Where the others stand still too, so that nothing can be waited for: ends the process.
  [[noreturn]] void give_up(const watch::Trip& trip);
  [[nodiscard]] step::StepFlags local_flags();
  void beat(std::int64_t step, watch::Phase phase);
  // environment.json, before the first step and behind the last one (attempt_environment.cc).
  void write_environment() const;
  void note_clocks() const;
  void announce();
  [[nodiscard]] contract::EndRecord train(std::int64_t done);
  void learn_from_step(std::int64_t done, bool was_writing);
  void tell_ranks();
  void tell_batch(const contract::BatchRecord& record);
  void tell_input(const contract::InputRecord& record);
  void log_what_is_checked() const;  // attempt_numerics.cc, and the next two
  void tell_noticed();
  [[nodiscard]] contract::EndRecord corrupted(std::int64_t step) const;
  void warn_of_peak(double mfu);
  // Steps done where the run goes on; nothing when it stops.
  [[nodiscard]] std::optional<std::int64_t> go_back(const step::Diverged& error);
  [[nodiscard]] contract::DivergenceRecord record_of(const step::Diverged& error) const;
  [[nodiscard]] contract::EndRecord diverged(const step::Diverged& error);
  [[nodiscard]] bool evaluation_due(std::int64_t done) const;
  [[nodiscard]] bool evaluate(std::int64_t done);  // true when the target is met
  void checkpoint(std::int64_t done);
  void journal(const std::vector<contract::CheckpointRecord>& records);
  [[nodiscard]] contract::EndRecord finish(const std::string& reason, std::int64_t done);

  // In the order in which they are made: each may use those before it, and ends before them.
  const AttemptContext context_;
  const std::unique_ptr<Inputs> inputs_;  // never null
  const contract::RunConfig& config_;     // the inputs'
  device::Device& device_;
  ranks::Communicator& communicator_;
  const contract::TensorTable table_;
  const double peak_flops_;               // of all ranks
  topology::plan::Plan plan_;             // with the buckets that the attempt begins with
  const std::vector<std::string> hosts_;  // by rank
  const std::unique_ptr<watch::Watchdog> watchdog_;  // null: off
  step::TrainLoop loop_;
  CheckpointKeeper keeper_;
  const int writers_;                               // ranks that write a shard of each checkpoint
  const double node_bytes_;                         // of the snapshots on this node
  const std::unique_ptr<step::Snapshot> snapshot_;  // null: no shard
  Deadline deadline_;
  const Resumed start_;
  step::PlanLearning learning_;
  CheckpointWriter writer_;  // its thread reads snapshot and keeper

  const std::optional<double> target_;
  std::optional<double> metric_;   // of the last evaluation,
  std::int64_t metric_step_ = -1;  // and of the step after which that was
  std::vector<Rollback> rollbacks_;
  bool warned_of_peak_ = false;
  std::string corruption_;            // of the last step that was corrupted, for people
  std::optional<double> ranks_told_;  // when, monotonic
  watch::Stragglers stragglers_;
};

}  // namespace regatta::trainer::run
