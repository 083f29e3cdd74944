// BERT for pre-training on a Device: unpadded from the embedding to the loss, the MLM head on
// masked positions only, decoder tied to the word embedding.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/batch.h"
#include "trainer/contract/model_shape.h"
#include "trainer/device.h"

namespace regatta::trainer {

enum class Mode { Training, Evaluation };

struct DropoutConfig {
  double hidden = 0;     // after embeddings, attention output and feed-forward
  double attention = 0;  // on attention probabilities
  std::uint64_t seed = 0;
};

// Counts of the whole optimizer step over all ranks and micro-batches: the loss is
// Σ mlm / masked + Σ nsp / samples, so gradients need only be summed.
struct LossScale {
  std::int64_t masked = 1;
  std::int64_t samples = 1;
};

// Sums over every forward since reset_statistics().
struct Statistics {
  double mlm_loss = 0;     // sum over masked positions
  double mlm_correct = 0;  // argmax hits
  double masked = 0;
  double nsp_loss = 0;
  double nsp_correct = 0;
  double samples = 0;
};

class Bert {
 public:
  // Allocates parameters and gradients (undefined until filled). The device outlives the model.
  Bert(Device& device, const ModelShape& shape, const DropoutConfig& dropout);

  [[nodiscard]] const ModelShape& shape() const { return shape_; }
  [[nodiscard]] const TensorTable& table() const { return table_; }
  [[nodiscard]] View parameters() const { return parameters_.view(); }
  [[nodiscard]] View gradients() const { return gradients_.view(); }
  // The slice of one arena that holds the tensor (a slice of the parameters' or of the gradients').
  [[nodiscard]] View parameter(const std::string& name) const;

  // Enqueues the upload of a batch. `batch` and `step` (the number of the optimizer step, for
  // dropout) stay unchanged until the stream has passed this point.
  void upload(const PackedBatch& batch, const std::int32_t* step);
  // Enqueues loss (and accuracy sums) of the uploaded batch.
  void forward(Mode mode, const LossScale& scale);
  // Enqueues the gradients of the last forward, added to gradients().
  void backward();

  void zero_gradients();
  void reset_statistics();
  // Enqueues the copy of the sums to the host; `sums` has 6 floats and stays valid until waited
  // for.
  void read_statistics(float* sums);
  [[nodiscard]] static Statistics statistics_of(const float* sums);

 private:
  struct Linear {
    View weight, bias, weight_gradient, bias_gradient;
    std::int64_t outputs = 0, inputs = 0;
  };
  struct Norm {
    View gamma, beta, gamma_gradient, beta_gradient;
  };
  struct LayerParameters {
    Linear query_key_value, attention_output, intermediate, output;
    Norm attention_norm, output_norm;
  };
  struct NormState {
    DeviceMemory z, mean, rstd, y;
  };
  struct LayerState {
    DeviceMemory qkv, lse, attention, inner, activated;
    NormState attention_norm, output_norm;
  };
  struct Inputs {
    DeviceMemory ids, types, ordinals, positions, sorted, cumulative;
    DeviceMemory masked_rows, masked_labels, first_rows, next_sentence_labels, step;
  };

  [[nodiscard]] View gradient(const std::string& name) const;
  [[nodiscard]] Linear linear(const std::string& name) const;
  [[nodiscard]] Norm norm(const std::string& name) const;
  [[nodiscard]] Linear query_key_value(int layer) const;
  void bind_parameters();
  void reserve(const PackedBatch& batch);
  [[nodiscard]] TokenIdentity identity() const;
  [[nodiscard]] Dropout dropout_at(std::uint32_t site, double probability) const;

  void apply(const Linear& linear, View x, std::int64_t rows, View y);
  // dx = dy·W (+ dx when `accumulate`); weight and bias gradients are added.
  void apply_backward(const Linear& linear, View x, View dy, std::int64_t rows, View dx,
                      bool accumulate);
  void layer_forward(int layer, View x);
  void layer_backward(int layer, View x, View dy);
  void mlm_forward(View hidden);
  void mlm_backward(View dhidden);
  void nsp_forward(View hidden);
  void nsp_backward(View dhidden);
  [[nodiscard]] View rows(const DeviceMemory& memory, std::int64_t count,
                          std::int64_t columns) const;

  Device& device_;
  ModelShape shape_;
  TensorTable table_;
  DropoutConfig dropout_;
  DeviceMemory parameters_, gradients_;
  std::vector<LayerParameters> layers_;
  Linear mlm_transform_, pooler_, next_sentence_;
  Norm embedding_norm_, mlm_norm_;
  View word_, word_gradient_, decoder_bias_, decoder_bias_gradient_;

  // Sizes of the uploaded batch and of the buffers.
  std::int64_t tokens_ = 0, samples_ = 0, masked_ = 0, max_length_ = 0;
  std::int64_t token_capacity_ = 0, sample_capacity_ = 0, masked_capacity_ = 0;
  Mode mode_ = Mode::Evaluation;
  Inputs inputs_;
  NormState embedding_;
  std::vector<LayerState> states_;
  DeviceMemory branch_, gradient_a_, gradient_b_, gradient_qkv_, gradient_inner_;
  DeviceMemory masked_hidden_, masked_inner_, masked_activated_, logits_, masked_gradient_;
  NormState masked_norm_;
  DeviceMemory first_hidden_, pooled_, next_logits_, first_gradient_;
  DeviceMemory statistics_;  // [6]: MLM loss, hits, count; NSP loss, hits, count
  std::array<float, 2> host_scales_{};
  DeviceMemory scales_;  // [2]: of the MLM and of the NSP gradient
};

}  // namespace regatta::trainer
