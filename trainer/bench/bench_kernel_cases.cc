#include "trainer/bench/bench_kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/philox.h"
#include "trainer/bench/bench_seed.h"
#include "trainer/contract/random_site.h"
#include "trainer/samples/permutation.h"

namespace regatta::trainer::bench {
namespace {

using model::kCompute;

constexpr std::uint32_t kSite = 1001;
// Length of the random numbers that everything is filled from, over and over; not a power of two,
// so that rows of a matrix differ.
constexpr std::int64_t kRandomCount = (std::int64_t{1} << 20) + 64 * 17;
constexpr double kMaskFraction = 0.15;
constexpr char kWordEmbedding[] = "bert.embeddings.word_embeddings.weight";
constexpr char kLayer[] = "bert.encoder.layer.0.";

std::string dimensions(std::initializer_list<std::int64_t> sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

// Pieces as text has them: the r-th most frequent as often as 1/r (Zipf), most masked positions
// one and the same piece; so the embedding's gradient has long and short segments.
samples::Sample text_like_sample(std::int64_t length, std::int64_t number,
                                 const contract::ModelShape& shape) {
  base::PhiloxStream random(kSeed, static_cast<std::uint32_t>(number), 0, kSite);
  const auto piece = [&] {
    const double u = static_cast<double>(random.below(1U << 24U)) * 0x1p-24;
    return static_cast<std::int32_t>(std::pow(static_cast<double>(shape.vocabulary), u)) - 1;
  };
  samples::Sample sample;
  for (std::int64_t i = 0; i < length; ++i) {
    sample.ids.push_back(piece());
    sample.types.push_back(i < length / 2 ? 0 : 1);
  }
  const auto masked =
      std::max<std::int64_t>(1, std::llround(kMaskFraction * static_cast<double>(length)));
  for (std::int64_t i = 0; i < masked; ++i) {
    const std::int64_t position = i * length / masked;
    sample.masked_positions.push_back(static_cast<std::int32_t>(position));
    sample.masked_labels.push_back(piece());
    sample.ids[static_cast<std::size_t>(position)] = shape.vocabulary - 1;
  }
  sample.sample_label = static_cast<std::int32_t>(random.below(2));
  return sample;
}

}  // namespace

KernelCases::KernelCases(device::Device& device, const contract::LengthTable& lengths,
                         const BenchKernelsOptions& options)
    : device_(device),
      options_(options),
      shape_(options.shape),
      table_(contract::make_tensor_table(options.shape)),
      inputs_(device) {
  make_random();
  make_batch(lengths);
  make_arena();
  const std::int64_t h = shape_.hidden;
  for (device::View* view : {&hidden_, &residual_, &branch_, &output_}) {
    *view = activations(room_.tokens * h);
  }
  for (device::View* view : {&qkv_, &dqkv_}) *view = activations(room_.tokens * 3 * h);
  for (device::View* view : {&inner_, &activated_, &dinner_}) {
    *view = activations(room_.tokens * shape_.feed_forward);
  }
  for (device::View* view : {&masked_a_, &masked_b_, &masked_c_})
    *view = activations(room_.masked * h);
  logits_ = activations(room_.masked * contract::vocabulary_rows(shape_));
  for (device::View* view : {&first_a_, &first_b_, &first_c_})
    *view = activations(room_.samples * h);
  next_logits_ = activations(room_.samples * 2);
  mean_ = constants(room_.tokens, 0);
  rstd_ = constants(room_.tokens, 1);
  lse_ = constants(room_.tokens * shape_.heads, 0);
  gamma_ = constants(h, static_cast<float>(1 - options.dropout));
  beta_ = constants(h, 0);
  sums_ = constants(3, 0);
  device_.synchronize();

  add_layer_products();
  add_head_products();
  add_attention(true);
  add_attention(false);
  add_layer_norms(true);
  add_layer_norms(false);
  add_masked_layer_norm();
  add_embeddings();
  add_losses();
  add_rows();
  add_activations();
  add_fills_and_copies();
  add_optimizer();
}

device::View KernelCases::allocate(std::int64_t count, device::Dtype dtype) {
  memory_.emplace_back(device_, count, dtype);
  return memory_.back().view();
}

device::View KernelCases::activations(std::int64_t count) {
  const device::View view = allocate(count, options_.dtype);
  fill(view, random_);
  return view;
}

device::View KernelCases::constants(std::int64_t count, float value) {
  const device::View view = allocate(count, device::Dtype::Float32);
  const std::vector<float> values(static_cast<std::size_t>(count), value);
  device_.copy_to_device(kCompute, view, values.data());
  device_.synchronize();  // `values` ends here
  return view;
}

void KernelCases::fill(device::View view, device::View source) {
  for (std::int64_t begin = 0; begin < view.size; begin += source.size) {
    const std::int64_t count = std::min(source.size, view.size - begin);
    if (view.dtype == device::Dtype::Float32) {
      device_.copy(kCompute, view.slice(begin, count), source.slice(0, count));
    } else {
      device_.convert(kCompute, view.slice(begin, count), source.slice(0, count));
    }
  }
}

void KernelCases::make_random() {
  std::mt19937 generator(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(kRandomCount));
  for (float& value : values) value = normal(generator);
  random_ = allocate(kRandomCount, device::Dtype::Float32);
  device_.copy_to_device(kCompute, random_, values.data());
  device_.synchronize();
  for (float& value : values) value *= 0.03F;
  small_ = allocate(kRandomCount, device::Dtype::Float32);
  device_.copy_to_device(kCompute, small_, values.data());
  device_.synchronize();
}

// The middle quantiles of the length table, in an order that has nothing to do with length.
void KernelCases::make_batch(const contract::LengthTable& lengths) {
  const samples::Permutation order(static_cast<std::uint64_t>(options_.samples), kSeed, 0);
  std::vector<samples::Sample> samples;
  std::vector<std::int32_t> ordinals;
  for (int i = 0; i < options_.samples; ++i) {
    const double u =
        (static_cast<double>(order(static_cast<std::uint64_t>(i))) + 0.5) / options_.samples;
    const std::int64_t length = std::min<std::int64_t>(lengths.quantile(u), shape_.max_positions);
    samples.push_back(text_like_sample(length, i, shape_));
    ordinals.push_back(i);
    sizes_.tokens += length;
    sizes_.squared_tokens += length * length;
  }
  const samples::PackedBatch batch = samples::collate(samples, ordinals);
  sizes_.samples = batch.samples();
  sizes_.masked = batch.masked();
  std::vector<std::int32_t> ids = batch.ids;
  std::sort(ids.begin(), ids.end());
  distinct_pieces_ = std::unique(ids.begin(), ids.end()) - ids.begin();
  model::RoomPolicy policy;
  policy.token_bucket = device_.token_bucket();
  policy.mask_fraction = kMaskFraction;
  if (policy.token_bucket > 1) policy.max_length = shape_.max_positions;
  room_ = model::room_for(batch, policy);
  inputs_.reserve(room_);
  inputs_.upload(batch, {1, 1.0F / static_cast<float>(sizes_.masked), 1.0F}, room_);
}

void KernelCases::make_arena() {
  const std::int64_t size = table_.arena_size;
  for (device::View* view : {&parameters_, &gradients_, &first_moment_, &second_moment_}) {
    *view = allocate(size, device::Dtype::Float32);
  }
  fill(parameters_, small_);
  fill(gradients_, small_);
  device_.fill_zero(kCompute, first_moment_);
  device_.fill_zero(kCompute, second_moment_);
  if (options_.dtype != device::Dtype::Float32) {
    compute_copy_ = allocate(size, options_.dtype);
    fill(compute_copy_, small_);
  }
  for (const contract::TensorEntry& entry : table_.tensors) {
    tensors_.push_back({entry.offset, entry.size, entry.weight_decay, entry.trust_ratio});
  }
}

KernelCases::Linear KernelCases::linear(const std::string& name, const std::string& matrix,
                                        const std::string& bias, std::int64_t outputs,
                                        double calls) const {
  const device::View weights =
      options_.dtype == device::Dtype::Float32 ? parameters_ : compute_copy_;
  const contract::TensorEntry& entry = table_.at(matrix);
  const std::int64_t inputs = entry.shape.back();
  const std::int64_t bias_offset = table_.at(bias).offset;
  return {name,
          weights.slice(entry.offset, outputs * inputs),
          weights.slice(bias_offset, outputs),
          gradients_.slice(entry.offset, outputs * inputs),
          gradients_.slice(bias_offset, outputs),
          outputs,
          inputs,
          calls};
}

device::Dropout KernelCases::dropout(bool on) const {
  return {on ? contract::dropout_threshold(options_.dropout) : 0, kSeed,
          contract::attention_dropout_site(0)};
}

double KernelCases::bytes_of(std::int64_t elements) const {
  return static_cast<double>(elements * device::size_of(options_.dtype));
}

double KernelCases::identity_bytes() const { return 8.0 * static_cast<double>(room_.tokens); }

void KernelCases::add_product(const std::string& name, double calls, const device::Gemm& op) {
  KernelCase entry;
  entry.name = name;
  entry.group = "product";
  entry.shape = dimensions({op.m, op.n, op.k});
  entry.calls_per_step = calls;
  entry.flop =
      2.0 * static_cast<double>(op.m) * static_cast<double>(op.n) * static_cast<double>(op.k);
  entry.enqueue = [this, op] { device_.gemm(kCompute, op); };
  add(std::move(entry));
}

// y = x·Wᵀ + bias, and its GELU when a place for the pre-activation is given.
void KernelCases::add_linear_forward(const Linear& linear, device::View x, device::View y,
                                     device::View pre_activation) {
  device::Gemm op;
  op.n = linear.outputs;
  op.k = linear.inputs;
  op.m = x.size / op.k;
  op.a = x;
  op.b = linear.weight;
  op.c = y;
  op.transpose_b = true;
  op.bias = linear.bias;
  if (pre_activation.size > 0) {
    op.activation = shape_.gelu == contract::Gelu::Tanh ? device::Activation::GeluTanh
                                                        : device::Activation::GeluErf;
    op.pre_activation = pre_activation;
  }
  add_product(linear.name + ".forward", linear.calls, op);
}

// dW += dyᵀ·x and dx = dy·W, with the tails that trainer/model/bert.cc asks for.
void KernelCases::add_linear_backward(const Linear& linear, device::View x, device::View dy,
                                      device::View dx, const BackwardStyle& style) {
  device::Gemm weights;
  weights.m = linear.outputs;
  weights.n = linear.inputs;
  weights.k = x.size / linear.inputs;
  weights.a = dy;
  weights.b = x;
  weights.c = linear.weight_gradient;
  weights.transpose_a = true;
  weights.beta = 1;
  if (style.bias) weights.a_column_sums = linear.bias_gradient;
  add_product(linear.name + ".weight_gradient", linear.calls, weights);
  device::Gemm input;
  input.m = weights.k;
  input.n = linear.inputs;
  input.k = linear.outputs;
  input.a = dy;
  input.b = linear.weight;
  input.c = dx;
  input.beta = style.accumulate ? 1.0F : 0.0F;
  if (style.gelu_input.size > 0) {
    input.activation = shape_.gelu == contract::Gelu::Tanh ? device::Activation::GeluTanh
                                                           : device::Activation::GeluErf;
    input.gelu_input = style.gelu_input;
  }
  add_product(linear.name + ".input_gradient", linear.calls, input);
}

void KernelCases::add_layer_products() {
  const std::string layer = kLayer;
  const std::int64_t h = shape_.hidden;
  const double calls = shape_.layers;
  const Linear qkv = linear("qkv", layer + "attention.self.query.weight",
                            layer + "attention.self.query.bias", 3 * h, calls);
  const Linear out = linear("attention_output", layer + "attention.output.dense.weight",
                            layer + "attention.output.dense.bias", h, calls);
  const Linear fc1 = linear("fc1", layer + "intermediate.dense.weight",
                            layer + "intermediate.dense.bias", shape_.feed_forward, calls);
  const Linear fc2 =
      linear("fc2", layer + "output.dense.weight", layer + "output.dense.bias", h, calls);
  add_linear_forward(qkv, hidden_, dqkv_, {});
  add_linear_forward(out, hidden_, output_, {});
  add_linear_forward(fc1, hidden_, activated_, inner_);
  add_linear_forward(fc2, activated_, output_, {});
  // Where a LayerNorm follows, its backward has summed the bias gradient already.
  BackwardStyle after_norm, after_norm_with_gelu, onto_residual;
  after_norm_with_gelu.gelu_input = inner_;
  onto_residual.accumulate = onto_residual.bias = true;
  add_linear_backward(fc2, activated_, branch_, dinner_, after_norm_with_gelu);
  add_linear_backward(fc1, hidden_, activated_, output_, onto_residual);
  add_linear_backward(out, hidden_, branch_, output_, after_norm);
  add_linear_backward(qkv, hidden_, qkv_, output_, onto_residual);
}

void KernelCases::add_head_products() {
  const std::int64_t h = shape_.hidden;
  const Linear transform = linear("mlm_transform", "cls.predictions.transform.dense.weight",
                                  "cls.predictions.transform.dense.bias", h, 1);
  const Linear decoder = linear("decoder", kWordEmbedding, "cls.predictions.bias",
                                contract::vocabulary_rows(shape_), 1);
  const Linear pooler =
      linear("pooler", "bert.pooler.dense.weight", "bert.pooler.dense.bias", h, 1);
  const Linear next =
      linear("next_sentence", "cls.seq_relationship.weight", "cls.seq_relationship.bias", 2, 1);
  BackwardStyle style;
  style.bias = true;
  add_linear_forward(transform, masked_a_, masked_b_, masked_c_);
  add_linear_backward(transform, masked_a_, masked_b_, masked_c_, style);
  add_linear_forward(decoder, masked_a_, logits_, {});
  add_linear_backward(decoder, masked_a_, logits_, masked_b_, style);
  add_linear_forward(pooler, first_a_, first_b_, {});
  add_linear_backward(pooler, first_a_, first_b_, first_c_, style);
  add_linear_forward(next, first_a_, next_logits_, {});
  add_linear_backward(next, first_a_, next_logits_, first_b_, style);
}

device::AttentionForward KernelCases::attention_forward(bool with_dropout) const {
  device::AttentionForward op;
  op.qkv = qkv_;
  op.out = output_;
  op.lse = lse_;
  op.heads = shape_.heads;
  op.dropout = dropout(with_dropout);
  op.tokens = inputs_.identity();
  return op;
}

// Forward 4·h·s² FLOP a sample: two products. Backward 2.5 times that: five products, of which one
// is the recomputed scores.
void KernelCases::add_attention(bool with_dropout) {
  const bool in_step = with_dropout == (options_.dropout > 0);
  KernelCase entry;
  entry.name = with_dropout ? "attention.forward" : "attention.forward_without_dropout";
  entry.group = "attention";
  entry.shape =
      std::to_string(sizes_.samples) + " samples, " + dimensions({sizes_.tokens, shape_.hidden});
  entry.calls_per_step = in_step ? shape_.layers : 0;
  entry.flop = 4.0 * shape_.hidden * static_cast<double>(sizes_.squared_tokens);
  const device::AttentionForward forward = attention_forward(with_dropout);
  entry.enqueue = [this, forward] { device_.attention_forward(kCompute, forward); };
  entry.reset = [this] { fill(qkv_, random_); };
  KernelCase back = entry;
  add(std::move(entry));

  device::AttentionBackward op;
  op.qkv = forward.qkv;
  op.out = forward.out;
  op.lse = forward.lse;
  op.dout = branch_;
  op.dqkv = dqkv_;
  op.heads = forward.heads;
  op.dropout = forward.dropout;
  op.tokens = forward.tokens;
  back.name = with_dropout ? "attention.backward" : "attention.backward_without_dropout";
  back.flop *= 2.5;
  back.enqueue = [this, op] { device_.attention_backward(kCompute, op); };
  back.reset = [this, forward] {
    fill(qkv_, random_);
    fill(branch_, random_);
    device_.attention_forward(kCompute, forward);
  };
  add(std::move(back));
}

device::LayerNormForward KernelCases::norm_forward(bool with_dropout) const {
  device::LayerNormForward op;
  op.x = branch_;
  op.residual = residual_;
  op.gamma = gamma_;
  op.beta = beta_;
  op.epsilon = shape_.layer_norm_epsilon;
  op.dropout = dropout(with_dropout);
  op.tokens = inputs_.identity();
  op.z = hidden_;
  op.mean = mean_;
  op.rstd = rstd_;
  op.y = output_;
  return op;
}

// Forward reads x and the residual and writes z and y; backward reads dy and z and writes both
// gradients. Statistics, 8 bytes a row, are written or read.
void KernelCases::add_layer_norms(bool with_dropout) {
  const bool in_step = with_dropout == (options_.dropout > 0);
  const std::int64_t elements = room_.tokens * shape_.hidden;
  const std::string suffix = with_dropout ? "" : "_without_dropout";
  KernelCase entry;
  entry.name = "layer_norm.forward" + suffix;
  entry.group = "norm";
  entry.shape = dimensions({room_.tokens, shape_.hidden});
  entry.calls_per_step = in_step ? 2 * shape_.layers : 0;
  entry.bytes = bytes_of(4 * elements) + 8.0 * static_cast<double>(room_.tokens) +
                (with_dropout ? identity_bytes() : 0);
  const device::LayerNormForward forward = norm_forward(with_dropout);
  entry.enqueue = [this, forward] { device_.layer_norm_forward(kCompute, forward); };
  entry.reset = [this] {
    fill(branch_, random_);
    fill(residual_, random_);
  };
  KernelCase back = entry;
  add(std::move(entry));

  device::LayerNormBackward op;
  op.dy = branch_;
  op.z = hidden_;
  op.mean = mean_;
  op.rstd = rstd_;
  op.gamma = gamma_;
  op.dropout = forward.dropout;
  op.tokens = forward.tokens;
  op.dresidual = residual_;
  op.dx = output_;
  const contract::TensorEntry& dgamma = table_.at(std::string(kLayer) + "output.LayerNorm.weight");
  op.dgamma = gradients_.slice(dgamma.offset, shape_.hidden);
  const contract::TensorEntry& dbeta = table_.at(std::string(kLayer) + "output.LayerNorm.bias");
  op.dbeta = gradients_.slice(dbeta.offset, shape_.hidden);
  const contract::TensorEntry& dbias = table_.at(std::string(kLayer) + "output.dense.bias");
  op.dbias = gradients_.slice(dbias.offset, shape_.hidden);
  back.name = "layer_norm.backward" + suffix;
  back.enqueue = [this, op] { device_.layer_norm_backward(kCompute, op); };
  back.reset = [this, forward, reset = back.reset] {
    reset();
    device_.layer_norm_forward(kCompute, forward);
  };
  add(std::move(back));
}

}  // namespace regatta::trainer::bench
