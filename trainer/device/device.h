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
// * Padding, where a batch has more room than samples, changes nothing but sizes: tokens from
//   cumulative[B] on belong to no sample (attention writes zeros there), a label of −1 has neither
//   loss nor gradient, and an index of −1 selects no row.
//
// Notation: T tokens of the packed batch, B samples, h hidden, f feed-forward, H heads, d = h/H,
// V vocabulary, M masked positions. All matrices are row-major. Every view is float32 (or int32
// where it says so), except those named "activations": all activations of one operation have one
// type, the compute type of the run, which Device::computes_in must accept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace regatta::trainer::device {

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

// Owns host memory of Device::allocate_host. The device outlives it.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(Device& device, std::int64_t bytes);  // contents undefined
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  [[nodiscard]] std::int32_t* ints() const { return static_cast<std::int32_t*>(data_); }
  [[nodiscard]] float* floats() const { return static_cast<float*>(data_); }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
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

enum class Activation : std::uint8_t { None, GeluTanh, GeluErf };

// c[m, n] = a·b (+ beta·c) (+ bias[n]). Row-major; `transpose_a` says that a is stored [k, m],
// `transpose_b` that b is stored [n, k]. a and b are activations, c is one or float32, bias has c's
// type and may be empty. beta is 0 or 1. At most one of three epilogues, each what a separate
// operation after (or before) the product would do:
// * forward activation: `pre_activation` [m, n] is given and takes a·b + bias; c its GELU.
// * backward activation: `gelu_input` [m, n] is given: c = (a·b) ∘ gelu'(gelu_input), beta 0;
//   c_column_sums [n], float32 and maybe empty, += Σ_m c (the bias gradient of the layer below).
// * bias gradient: a_column_sums [m], float32, given with transpose_a: += Σ_k a[k, m].
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  View a, b, c;
  bool transpose_a = false;
  bool transpose_b = false;
  float beta = 0;
  View bias;
  Activation activation = Activation::None;
  View pre_activation;
  View gelu_input;
  View c_column_sums;
  View a_column_sums;
};

// Embeddings: x[t] = word[ids[t]] + position[p] + type[types[t]]; y = dropout(LayerNorm(x)).
// `x` [T, h] is kept for backward (the sum before LayerNorm), with mean and rstd [T]. Activations:
// word, position, type, x, y.
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
// Activations: x, dy.
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
// is not read and R need not be T. Activations: x, residual, z, y.
struct LayerNormForward {
  View x, residual, gamma, beta;
  float epsilon = 0;
  Dropout dropout;
  TokenIdentity tokens;
  View z, mean, rstd, y;
};
// dz = LayerNorm backward of dy, written to `dresidual` (may be dy itself); dx = dz through the
// dropout mask (may be the same view as dresidual when dropout is off). dgamma, dbeta are
// accumulated, and so is dbias [h] += Σ_r dx (the bias gradient of the product that made x; may be
// empty). Activations: dy, z, dresidual, dx.
struct LayerNormBackward {
  View dy, z, mean, rstd, gamma;
  Dropout dropout;
  TokenIdentity tokens;
  View dresidual, dx, dgamma, dbeta, dbias;
};

// softmax(q·kᵀ/√d), dropout, ·v, per sample and head, no padding. qkv [T, 3h]: query, key, value
// side by side, heads inside each. out [T, h]; lse [H, T] = log Σ exp of the scaled scores.
// Activations: qkv, out. Tokens of no sample get zeros in out and lse.
struct AttentionForward {
  View qkv, out, lse;
  int heads = 0;
  Dropout dropout;
  TokenIdentity tokens;
};
// dqkv [T, 3h] is overwritten (zeros for tokens of no sample); masks are drawn again. Activations:
// qkv, out, dout, dqkv.
struct AttentionBackward {
  View qkv, out, lse, dout, dqkv;
  int heads = 0;
  Dropout dropout;
  TokenIdentity tokens;
};

// Softmax cross-entropy of rows. logits [M, V] (activations) become their gradient × `scale`, one
// float32 on the device, in place; labels int32 [M], a row labelled −1 becomes zeros and counts
// nowhere. Rows lie `stride` elements apart (0: classes); what lies between is not looked at and
// becomes zeros. sums is float32 [3]: Σ loss, number of rows whose largest logit (lowest index on a
// tie) is the label, number of labelled rows; all three are accumulated. evaluate: leaves the
// logits undefined, no gradient, and does not read `scale`. label_smoothing e in [0, 1): the label
// has weight 1 − e + e/V, each other class e/V (Szegedy et al., arXiv 1512.00567).
struct CrossEntropy {
  View logits, labels;
  std::int64_t classes = 0;
  std::int64_t stride = 0;
  float label_smoothing = 0;
  View scale;
  bool evaluate = false;
  View sums;

