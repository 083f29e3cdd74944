// A model wherever it lies: a Hugging Face directory, a TensorFlow checkpoint, a run of this
// trainer or one of its checkpoints; with what is needed to use it, or to go on from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/vocabulary.h"

namespace regatta::trainer::interchange {

// With its weights in memory, in the arena's order.
struct AnyModel {
  std::string name;  // what it is, for people: "bert-base-uncased", "run 3, step-00000200"
  contract::ModelShape shape;  // with task and labels: pre-training where there is no other head
  data::Vocabulary vocabulary;
  bool lower_case = true;
  std::vector<std::string> labels;  // of Classification: id2label, or the task dataset's
  int max_length = 512;             // tokens that it was made for, at most its positions
  std::vector<float> parameters;    // [arena of make_tensor_table(shape)]
  std::vector<std::string> notes;   // one line each: heads that it lacks and that are new, …
  // How its run cut questions and chose answers; nothing where it is no run's.
  std::optional<contract::QuestionConfig> questions;
  base::Path dataset{};  // that its run was trained with; empty: it is no run's, or that is gone
};

struct AnyModelOptions {
  base::Path path;
  base::Path vocabulary;  // vocab.txt; empty: the model's own
  // The head that is wanted; nothing: the one it has. A model without it is refused (Code::User,
  // saying what it has and what to do). Pretraining is the head for masked words: the one for next
  // sentences and the pooler may be new. Of other tasks nothing may be.
  std::optional<contract::Task> task;
};
// Verified byte for byte where it is a checkpoint. Case: where the model does not tell, by whether
// its vocabulary has upper-case letters. Code::NotFound or User, one line, saying what
// was looked for and what to do.
[[nodiscard]] AnyModel open_any_model(base::FileSystem& files, const base::Clock& clock,
                                      const AnyModelOptions& options);

// What a run begins with.
struct StartingState {
  std::vector<float> parameters;                   // [arena of the run's model]
  std::vector<float> first_moment, second_moment;  // [arena], or empty
  std::int64_t step = 0;                           // behind the moments
  std::vector<std::string> notes;  // one line each: what was initialised, or not used
};
// What a run's data say of the model that reads them.
struct StartData {
  const data::Vocabulary& vocabulary;
  bool lower_case = true;
  const std::vector<std::string>& labels;  // of Classification, in its order; empty: not known
};
// Of a run whose model (task, labels and vocabulary included) is `shape`: the encoder's tensors,
// the pooler's where both have one, and the head where it is of the same task and size; what is
// missing is drawn from `seed` as for a new run (model/initial_weights.h). The rows of a classifier
// are matched by the names of the labels: put in the data's order where both have the same names,
// left in theirs where a side has none but numbers (0, … or LABEL_0, …), and new where the names
// are others. Positions of a longer model are cut. All this is told in `notes`. Code::User, in one
// line that tells all differences at once (sizes, activation, vocabulary, case, a smaller number of
// positions, moments of another task or other labels); and where moments are asked for and there
// are none. What open_any_model() throws, too.
[[nodiscard]] StartingState starting_state(base::FileSystem& files, const base::Clock& clock,
                                           const contract::StartConfig& from,
                                           const contract::ModelShape& shape, const StartData& data,
                                           std::uint64_t seed, int threads);
// Throws what starting_state() throws of such a run but for what the values themselves have wrong,
// and returns its notes of what would be initialised and of labels: nothing of the model's size is
// allocated, and of weights only a checkpoint is read, which is verified.
[[nodiscard]] std::vector<std::string> check_start(base::FileSystem& files,
                                                   const base::Clock& clock,
                                                   const contract::StartConfig& from,
                                                   const contract::ModelShape& shape,
                                                   const StartData& data);

}  // namespace regatta::trainer::interchange
