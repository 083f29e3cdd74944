// What the tensors of Google's BERT (google-research/bert, modeling.py, run_pretraining.py,
// run_squad.py) are called here. Names only; no model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace regatta::checkpoint {

enum class TensorflowKind : std::uint8_t {
  Parameter,
  First,   // the optimizer's first moment of that parameter
  Second,  // and its second
  Step,    // global_step: optimizer steps done
};

struct TensorflowName {
  std::string name;        // as in Hugging Face's BertForPreTraining, BertForQuestionAnswering
  bool transpose = false;  // a kernel: [inputs, outputs] there, [outputs, inputs] here
  TensorflowKind kind = TensorflowKind::Parameter;

  friend bool operator==(const TensorflowName&, const TensorflowName&) = default;
};

// Nothing for a name that is not BERT's. The moments' suffixes are /adam_m and /adam_v (Google's
// AdamWeightDecayOptimizer and LAMB) or /LAMB and /LAMB_1 (MLPerf's starting point). The name of a
// Step is "global_step".
[[nodiscard]] std::optional<TensorflowName> map_tensorflow_name(std::string_view name);

}  // namespace regatta::checkpoint
