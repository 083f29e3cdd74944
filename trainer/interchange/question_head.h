// The head that finds answers in a text, as BertForQuestionAnswering has it: one linear layer that
// gives each token two logits, of being the answer's first and its last. A pre-training run has
// none, so for it the head comes from elsewhere or is new.
#pragma once

#include <cstdint>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::interchange {

inline constexpr char kQuestionWeight[] = "qa_outputs.weight";
inline constexpr char kQuestionBias[] = "qa_outputs.bias";
inline constexpr std::int64_t kSpanEnds = 2;

struct QuestionHead {
  std::vector<float> weight;  // [2, hidden]
  std::vector<float> bias;    // [2]
};

// As `transformers` begins a fine-tuning (BertPreTrainedModel._init_weights): weights from a normal
// distribution of standard deviation 0.02, biases 0. A pure function of both.
[[nodiscard]] QuestionHead initial_question_head(std::int64_t hidden, std::uint64_t seed);

// The two tensors of a .safetensors file, which may hold others (such as a fine-tuned model's).
// Throws Code::User naming `path` where they are not F32 of these shapes, or not finite.
[[nodiscard]] QuestionHead read_question_head(base::FileSystem& files, const base::Path& path,
                                              std::int64_t hidden);

}  // namespace regatta::trainer::interchange