  [[nodiscard]] std::int64_t row_stride() const { return stride == 0 ? classes : stride; }
};

// Where an answer begins and ends: for each of two columns, softmax cross-entropy over the tokens
// of a sample (BertForQuestionAnswering). logits [T, 2] (activations) become the gradient × `scale`
// of ½·(loss of column 0 + loss of column 1), in place; tokens of no sample get zeros. answers
// int32 [2·B]: of each sample the tokens, counted from its first, that columns 0 and 1 should
// point to; a sample with a −1 among them becomes zeros and counts nowhere. cumulative int32 [B+1].
// sums is float32 [3], accumulated: Σ loss, number of samples both of whose largest logits (first
// on a tie) are the labels, number of labelled samples. evaluate, label_smoothing: as above, of the
// sample's tokens.
struct SpanCrossEntropy {
  View logits, answers, cumulative;
  float label_smoothing = 0;
  View scale;
  bool evaluate = false;
  View sums;
};

// logits [B] (activations) become the gradient × `scale` of (logit − value)², in place; values
// float32 [B], where NaN gives zero and counts nowhere. sums is float32 [3], accumulated: Σ squared
// error, 0, number of values. evaluate: as above.
struct SquaredError {
  View logits, values;
  View scale;
  bool evaluate = false;
  View sums;
};

// One slice of the flat arena for the optimizers; table order.
struct OptimizerTensor {
  std::int64_t offset = 0, size = 0;
  bool weight_decay = true;
  bool trust_ratio = true;
  float learning_rate = 1;  // × the step's; 0: weights (and their copy) stay as they are
  std::int64_t number = 0;  // of the tensor this is (a piece of): where tensor_norms has its norms
};
// LAMB needs the norms of whole tensors. Where a rank holds only pieces, the update is made in two
// parts, with a sum over ranks between them.
enum class UpdatePart : std::uint8_t {
  Whole,
  Moments,  // moments; adds Σ w² and Σ u² of each piece to tensor_norms, unless it skips
  Weights   // weights and compute_copy, by the norms in tensor_norms
};
// Device scalars of a step, float32 [kStepScalars]; the host fills a pinned copy and enqueues it.
enum StepScalar : int {
  kLearningRate = 0,
  kBiasCorrection1,   // 1 − β1^step
  kBiasCorrection2,   // 1 − β2^step
  kClipNorm,          // 0: no clipping
  kInverseLossScale,  // gradients and their norm are multiplied by it first; 1 without loss scaling
  kStepScalars = 8,
};
// AdamW (Loshchilov & Hutter): m, v updated with g·factor, factor = min(1, clip / norm) from
// `squared_norm` (float32 [1], of the whole gradient as stored); w −= lr·(m̂/(√v̂ + ε) + decay·w). A
// squared norm that is not finite skips the update: nothing changes. LAMB (You et
// al., and MLPerf's reference): the same update u, then w −= lr·(‖w‖/‖u‖)·u per tensor, the ratio 1
// if either norm is 0 or the tensor has no trust ratio. Bias correction is on in both.
// compute_copy, of a 16-bit type and parameters' size, or empty: takes the new weights, rounded.
struct OptimizerUpdate {
  View parameters, gradients, first_moment, second_moment;  // the arena, or the same slice of each
  const OptimizerTensor* tensors = nullptr;  // read when enqueued; offsets relative to the slice
  std::int64_t tensor_count = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  bool lamb = false;
  View scalars;
  View squared_norm;
  View compute_copy;
  UpdatePart part = UpdatePart::Whole;  // others: LAMB only
  View tensor_norms;  // float32 [2 · tensors of the model]: Σ w², Σ u² each; unless Whole
};
// What the gradient noise scale is made of: sums[0…3] += Σ d², Σ ḡ², Σ (d/r)², Σ (ḡ/r)², where ḡ
// is a step's mean gradient, d what it differs by from that of a part of the step's samples, and
// r = √((β2·v + (1 − β2)·factor²·(ḡ² + part_to_rest·d²)) / bias correction 2) + ε with the factor
// of an update. d and ḡ are multiplied by the inverse loss scale first. Summed in float64 in a
// fixed order.
struct NoiseSums {
  View difference, mean, second_moment;  // d, ḡ, v; float32 of one size
  float part_to_rest = 1;                // samples of the part for each of the others
  float beta2 = 0, epsilon = 0;
  View scalars, squared_norm;  // as of an update
  View sums;                   // float32 [4]
};

