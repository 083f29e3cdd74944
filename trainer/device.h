// The seam between training and hardware. A Device owns memory, streams and events and offers the
// fused operations of BERT. Contract:
//
// * Every operation only enqueues on the stream given; nothing it reads or writes may be touched by
//   the host, or by another stream, before an event orders it. Operations of one stream run in
//   order.
// * Views do not own. The memory behind a view lives until the device is synchronised.
// * Host memory passed to copy_to_device and copy_to_host stays valid and unchanged until the event
//   recorded after the copy has been waited for.
// * Scalars that steer a step (learning rate, step number, clip factor) live in device memory; no
//   operation returns a value to the host. The host reads results at one named point per step.
// * Sizes are checked on entry with base::check: a wrong shape is a bug, never an input error.
// * Reductions have a fixed order: the same calls with the same sizes give the same bits, whatever
//   else runs. No operation depends on which row of a packed batch a sample occupies, except
//   through summation order of weight gradients.
//
// Notation: T tokens of the packed batch, B samples, h hidden, f feed-forward, H heads, d = h/H,
// V vocabulary, M masked positions. All matrices are row-major. float32 unless said otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace regatta::trainer {

enum class Dtype : std::uint8_t { Float32, BFloat16, Float16, Float8E4M3, Float8E5M2, Int32, Byte };
[[nodiscard]] std::int64_t size_of(Dtype dtype);

// A typed piece of device memory; trivially copyable.
struct View {
  void* data = nullptr;
  std::int64_t size = 0;  // elements
  Dtype dtype = Dtype::Float32;

  [[nodiscard]] float* floats() const { return static_cast<float*>(data); }
  [[nodiscard]] std::int32_t* ints() const { return static_cast<std::int32_t*>(data); }
  [[nodiscard]] std::int64_t bytes() const { return size * size_of(dtype); }
  // Elements [begin, begin + count).
  [[nodiscard]] View slice(std::int64_t begin, std::int64_t count) const;
};

class Device;

// Owns one allocation of a device, aligned to 256 bytes. The device outlives it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, std::int64_t count, Dtype dtype);  // contents undefined
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  [[nodiscard]] const View& view() const { return view_; }

 private:
  Device* device_ = nullptr;
  View view_;
};

using Stream = int;          // 0 is the compute stream; make_stream() gives others
using Event = std::int64_t;  // monotonically growing per device

// Dropout of one site: see trainer/contract/random_site.h. threshold 0 is "off".
struct Dropout {
  std::uint32_t threshold = 0;
  std::uint64_t seed = 0;
  std::uint32_t site = 0;
};

// Who each packed token is: what makes masks independent of packing. int32 [T] each, except
// cumulative [B+1] (0 … T). `step` is one int32 in device memory.
struct TokenIdentity {
  View ordinal;     // of the token's sample in the global batch
  View position;    // of the token in its sample
  View cumulative;  // first token of each sample
  View step;
  std::int64_t max_length = 0;  // of the samples in this batch
};

// c[m, n] = a·b (+ beta·c) (+ bias[n]). Row-major; `transpose_a` says that a is stored [k, m],
// `transpose_b` that b is stored [n, k]. bias may be empty. beta is 0 or 1.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  View a, b, c;
  bool transpose_a = false;
  bool transpose_b = false;
  float beta = 0;
  View bias;
};

// Embeddings: x[t] = word[ids[t]] + position[p] + type[types[t]]; y = dropout(LayerNorm(x)).
// `x` [T, h] is kept for backward (the sum before LayerNorm), with mean and rstd [T].
struct EmbeddingForward {
  View ids, types;            // int32 [T]
  View word, position, type;  // [V, h], [P, h], [types, h]
  View gamma, beta;           // [h]
  float epsilon = 0;
  Dropout dropout;
  TokenIdentity tokens;
  View x, mean, rstd, y;
};
// Accumulates into every gradient. Tokens sorted by id (`sorted` int32 [T]: token indexes, ties in
// token order) make the word gradient a segmented sum in a fixed order. dy [T, h] is overwritten.
struct EmbeddingBackward {
  View ids, types, sorted;
  View gamma, x, mean, rstd;
  Dropout dropout;
  TokenIdentity tokens;
  View dy;
  View dword, dposition, dtype_rows, dgamma, dbeta;
};

// z = dropout(x) + residual; y = LayerNorm(z)·gamma + beta. x [R, h] already has its bias. residual
// may be empty (then z = dropout(x)); z may be x itself. mean, rstd [R]. With dropout off, `tokens`
// is not read and R need not be T.
struct LayerNormForward {
  View x, residual, gamma, beta;
  float epsilon = 0;
  Dropout dropout;
  TokenIdentity tokens;
  View z, mean, rstd, y;
};
// dz = LayerNorm backward of dy, written to `dresidual` (may be dy itself); dx = dz through the
// dropout mask (may be the same view as dresidual when dropout is off). dgamma, dbeta are
// accumulated.
struct LayerNormBackward {
  View dy, z, mean, rstd, gamma;
  Dropout dropout;
  TokenIdentity tokens;
  View dresidual, dx, dgamma, dbeta;
};

