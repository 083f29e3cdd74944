// What a training run does with checkpoints: find the one to resume from, write new ones, remove
// old ones. The formats are the checkpoint folder's.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "checkpoint/store.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/run/rollback.h"
#include "trainer/step/growing_batch.h"
#include "trainer/step/snapshot.h"

namespace regatta::trainer::run {

struct Resumed {
  std::int64_t step = 0;
  std::string name;
  std::string plan;  // this and what follows: of its manifest
  std::vector<Rollback> rollbacks;
  std::optional<step::BatchGrowthState> growth;
  std::optional<double> metric;
};

// Whose checkpoints they are. Files and clock outlive the keeper; of the rest it has a copy.
struct CheckpointContext {
  base::FileSystem& files;
  const base::Clock& clock;
  contract::RunDirectory directory;
  contract::Fence fence;
  contract::RunConfig config;
  contract::TensorTable table;
  std::string data_fingerprint;
  std::string execution;    // of the attempt: the end of every checkpoint's name
  std::string device = {};  // its description, for people
};

// Calls may come from any thread, one at a time.
class CheckpointKeeper {
 public:
  explicit CheckpointKeeper(CheckpointContext context) : context_(std::move(context)) {}

  // Reads the newest checkpoint that is whole and fits this run into `whole`, a snapshot of all of
  // the state; nothing when there is none at all, and then `whole` holds anything. Those passed
  // over are appended to `skipped`. Code::User when all there are belong to another model or other
  // data.
  [[nodiscard]] std::optional<Resumed> load(step::Snapshot* whole,
                                            std::vector<contract::CheckpointRecord>* skipped);

  // The same of the checkpoint to go back to after a divergence at `step` (rollback_targets), of
  // those whose numbers are all finite. Nothing when the run has no checkpoint so far; Code::User
  // when none of those it has can be used.
  [[nodiscard]] std::optional<Resumed> load_before(
      std::int64_t step, step::Snapshot* whole, std::vector<contract::CheckpointRecord>* skipped);

  // The same of the first of these names that can be used.
  [[nodiscard]] std::optional<Resumed> load_first(const std::vector<std::string>& names,
                                                  step::Snapshot* whole,
                                                  std::vector<contract::CheckpointRecord>* skipped);

  // The newest that is whole by its manifest; step -1 when there is none, or no list of them.
  [[nodiscard]] Resumed newest() const;

  // What the manifests to come say about the run's plan, of a batch that grows, and of its
  // rollbacks. After each of these checkpoints have other names, so that a step can have one again.
  void keep_plan(const std::string& text) { plan_ = text; }
  void keep_growth(const std::optional<step::BatchGrowthState>& growth) { growth_ = growth; }
  void keep_rollbacks(const std::vector<Rollback>& rollbacks) { rollbacks_ = rollbacks; }

  // Writes this rank's files of the checkpoint of `step`. Throws what CheckpointStore::write_shard
  // does.
  void write_shard(std::int64_t step, const step::StateShard& shard);
  // Rank 0's, when all `parts` shards are written: makes the checkpoint whole and applies
  // retention; one record for each thing done. A failure (disk full) is a record, not an exception.
  [[nodiscard]] std::vector<contract::CheckpointRecord> commit(std::int64_t step, int parts,
                                                               const std::optional<double>& metric);
  // Rank 0's instead, when a shard could not be written and no rank writes any more: removes what
  // there is of the checkpoint.
  [[nodiscard]] std::vector<contract::CheckpointRecord> abandon(std::int64_t step,
                                                                const base::Error& error);
  // Of a state that one process holds: shard and commit, or abandon.
  [[nodiscard]] std::vector<contract::CheckpointRecord> write(std::int64_t step,
                                                              const step::StateShard& whole,
                                                              const std::optional<double>& metric);

 private:
  [[nodiscard]] checkpoint::CheckpointStore store() const;
  // Of `names`, in their order; of all, the newest first, where there are none.
  [[nodiscard]] std::optional<Resumed> load_one_of(
      const std::optional<std::vector<std::string>>& names, step::Snapshot* whole,
      std::vector<contract::CheckpointRecord>* skipped);
  [[nodiscard]] checkpoint::CheckpointName name_of(std::int64_t step) const;
  [[nodiscard]] std::int64_t samples_of(std::int64_t step) const;
  [[nodiscard]] checkpoint::Manifest manifest_of(std::int64_t step,
                                                 const std::optional<double>& metric) const;
  [[nodiscard]] std::vector<contract::CheckpointRecord> remove_old(std::int64_t step) const;
  // What a reading found, for those who do not read it.
  void note(const std::string& name, const std::optional<std::string>& damage) const;

  CheckpointContext context_;
  std::string plan_;
  std::optional<step::BatchGrowthState> growth_;
  std::vector<Rollback> rollbacks_;
  std::set<std::string> damaged_;  // that were found to be when they were read
};

}  // namespace regatta::trainer::run
