// What `bench kernels` times: the operations of a training step with the sizes of a model and of a
// batch of samples, in memory of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/model/batch_room.h"
#include "trainer/bench/bench_kernels.h"
#include "trainer/contract/model_shape.h"
#include "trainer/device/device.h"
#include "trainer/model/input_feed.h"

namespace regatta::trainer {

struct KernelCase {
  std::string name, group;
  std::string shape;          // for people
  double calls_per_step = 0;  // of one micro-batch with AdamW; 0: a variant the step does not use
  double flop = 0;            // either flop
  double bytes = 0;           // or bytes is above 0
  std::function<void()> enqueue;  // one call on stream 0; the same operations on the same memory
  std::function<void()> reset;    // before a batch of calls, untimed; may be empty
};

class KernelCases {
 public:
  // Allocates and fills what the cases use. The device outlives the object, and the object what was
  // enqueued.
  KernelCases(Device& device, const LengthTable& lengths, const BenchKernelsOptions& options);

  [[nodiscard]] const std::vector<KernelCase>& cases() const { return cases_; }
  [[nodiscard]] const BatchRoom& room() const { return room_; }     // with padding
  [[nodiscard]] const BatchSizes& sizes() const { return sizes_; }  // without

 private:
  struct Linear {
    std::string name;
    View weight, bias, weight_gradient, bias_gradient;
    std::int64_t outputs = 0, inputs = 0;
    double calls = 0;
  };

  [[nodiscard]] View allocate(std::int64_t count, Dtype dtype);
  [[nodiscard]] View activations(std::int64_t count);  // normal, of deviation 1
  [[nodiscard]] View constants(std::int64_t count, float value);
  void fill(View view, View source);
  void make_random();
  void make_batch(const LengthTable& lengths);
  void make_arena();
  // `matrix` and `bias` name the first tensor of each; the product may run over several.
  [[nodiscard]] Linear linear(const std::string& name, const std::string& matrix,
                              const std::string& bias, std::int64_t outputs, double calls) const;
  [[nodiscard]] Dropout dropout(bool on) const;
  [[nodiscard]] double bytes_of(std::int64_t elements) const;  // of activations
  [[nodiscard]] double identity_bytes() const;                 // that dropout reads
  [[nodiscard]] AttentionForward attention_forward(bool with_dropout) const;
  [[nodiscard]] LayerNormForward norm_forward(bool with_dropout) const;

  void add(KernelCase entry) { cases_.push_back(std::move(entry)); }
  void add_product(const std::string& name, double calls, const Gemm& op);
  void add_linear_forward(const Linear& linear, View x, View y, View pre_activation);
  struct BackwardStyle {
    bool accumulate = false;  // dx += instead of dx =
    bool bias = false;        // the weight gradient's product sums the bias gradient
    View gelu_input;          // of the input gradient's tail; may be empty
  };
  void add_linear_backward(const Linear& linear, View x, View dy, View dx,
                           const BackwardStyle& style);
  void add_layer_products();
  void add_head_products();
  void add_attention(bool with_dropout);
  void add_layer_norms(bool with_dropout);
  void add_masked_layer_norm();
  void add_embeddings();
  void add_losses();
  void add_rows();
  void add_activations();
  void add_fills_and_copies();
  void add_optimizer();

  Device& device_;
  const BenchKernelsOptions& options_;
  const ModelShape shape_;
  TensorTable table_;
  std::vector<DeviceMemory> memory_;
  View random_, small_;  // float32, normal, of deviations 1 and 0.03
  InputFeed inputs_;
  BatchRoom room_;
  BatchSizes sizes_;
  std::int64_t distinct_pieces_ = 0;
  View parameters_, gradients_, first_moment_, second_moment_, compute_copy_;
  std::vector<OptimizerTensor> tensors_;
  View hidden_, residual_, branch_, output_;  // [T, h]
  View qkv_, dqkv_;                           // [T, 3h]
  View inner_, activated_, dinner_;           // [T, f]
  View masked_a_, masked_b_, masked_c_;       // [M, h]
  View logits_;                               // [M, vocabulary_rows]
  View first_a_, first_b_, first_c_;          // [B, h]
  View next_logits_;                          // [B, 2]
  View mean_, rstd_, lse_;
  View gamma_, beta_, sums_;  // [h], [h], [3]
  std::vector<KernelCase> cases_;
};

}  // namespace regatta::trainer
