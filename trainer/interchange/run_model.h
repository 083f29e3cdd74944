// A run's model: its checkpoint, and what the dataset knows of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/vocabulary.h"
#include "trainer/run/checkpoint_choice.h"

namespace regatta::trainer::interchange {

// Of the datasets that a run file names, of pre-training or of a task.
struct DatasetFacts {
  data::Vocabulary vocabulary;
  bool lower_case = true;
  std::vector<std::string> labels;  // of Classification
  std::string fingerprint;
};
// Code::User, NotFound or Operator, naming file or directory: there is no dataset, a changed one,
// one of another task, or several of different vocabularies.
[[nodiscard]] DatasetFacts dataset_facts(base::FileSystem& files,
                                         const contract::RunConfig& config);

struct RunModelOptions {
  base::Path path;  // a run directory, for its newest whole checkpoint; RUN/checkpoints/step-…
  base::Path vocabulary;  // vocab.txt, where the dataset is gone or another one; empty: its own
  std::string reader;     // as whom the checkpoint is marked as being read
  std::string no_data;    // what to do where the dataset does not fit
};

struct RunModel {
  contract::RunConfig config;  // its model has vocabulary and labels
  data::Vocabulary vocabulary;
  std::optional<bool> lower_case;  // nothing: the dataset that it was trained with is not there
  std::vector<std::string> labels;  // of Classification; LABEL_0, … where that dataset is not there
  base::Path run_json;
  run::ChosenCheckpoint checkpoint;  // whole, byte for byte, and marked meanwhile
  std::vector<std::string> notes;    // one line each
};

// Code::User or NotFound, saying what to name instead, when checkpoint, run file, dataset or
// vocabulary is missing or they do not fit.
[[nodiscard]] RunModel open_run_model(base::FileSystem& files, const base::Clock& clock,
                                      const RunModelOptions& options);

}  // namespace regatta::trainer::interchange
