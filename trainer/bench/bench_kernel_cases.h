// What `bench kernels` times: the operations of a training step with the sizes of a model and of a
// batch of samples, in memory of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/bench/bench_kernels.h"
#include "trainer/contract/model_shape.h"
#include "trainer/device/device.h"
#include "trainer/model/batch_room.h"
#include "trainer/model/input_feed.h"

namespace regatta::trainer::bench {

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
  KernelCases(device::Device& device, const contract::LengthTable& lengths,
              const BenchKernelsOptions& options);

  [[nodiscard]] const std::vector<KernelCase>& cases() const { return cases_; }
  [[nodiscard]] const model::BatchRoom& room() const { return room_; }        // with padding
  [[nodiscard]] const contract::BatchSizes& sizes() const { return sizes_; }  // without

 private:
  struct Linear {
    std::string name;
    device::View weight, bias, weight_gradient, bias_gradient;
    std::int64_t outputs = 0, inputs = 0;
    double calls = 0;
  };

  [[nodiscard]] device::View allocate(std::int64_t count, device::Dtype dtype);
  [[nodiscard]] device::View activations(std::int64_t count);  // normal, of deviation 1
  [[nodiscard]] device::View constants(std::int64_t count, float value);
  void fill(device::View view, device::View source);
  void make_random();
  void make_batch(const contract::LengthTable& lengths);
  void make_arena();
  // `matrix` and `bias` name the first tensor of each; the product may run over several.
  [[nodiscard]] Linear linear(const std::string& name, const std::string& matrix,
                              const std::string& bias, std::int64_t outputs, double calls) const;
  [[nodiscard]] device::Dropout dropout(bool on) const;
  [[nodiscard]] double bytes_of(std::int64_t elements) const;  // of activations
  [[nodiscard]] double identity_bytes() const;                 // that dropout reads
  [[nodiscard]] device::AttentionForward attention_forward(bool with_dropout) const;
  [[nodiscard]] device::LayerNormForward norm_forward(bool with_dropout) const;

  void add(KernelCase entry) { cases_.push_back(std::move(entry)); }
  void add_product(const std::string& name, double calls, const device::Gemm& op);
  void add_linear_forward(const Linear& linear, device::View x, device::View y,
                          device::View pre_activation);
  struct BackwardStyle {
    bool accumulate = false;  // dx += instead of dx =
    bool bias = false;        // the weight gradient's product sums the bias gradient
    device::View gelu_input;  // of the input gradient's tail; may be empty
  };
  void add_linear_backward(const Linear& linear, device::View x, device::View dy, device::View dx,
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

  device::Device& device_;
  const BenchKernelsOptions& options_;
  const contract::ModelShape shape_;
  contract::TensorTable table_;
  std::vector<device::DeviceMemory> memory_;
  device::View random_, small_;  // float32, normal, of deviations 1 and 0.03
  model::InputFeed inputs_;
  model::BatchRoom room_;
  contract::BatchSizes sizes_;
  std::int64_t distinct_pieces_ = 0;
  device::View parameters_, gradients_, first_moment_, second_moment_, compute_copy_;
  std::vector<device::OptimizerTensor> tensors_;
  device::View hidden_, residual_, branch_, output_;  // [T, h]
  device::View qkv_, dqkv_;                           // [T, 3h]
  device::View inner_, activated_, dinner_;           // [T, f]
  device::View masked_a_, masked_b_, masked_c_;       // [M, h]
  device::View logits_;                               // [M, vocabulary_rows]
  device::View first_a_, first_b_, first_c_;          // [B, h]
  device::View next_logits_;                          // [B, 2]
  device::View mean_, rstd_, lse_;
  device::View gamma_, beta_, sums_;  // [h], [h], [3]
  std::vector<KernelCase> cases_;
};

}  // namespace regatta::trainer::bench
