// What a training run does with checkpoints: find the one to resume from, write new ones, remove
// old ones. The formats are the checkpoint folder's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/train_loop.h"

namespace regatta::trainer {

struct Resumed {
  std::int64_t step = 0;
  std::string name;
  TrainingState state;
};

class CheckpointKeeper {
 public:
  CheckpointKeeper(base::FileSystem& files, const base::Clock& clock, const RunDirectory& directory,
                   const Fence& fence, const RunConfig& config, const TensorTable& table,
                   const std::string& data_fingerprint, const std::string& execution);

  // The newest checkpoint that is whole and fits this run; nothing when there is none at all. Those
  // passed over are appended to `skipped`. Code::User when all there are belong to another model or
  // other data.
  [[nodiscard]] std::optional<Resumed> load(std::vector<CheckpointRecord>* skipped);

  // Writes a checkpoint and applies retention; one record for each thing done. A failure to write
  // (disk full) is a record, not an exception: training goes on with the previous checkpoint.
  [[nodiscard]] std::vector<CheckpointRecord> write(std::int64_t step, const TrainingState& state,
                                                    const std::optional<double>& metric);

  [[nodiscard]] std::int64_t last_step() const { return last_step_; }

 private:
  base::FileSystem& files_;
  const base::Clock& clock_;
  RunDirectory directory_;
  Fence fence_;
  RunConfig config_;
  TensorTable table_;
  std::string data_fingerprint_;
  std::string execution_;
  std::int64_t last_step_ = -1;  // of the newest good checkpoint
};

}  // namespace regatta::trainer
