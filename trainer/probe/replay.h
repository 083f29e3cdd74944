// Optimizer steps of a run again, on one process and without touching the run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/device/device.h"
#include "trainer/plugins/make_device.h"
#include "trainer/probe/changed_run.h"
#include "trainer/probe/reading_file_system.h"
#include "trainer/ranks/communicator.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/run/run_data.h"
#include "trainer/samples/batch.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::probe {

struct ReplayOptions {
  base::Path run;
  std::int64_t step = 1;          // 1 is the first
  std::vector<KeyValue> changes;  // of the run file
  base::Path data;                // where its dataset lies instead; empty: where the run file says
  int threads = 0;                // 0: as the run file says, else all cores
  plugins::DevicePlace place;
};

// Where a replay begins.
struct ReplayStart {
  enum class Kind { NewWeights, GivenWeights, Checkpoint } kind = Kind::NewWeights;
  std::string name;       // of the checkpoint; of given weights, their path
  std::int64_t step = 0;  // steps done
};

// A sample of the step.
struct ReplayedSample {
  std::string id;  // samples::SampleStream::id
  std::int32_t ordinal = 0;
  samples::Sample sample;
};

class Replay {
 public:
  // Opens the run's data and loads what step `step` − 1 or an earlier one left: the newest whole
  // checkpoint of the run's present history whose model is that of the run file, else the weights
  // that the run began with. Throws Code::User, NotFound or Operator in one line: no run, no such
  // step, no data, checkpoints of other data (unless the options change it), a run that one process
  // cannot repeat. Files and clock outlive this.
  Replay(base::FileSystem& files, const base::Clock& clock, const ReplayOptions& options);
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Takes all steps up to the option's, which the observer sees. Called once. Throws what
  // TrainLoop::step() does.
  [[nodiscard]] contract::StepRecord run(const step::StepObserver& observer);

  // As the run file says it, with its vocabulary and labels, and what has been changed.
  [[nodiscard]] const contract::RunConfig& config() const { return whole_.config; }
  [[nodiscard]] const ChangedRun& changed() const { return whole_; }
  // As it is taken here: of one rank.
  [[nodiscard]] const contract::RunConfig& config_here() const { return here_; }
  [[nodiscard]] const ReplayStart& start() const { return start_; }
  [[nodiscard]] device::Device& device() { return *device_; }
  [[nodiscard]] const model::Bert& model() const { return loop_->model(); }
  // Of a step that the observer sees, in the order of their ordinals.
  [[nodiscard]] std::vector<ReplayedSample> samples_of(const step::StepSeen& seen) const;
  // Of the run's newest record of the step.
  [[nodiscard]] std::optional<double> journal_loss() const;

 private:
  [[nodiscard]] ChangedRun read_run() const;
  [[nodiscard]] std::unique_ptr<run::RunData> open_data() const;
  void make_loop();
  [[nodiscard]] std::vector<run::Rollback> rollbacks() const;
  void load();
  [[nodiscard]] std::optional<run::Resumed> load_checkpoint(step::Snapshot* into) const;
  void check_data(const checkpoint::Entry& entry) const;
  void load_first_weights(step::TrainingState* state);

  mutable ReadingFileSystem files_;  // of which nothing changes
  const base::Clock& clock_;
  const ReplayOptions options_;
  const contract::RunDirectory directory_;
  ChangedRun whole_;
  std::unique_ptr<run::RunData> data_;  // never null
  contract::RunConfig here_;
  std::unique_ptr<device::Device> device_;  // never null
  ranks::SingleCommunicator alone_;
  step::StepObserver observer_;
  std::unique_ptr<step::TrainLoop> loop_;  // never null
  std::vector<run::Rollback> rollbacks_;   // that the run's steps now lie behind
  ReplayStart start_;
};

}  // namespace regatta::trainer::probe