// What decides how fast a device is and how it rounds; empty: not known, or it has none.
struct DeviceProfile {
  std::string kind;                // "cpu", "cuda"
  std::string model;               // of a GPU
  std::string compute_capability;  // of a GPU: "9.0"
  std::string instruction_set;     // of a CPU's kernels
  int threads = 0;                 // of a CPU
  // Who multiplies matrices: "built in", "oneDNN", "cuBLASLt".
  std::string products;
  std::string weight_gradient_products;
  std::string attention;
  bool tf32 = false;  // float32 products round their factors to 10 bits
  // Name and version of what it was loaded with: {"oneDNN", "3.6.2"}.
  std::vector<std::pair<std::string, std::string>> libraries;
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string description() const = 0;  // for people
  // The same as long as the device lives.
  [[nodiscard]] virtual DeviceProfile profile() const { return {}; }
  // Whether views lie in memory that the host, and so MPI, may read.
  [[nodiscard]] virtual bool is_on_host() const { return true; }
  // Whether activations may have this type.
  [[nodiscard]] virtual bool computes_in(Dtype dtype) const = 0;
  // What token counts should be rounded up to: 1 where any count is as good as another.
  [[nodiscard]] virtual std::int64_t token_bucket() const { return 1; }

  // Memory. Throws Code::Operator, saying how much was asked for, when there is not enough.
  [[nodiscard]] virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* memory) = 0;
  [[nodiscard]] virtual std::int64_t peak_bytes() const = 0;  // largest sum of live allocations
  // Host memory that copies to and from the device can overlap with other work.
  [[nodiscard]] virtual void* allocate_host(std::int64_t bytes) = 0;
  virtual void release_host(void* memory) = 0;

  // Streams and events. Waiting for an event that was never recorded is a bug.
  [[nodiscard]] virtual Stream make_stream() = 0;
  [[nodiscard]] virtual Event record(Stream stream) = 0;
  virtual void wait(Stream stream, Event event) = 0;  // later work on `stream` waits for `event`
  virtual void wait_host(Event event) = 0;            // blocks the calling thread
  virtual void synchronize() = 0;                     // everything enqueued so far is done

  // Runs `enqueue`, which only enqueues on `stream`, and may keep what it enqueued under `key` to
  // replay it the next time instead of calling it. So two calls with one key must enqueue the same
  // operations on the same memory; what differs between them lies in device memory.
  virtual void repeat(Stream stream, std::uint64_t key, const std::function<void()>& enqueue) {
    static_cast<void>(stream);
    static_cast<void>(key);
    enqueue();
  }
  virtual void forget_repeats() {}  // before memory that they use is released

  // Copies and fills. convert rounds to nearest even between float32 and 16-bit types.
  virtual void copy_to_device(Stream stream, View to, const void* from) = 0;
  virtual void copy_to_host(Stream stream, void* to, View from) = 0;
  virtual void copy(Stream stream, View to, View from) = 0;
  virtual void convert(Stream stream, View to, View from) = 0;
  virtual void fill_zero(Stream stream, View to) = 0;

  // Linear algebra and activations. Element-wise operands are activations of one type.
  virtual void gemm(Stream stream, const Gemm& op) = 0;
  // sum[c] += Σ_r x[r, c]; x [rows, columns] activations, sum float32.
  virtual void add_column_sums(Stream stream, View x, std::int64_t columns, View sum) = 0;
  virtual void gelu_forward(Stream stream, View x, View y, bool tanh_form) = 0;
  virtual void gelu_backward(Stream stream, View x, View dy, View dx, bool tanh_form) = 0;
  virtual void tanh_forward(Stream stream, View x, View y) = 0;
  virtual void tanh_backward(Stream stream, View y, View dy, View dx) = 0;
  virtual void add(Stream stream, View x, View y) = 0;  // y += x

  // Rows of activations. to[i] = from[index[i]], zeros for index −1; and to[index[i]] += from[i],
  // indexes unique but for −1, which adds nowhere. index int32.
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
  virtual void span_cross_entropy(Stream stream, const SpanCrossEntropy& op) = 0;
  virtual void squared_error(Stream stream, const SquaredError& op) = 0;

  // Optimizer. result[0] = Σ x², float32, summed in float64 in a fixed order.
  virtual void sum_of_squares(Stream stream, View x, View result) = 0;
  // x *= min(1, limit / √squared_norm); all float32, the latter two [1]. A squared norm that is not
  // finite leaves x as it is, and so does one that is 0.
  virtual void limit_norm(Stream stream, View x, View squared_norm, View limit) = 0;
  virtual void update(Stream stream, const OptimizerUpdate& op) = 0;
  virtual void add_noise_sums(Stream stream, const NoiseSums& op) = 0;
};

}  // namespace regatta::trainer::device
