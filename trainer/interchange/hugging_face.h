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
  ForPreTraining,        // BertForPreTraining: encoder, pooler and both heads
  Encoder,               // BertModel: encoder and pooler, names without "bert."
  ForQuestionAnswering,  // BertForQuestionAnswering: encoder, and a head that no run here trains
};
[[nodiscard]] const char* name_of(HuggingFaceClass model);

struct HuggingFaceConfig {
  contract::ModelShape
      shape;  // vocabulary: rows of the word embedding, which may be more than pieces
  double dropout = 0.1;
  double attention_dropout = 0.1;
  data::TokenId pad = 0;
};

[[nodiscard]] std::string config_json(const HuggingFaceConfig& config, HuggingFaceClass model);

// Throws Code::User naming `source` and the key: not JSON, a size missing or impossible, and
// whatever this trainer does not compute (another model type or activation, relative positions, a
// decoder).
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
