// A file of questions or examples, predicted by a model: `regatta-train predict`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/model_shape.h"
#include "trainer/interchange/model_on_device.h"
#include "trainer/tasks/answer_score.h"
#include "trainer/tasks/example_file.h"

namespace regatta::trainer::interchange {

struct PredictOptions {
  base::Path model;
  base::Path vocabulary;  // vocab.txt; empty: the model's own
  base::Path file;        // SQuAD's for questions, else .tsv, .csv or .jsonl; "-": standard input
  base::Path output;      // the directory to make
  bool force = false;     // replace `output` if it has nothing but predictions
  // Of Classification and Regression: format and columns. `labels`: the names of the model's
  // classes in its order, where they are other than its own. kind: Absent, or else by the task.
  tasks::ExampleOptions examples;
  QuestionChoices choices;  // its max_length also of examples
  ModelUse use;
};

struct Predicted {
  std::string model, device;
  contract::Task task = contract::Task::QuestionAnswering;
  base::Path file, output;
  std::size_t count = 0;                  // questions or examples
  std::size_t samples = 0;                // what the model read: windows or examples
  std::vector<contract::Metric> metrics;  // JudgedSet::score; empty where something has no label
  std::optional<tasks::BestThresholds> best;
  double seconds = 0;              // of the model
  std::vector<std::string> notes;  // one line each: what was cut, why nothing is scored, …
};

// Writes what JudgedSet::write_predictions does; the directory appears whole or not at all. Throws
// what open_any_model and the readers of files do; Code::User for a model without such a head, and
// for choices that are of another task; Code::Conflict if `output` exists (and is something else,
// with force).
[[nodiscard]] Predicted predict_file(base::FileSystem& files, const base::Clock& clock,
                                     const PredictOptions& options);

// For people; and one JSON object, one line.
[[nodiscard]] std::string to_text(const Predicted& predicted);
[[nodiscard]] std::string to_json(const Predicted& predicted);

}  // namespace regatta::trainer::interchange