// softmax(q·kᵀ/√d), dropout, ·v, per sample and head, no padding. qkv [T, 3h]: query, key, value
// side by side, heads inside each. out [T, h]; lse [H, T] = log Σ exp of the scaled scores.
struct AttentionForward {
  View qkv, out, lse;
  int heads = 0;
  Dropout dropout;
  TokenIdentity tokens;
};
// dqkv [T, 3h] is overwritten; masks are drawn again.
struct AttentionBackward {
  View qkv, out, lse, dout, dqkv;
  int heads = 0;
  Dropout dropout;
  TokenIdentity tokens;
};

// Softmax cross-entropy of rows. logits [M, V] become their gradient × `scale` in place; labels
// int32 [M]. sums is float32 [3]: Σ loss, number of rows whose largest logit (lowest index on a
// tie) is the label, M; all three are accumulated. evaluate: leaves the logits undefined, no
// gradient.
struct CrossEntropy {
  View logits, labels;
  std::int64_t classes = 0;
  float scale = 1;
  bool evaluate = false;
  View sums;
};

// One slice of the flat arena for the optimizers; table order.
struct OptimizerTensor {
  std::int64_t offset = 0, size = 0;
  bool weight_decay = true;
  bool trust_ratio = true;
};
// Device scalars of a step, float32 [kStepScalars]; the host fills a pinned copy and enqueues it.
enum StepScalar : int {
  kLearningRate = 0,
  kBiasCorrection1,  // 1 − β1^step
  kBiasCorrection2,  // 1 − β2^step
  kClipNorm,         // 0: no clipping
  kStepScalars = 8,
};
// AdamW (Loshchilov & Hutter): m, v updated with g·factor, factor = min(1, clip / norm) from
// `squared_norm` (float32 [1], of the whole gradient); w −= lr·(m̂/(√v̂ + ε) + decay·w). LAMB (You et
// al., and MLPerf's reference): the same update u, then w −= lr·(‖w‖/‖u‖)·u per tensor, the ratio 1
// if either norm is 0 or the tensor has no trust ratio. Bias correction is on in both.
struct OptimizerUpdate {
  View parameters, gradients, first_moment, second_moment;  // the arena, or the same slice of each
  const OptimizerTensor* tensors = nullptr;  // read when enqueued; offsets relative to the slice
  std::int64_t tensor_count = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  bool lamb = false;
  View scalars;
  View squared_norm;
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string description() const = 0;  // for environment.json

  // Memory. Throws Code::Operator, saying how much was asked for, when there is not enough.
  [[nodiscard]] virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* memory) = 0;
  [[nodiscard]] virtual std::int64_t peak_bytes() const = 0;  // largest sum of live allocations

  // Streams and events. Waiting for an event that was never recorded is a bug.
  [[nodiscard]] virtual Stream make_stream() = 0;
  [[nodiscard]] virtual Event record(Stream stream) = 0;
  virtual void wait(Stream stream, Event event) = 0;  // later work on `stream` waits for `event`
  virtual void wait_host(Event event) = 0;            // blocks the calling thread
  virtual void synchronize() = 0;                     // everything enqueued so far is done

  // Copies and fills.
  virtual void copy_to_device(Stream stream, View to, const void* from) = 0;
  virtual void copy_to_host(Stream stream, void* to, View from) = 0;
  virtual void copy(Stream stream, View to, View from) = 0;
  virtual void fill_zero(Stream stream, View to) = 0;

  // Linear algebra and activations.
  virtual void gemm(Stream stream, const Gemm& op) = 0;
  // sum[c] += Σ_r x[r, c]; x [rows, columns].
  virtual void add_column_sums(Stream stream, View x, std::int64_t columns, View sum) = 0;
  virtual void gelu_forward(Stream stream, View x, View y, bool tanh_form) = 0;
  virtual void gelu_backward(Stream stream, View x, View dy, View dx, bool tanh_form) = 0;
  virtual void tanh_forward(Stream stream, View x, View y) = 0;
  virtual void tanh_backward(Stream stream, View y, View dy, View dx) = 0;
  virtual void add(Stream stream, View x, View y) = 0;  // y += x

  // Rows. to[i] = from[index[i]]; and to[index[i]] += from[i], indexes unique. index int32.
  virtual void gather_rows(Stream stream, View from, View index, std::int64_t columns, View to) = 0;
  virtual void scatter_add_rows(Stream stream, View from, View index, std::int64_t columns,
                                View to) = 0;

  // Fused operations.
  virtual void embedding_forward(Stream stream, const EmbeddingForward& op) = 0;
  virtual void embedding_backward(Stream stream, const EmbeddingBackward& op) = 0;
  virtual void layer_norm_forward(Stream stream, const LayerNormForward& op) = 0;
  virtual void layer_norm_backward(Stream stream, const LayerNormBackward& op) = 0;
  virtual void attention_forward(Stream stream, const AttentionForward& op) = 0;
  virtual void attention_backward(Stream stream, const AttentionBackward& op) = 0;
  virtual void cross_entropy(Stream stream, const CrossEntropy& op) = 0;

  // Optimizer. result[0] = Σ x², float32, summed in float64 in a fixed order.
  virtual void sum_of_squares(Stream stream, View x, View result) = 0;
  virtual void update(Stream stream, const OptimizerUpdate& op) = 0;
};

}  // namespace regatta::trainer
