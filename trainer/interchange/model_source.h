// A model as it lies on the disk, of whatever program: what is said of it, and its tensors under
// our names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/vocabulary.h"
#include "trainer/interchange/declared_tokenizer.h"

namespace regatta::trainer::interchange {

// How the description calls the sizes, for messages.
struct SizeNames {
  const char* layers;
  const char* hidden;
  const char* heads;
  const char* feed_forward;
  const char* positions;
  const char* token_types;
  const char* gelu;
  const char* epsilon;
};

struct ModelFacts {
  data::Vocabulary vocabulary;
  std::string vocabulary_file;  // this and the other files: as messages have them
  std::string place;            // where the weights are
  std::string name;             // for people: "bert-base-uncased", "run small, step-…"
  std::string described_in;     // a file; empty: there is none
  SizeNames names{};
  // Vocabulary: rows of the word embedding, of which there must be one for each piece. Without a
  // description all other sizes are unknown. Task and labels: of the head.
  contract::ModelShape shape{};
  bool has_head = true;              // false: an encoder, or a head for a task that is none of ours
  std::string kind{};                // of the model: "BertForMaskedLM"; empty: not told
  bool gelu_known = true;            // TensorFlow's "gelu" stands for both
  std::optional<bool> lower_case{};  // nothing: not told
  std::string case_file{};
  std::optional<DeclaredTokenizer> tokenizer{};  // of a tokenizer.json that can be read
  std::vector<std::string> labels{};             // of Classification
  int max_length = 0;                            // tokens that it was made for; 0: its positions
  std::optional<contract::QuestionConfig> questions{};  // of a run's file
  base::Path dataset{};  // that a run was trained with, if it is there and the same
  std::vector<std::string> notes{};
};

enum class Moment { First, Second };

// One thread at a time.
class ModelSource {
 public:
  explicit ModelSource(ModelFacts facts) : facts_(std::move(facts)) {}
  virtual ~ModelSource() = default;
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;

  [[nodiscard]] const ModelFacts& facts() const { return facts_; }

  // Whether there is such a tensor. May throw Code::User for one of another shape.
  [[nodiscard]] virtual bool has(const contract::TensorEntry& entry) = 0;
  // Fills `values` (as many as the entry has) with a tensor that it has(). Rows beyond the entry's
  // are cut where there is one per piece. Throws Code::User for another shape or type.
  virtual void read(const contract::TensorEntry& entry, std::span<float> values) = 0;
  // Names that read() has not asked for.
  [[nodiscard]] virtual std::vector<std::string> unused() = 0;

  // Optimizer steps behind the moments. Throws Code::User, ending in `without` (what to do), where
  // there are none.
  [[nodiscard]] virtual std::int64_t moments_step(const std::string& without) = 0;
  // After moments_step().
  virtual void read_moment(const contract::TensorEntry& entry, Moment moment,
                           std::span<float> values, const std::string& without) = 0;

 private:
  ModelFacts facts_;
};

struct SourceOptions {
  base::Path path;
  base::Path vocabulary;         // vocab.txt; empty: the model's own
  bool moments = false;          // whether moments will be read
  std::string reader;            // as whom a checkpoint is marked as being read
  std::string other_vocabulary;  // what to do where a run's dataset does not fit
};

// Of a Hugging Face directory, a TensorFlow checkpoint's prefix, a run directory or one of its
// checkpoints, which is verified byte for byte. Code::NotFound or User, one line, for anything
// else, for a model of another architecture, and where the vocabulary is missing. `files` outlives
// it.
[[nodiscard]] std::unique_ptr<ModelSource> open_model_source(base::FileSystem& files,
                                                             const base::Clock& clock,
                                                             const SourceOptions& options);

}  // namespace regatta::trainer::interchange
