// What a Hugging Face directory of a BERT says beside its weights: config.json, the names of its
// tensors, and the files of its tokenizer. Names and defaults are those of `transformers`,
// models/bert (configuration_bert.py, modeling_bert.py, tokenization_bert.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/data/vocabulary.h"

namespace regatta::trainer::interchange {

inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
inline constexpr char kSpecialTokensFile[] = "special_tokens_map.json";

enum class HuggingFaceClass {
  ForPreTraining,            // BertForPreTraining: encoder, pooler and both heads
  Encoder,                   // BertModel: encoder and pooler, names without "bert."
  ForQuestionAnswering,      // BertForQuestionAnswering: encoder and qa_outputs
  ForSequenceClassification  // BertForSequenceClassification: encoder, pooler and classifier
};
[[nodiscard]] const char* name_of(HuggingFaceClass model);
// The class with the head of a task.
[[nodiscard]] HuggingFaceClass class_of(contract::Task task);

struct HuggingFaceConfig {
  contract::ModelShape
      shape;  // vocabulary: rows of the word embedding, which may be more than pieces
  double dropout = 0.1;
  double attention_dropout = 0.1;
  data::TokenId pad = 0;
  std::string architecture{};  // the first of "architectures"; empty: not told
  // Of BertForSequenceClassification, or where no architecture is told: id2label, else LABEL_0, …
  // as many as num_labels says (2 if it is not told either).
  std::vector<std::string> labels{};
  std::string problem_type{};  // empty: not told
};

// The task of a BertForSequenceClassification. Nothing where it is none of ours: several labels at
// once, or several numbers.
[[nodiscard]] std::optional<contract::Task> task_of_classifier(const HuggingFaceConfig& config);

// Of the class ForSequenceClassification also id2label, label2id and problem_type, for the task of
// the shape: a regression has the one label LABEL_0. (`transformers` write no num_labels: it is the
// size of id2label.)
[[nodiscard]] std::string config_json(const HuggingFaceConfig& config, HuggingFaceClass model);

// Throws Code::User naming `source` and the key: not JSON, a size missing or impossible, labels
// that are no list, and whatever this trainer does not compute (another model type or activation,
// relative positions, a decoder). Without a model_type, the architecture must be one of BERT's.
[[nodiscard]] HuggingFaceConfig parse_config(const std::string& text, const std::string& source);

// The name of one of our tensors in a directory of this class; nothing for a tensor that the class
// does not have. Tied weights have one name: the decoder is the word embedding, and its bias is
// cls.predictions.bias.
[[nodiscard]] std::optional<std::string> exported_name(const std::string& tensor,
                                                       HuggingFaceClass model);
// All names under which directories hold one of our tensors: with and without "bert.", with
// LayerNorm's old gamma and beta, and tied copies last.
[[nodiscard]] std::vector<std::string> imported_names(const std::string& tensor);
// Whether one of our tensors has a row or element per piece, so that elsewhere it may be padded.
[[nodiscard]] bool is_per_piece(const std::string& tensor);

[[nodiscard]] std::string tokenizer_config_json(bool lower_case, int max_length);
[[nodiscard]] std::string special_tokens_json();
// do_lower_case of a tokenizer_config.json, if it says. Throws Code::User when it is not JSON.
[[nodiscard]] std::optional<bool> lower_case_of(const std::string& text, const std::string& source);

}  // namespace regatta::trainer::interchange
