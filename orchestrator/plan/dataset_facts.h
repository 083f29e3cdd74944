// What the dataset that a run file names says of itself, read from its manifest alone
// (docs/formats: dataset.md, task_dataset.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

struct DatasetFacts {
  trainer::contract::Task task = trainer::contract::Task::Pretraining;
  int vocabulary = 0;                   // pieces
  int labels = 0;                       // of Classification
  std::int64_t training_samples = 0;    // questions or examples of a task; 0: not told
  std::int64_t evaluation_samples = 0;  // as well
  std::string vocabulary_digest{};      // of Pretraining; empty: not told
  std::optional<bool> lower_case{};     // of Pretraining; nothing: not told
};

// Nothing: no dataset there, or none whose manifest says this. What the file system throws passes
// through.
[[nodiscard]] std::optional<DatasetFacts> dataset_facts(base::FileSystem& files,
                                                        const base::Path& dataset);
// "30522 pieces of vocabulary", of a task with its labels and samples.
[[nodiscard]] std::string to_text(const DatasetFacts& facts);

// Fills in what a run file leaves to its dataset. A Classification whose labels nobody tells gets
// two, so that its tensors can be counted: how many there are hardly matters to its time.
void complete_shape(const std::optional<DatasetFacts>& facts, trainer::contract::ModelShape* shape);

// Throws Code::User with the key at fault where a run cannot train on the dataset there: it is for
// another task, has another vocabulary than the run file says, or fewer samples than the run has
// ranks.
void check_dataset(const trainer::contract::RunConfig& config, const base::Path& dataset,
                   const DatasetFacts& facts);

struct NamedDataset {
  const base::Path& directory;
  const DatasetFacts& facts;
};
// Why a run cannot train on both, with what to do; nothing where no more is told.
[[nodiscard]] std::optional<std::string> text_difference(NamedDataset first, NamedDataset other);

}  // namespace regatta::orchestrator::plan
