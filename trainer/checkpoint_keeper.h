// What a training run does with checkpoints: find the one to resume from, write new ones, remove
// old ones. The formats are the checkpoint folder's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "checkpoint/store.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/snapshot.h"

namespace regatta::trainer {

struct Resumed {
  std::int64_t step = 0;
  std::string name;
  std::string plan;  // of its manifest
};

// Calls may come from any thread, one at a time.
class CheckpointKeeper {
 public:
  CheckpointKeeper(base::FileSystem& files, const base::Clock& clock, const RunDirectory& directory,
                   const Fence& fence, const RunConfig& config, const TensorTable& table,
                   const std::string& data_fingerprint, const std::string& execution,
                   const std::string& device = "");  // its description, for people

  // Reads the newest checkpoint that is whole and fits this run into `whole`, a snapshot of all of
  // the state; nothing when there is none at all, and then `whole` holds anything. Those passed
  // over are appended to `skipped`. Code::User when all there are belong to another model or other
  // data.
  [[nodiscard]] std::optional<Resumed> load(Snapshot* whole,
                                            std::vector<CheckpointRecord>* skipped);

  // What the manifests to come say about the run's plan.
  void keep_plan(const std::string& text) { plan_ = text; }

  // Writes this rank's files of the checkpoint of `step`. Throws what CheckpointStore::write_shard
  // does.
  void write_shard(std::int64_t step, const StateShard& shard);
  // Rank 0's, when all `parts` shards are written: makes the checkpoint whole and applies
  // retention; one record for each thing done. A failure (disk full) is a record, not an exception.
  [[nodiscard]] std::vector<CheckpointRecord> commit(std::int64_t step, int parts,
                                                     const std::optional<double>& metric);
  // Rank 0's instead, when a shard could not be written and no rank writes any more: removes what
  // there is of the checkpoint.
  [[nodiscard]] std::vector<CheckpointRecord> abandon(std::int64_t step, const base::Error& error);
  // Of a state that one process holds: shard and commit, or abandon.
  [[nodiscard]] std::vector<CheckpointRecord> write(std::int64_t step, const StateShard& whole,
                                                    const std::optional<double>& metric);

 private:
  [[nodiscard]] checkpoint::CheckpointStore store() const;
  [[nodiscard]] checkpoint::CheckpointName name_of(std::int64_t step) const;
  [[nodiscard]] checkpoint::Manifest manifest_of(std::int64_t step,
                                                 const std::optional<double>& metric) const;
  [[nodiscard]] std::vector<CheckpointRecord> remove_old(std::int64_t step) const;

  base::FileSystem& files_;
  const base::Clock& clock_;
  RunDirectory directory_;
  Fence fence_;
  RunConfig config_;
  TensorTable table_;
  std::string data_fingerprint_;
  std::string execution_;
  std::string device_;
  std::string plan_;
};

}  // namespace regatta::trainer
