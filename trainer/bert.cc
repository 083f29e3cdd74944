#include "trainer/bert.h"

#include <algorithm>

#include "base/error.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer {
namespace {

constexpr Stream kCompute = 0;

// Buffers grow in steps, so that batches of slightly different sizes reuse them.
std::int64_t rounded(std::int64_t count) { return (count + 255) / 256 * 256; }

}  // namespace

Bert::Bert(Device& device, const ModelShape& shape, const DropoutConfig& dropout)
    : device_(device),
      shape_(shape),
      table_(make_tensor_table(shape)),
      dropout_(dropout),
      parameters_(device, table_.arena_size, Dtype::Float32),
      gradients_(device, table_.arena_size, Dtype::Float32),
      statistics_(device, 6, Dtype::Float32),
      scales_(device, 2, Dtype::Float32) {
  check_shape(shape);
  device_.fill_zero(kCompute, parameters_.view());  // the gaps between tensors stay zero
  device_.fill_zero(kCompute, gradients_.view());
  bind_parameters();
  states_.resize(static_cast<std::size_t>(shape.layers));
  inputs_.step = DeviceMemory(device, 1, Dtype::Int32);
}

View Bert::parameter(const std::string& name) const {
  const TensorEntry& entry = table_.at(name);
  return parameters_.view().slice(entry.offset, entry.size);
}

View Bert::gradient(const std::string& name) const {
  const TensorEntry& entry = table_.at(name);
  return gradients_.view().slice(entry.offset, entry.size);
}

Bert::Linear Bert::linear(const std::string& name) const {
  const TensorEntry& weight = table_.at(name + ".weight");
  return {parameter(name + ".weight"), parameter(name + ".bias"), gradient(name + ".weight"),
          gradient(name + ".bias"),    weight.shape[0],           weight.shape[1]};
}

Bert::Norm Bert::norm(const std::string& name) const {
  return {parameter(name + ".weight"), parameter(name + ".bias"), gradient(name + ".weight"),
          gradient(name + ".bias")};
}

// Query, key and value are neighbours in the arena, so one view covers the three.
Bert::Linear Bert::query_key_value(int layer) const {
  const std::string prefix = "bert.encoder.layer." + std::to_string(layer) + ".attention.self.";
  const std::int64_t hidden = shape_.hidden;
  const std::int64_t weight = table_.at(prefix + "query.weight").offset;
  const std::int64_t bias = table_.at(prefix + "query.bias").offset;
  base::check(table_.at(prefix + "value.weight").offset == weight + 2 * hidden * hidden &&
                  table_.at(prefix + "value.bias").offset == bias + 2 * hidden,
              "query, key and value lie side by side");
  const View parameters = parameters_.view();
  const View gradients = gradients_.view();
  return {parameters.slice(weight, 3 * hidden * hidden),
          parameters.slice(bias, 3 * hidden),
          gradients.slice(weight, 3 * hidden * hidden),
          gradients.slice(bias, 3 * hidden),
          3 * hidden,
          hidden};
}

void Bert::bind_parameters() {
  for (int layer = 0; layer < shape_.layers; ++layer) {
    const std::string prefix = "bert.encoder.layer." + std::to_string(layer) + ".";
    layers_.push_back({query_key_value(layer), linear(prefix + "attention.output.dense"),
                       linear(prefix + "intermediate.dense"), linear(prefix + "output.dense"),
                       norm(prefix + "attention.output.LayerNorm"),
                       norm(prefix + "output.LayerNorm")});
  }
  mlm_transform_ = linear("cls.predictions.transform.dense");
  mlm_norm_ = norm("cls.predictions.transform.LayerNorm");
  decoder_bias_ = parameter("cls.predictions.bias");
  decoder_bias_gradient_ = gradient("cls.predictions.bias");
  pooler_ = linear("bert.pooler.dense");
  next_sentence_ = linear("cls.seq_relationship");
  embedding_norm_ = norm("bert.embeddings.LayerNorm");
  word_ = parameter("bert.embeddings.word_embeddings.weight");
  word_gradient_ = gradient("bert.embeddings.word_embeddings.weight");
}

View Bert::rows(const DeviceMemory& memory, std::int64_t count, std::int64_t columns) const {
  return memory.view().slice(0, count * columns);
}

void Bert::reserve(const PackedBatch& batch) {
  const std::int64_t hidden = shape_.hidden;
  const auto floats = [&](std::int64_t count) {
    return DeviceMemory(device_, count, Dtype::Float32);
  };
  const auto ints = [&](std::int64_t count) { return DeviceMemory(device_, count, Dtype::Int32); };
  const auto make_norm = [&](NormState& state, std::int64_t count, bool own_z) {
    if (own_z) state.z = floats(count * hidden);
    state.mean = floats(count);
    state.rstd = floats(count);
    state.y = floats(count * hidden);
  };
  if (batch.tokens() > token_capacity_) {
    const std::int64_t count = token_capacity_ = rounded(batch.tokens());
    for (DeviceMemory* input :
         {&inputs_.ids, &inputs_.types, &inputs_.ordinals, &inputs_.positions, &inputs_.sorted}) {
      *input = ints(count);
    }
    make_norm(embedding_, count, true);
    for (LayerState& state : states_) {
      state.qkv = floats(count * 3 * hidden);
      state.lse = floats(count * shape_.heads);
      state.attention = floats(count * hidden);
      state.inner = floats(count * shape_.feed_forward);
      state.activated = floats(count * shape_.feed_forward);
      make_norm(state.attention_norm, count, true);
      make_norm(state.output_norm, count, true);
    }
    branch_ = floats(count * hidden);
    gradient_a_ = floats(count * hidden);
    gradient_b_ = floats(count * hidden);
    gradient_qkv_ = floats(count * 3 * hidden);
    gradient_inner_ = floats(count * shape_.feed_forward);
  }
  if (batch.samples() > sample_capacity_) {
    const std::int64_t count = sample_capacity_ = batch.samples();
    inputs_.cumulative = ints(count + 1);
    inputs_.first_rows = ints(count);
    inputs_.next_sentence_labels = ints(count);
    first_hidden_ = floats(count * hidden);
    pooled_ = floats(count * hidden);
    next_logits_ = floats(count * 2);
    first_gradient_ = floats(count * hidden);
  }
  if (batch.masked() > masked_capacity_) {
    const std::int64_t count = masked_capacity_ = (batch.masked() + 63) / 64 * 64;
    inputs_.masked_rows = ints(count);
    inputs_.masked_labels = ints(count);
    masked_hidden_ = floats(count * hidden);
    masked_inner_ = floats(count * hidden);
    masked_activated_ = floats(count * hidden);
    make_norm(masked_norm_, count, true);
    logits_ = floats(count * shape_.vocabulary);
    masked_gradient_ = floats(count * hidden);
  }
}

void Bert::upload(const PackedBatch& batch, const std::int32_t* step) {
  reserve(batch);
  tokens_ = batch.tokens();
  samples_ = batch.samples();
  masked_ = batch.masked();
  max_length_ = batch.max_length;
  const auto put = [&](const DeviceMemory& to, const std::vector<std::int32_t>& from) {
    const auto count = static_cast<std::int64_t>(from.size());
    if (count > 0) device_.copy_to_device(kCompute, to.view().slice(0, count), from.data());
  };
  put(inputs_.ids, batch.ids);
  put(inputs_.types, batch.types);
  put(inputs_.ordinals, batch.ordinals);
  put(inputs_.positions, batch.positions);
  put(inputs_.sorted, batch.sorted);
  put(inputs_.cumulative, batch.cumulative);
  put(inputs_.masked_rows, batch.masked_rows);
  put(inputs_.masked_labels, batch.masked_labels);
  put(inputs_.first_rows, batch.first_rows);
  put(inputs_.next_sentence_labels, batch.next_sentence_labels);
  device_.copy_to_device(kCompute, inputs_.step.view(), step);
}

TokenIdentity Bert::identity() const {
  return {inputs_.ordinals.view().slice(0, tokens_), inputs_.positions.view().slice(0, tokens_),
          inputs_.cumulative.view().slice(0, samples_ + 1), inputs_.step.view(), max_length_};
}

Dropout Bert::dropout_at(std::uint32_t site, double probability) const {
  if (mode_ == Mode::Evaluation) return {};
  return {dropout_threshold(probability), dropout_.seed, site};
}

void Bert::apply(const Linear& linear, View x, std::int64_t count, View y) {
  Gemm op;
  op.m = count;
  op.n = linear.outputs;
  op.k = linear.inputs;
  op.a = x;
  op.b = linear.weight;
  op.c = y;
  op.transpose_b = true;
  op.bias = linear.bias;
  device_.gemm(kCompute, op);
}

void Bert::apply_backward(const Linear& linear, View x, View dy, std::int64_t count, View dx,
                          bool accumulate) {
  device_.add_column_sums(kCompute, dy, linear.outputs, linear.bias_gradient);
  Gemm weight;  // dW += dyᵀ·x
  weight.m = linear.outputs;
  weight.n = linear.inputs;
  weight.k = count;
  weight.a = dy;
  weight.b = x;
  weight.c = linear.weight_gradient;
  weight.transpose_a = true;
  weight.beta = 1;
  device_.gemm(kCompute, weight);
  Gemm input;  // dx (+)= dy·W
  input.m = count;
  input.n = linear.inputs;
  input.k = linear.outputs;
  input.a = dy;
  input.b = linear.weight;
  input.c = dx;
  input.beta = accumulate ? 1.0F : 0.0F;
  device_.gemm(kCompute, input);
}

void Bert::forward(Mode mode, const LossScale& scale) {
  mode_ = mode;
  if (mode == Mode::Training) {
    host_scales_ = {1.0F / static_cast<float>(scale.masked),
                    1.0F / static_cast<float>(scale.samples)};
    device_.copy_to_device(kCompute, scales_.view(), host_scales_.data());
  }
  EmbeddingForward embedding;
  embedding.ids = inputs_.ids.view().slice(0, tokens_);
  embedding.types = inputs_.types.view().slice(0, tokens_);
  embedding.word = word_;
  embedding.position = parameter("bert.embeddings.position_embeddings.weight");
  embedding.type = parameter("bert.embeddings.token_type_embeddings.weight");
  embedding.gamma = embedding_norm_.gamma;
  embedding.beta = embedding_norm_.beta;
  embedding.epsilon = shape_.layer_norm_epsilon;
  embedding.dropout =
      dropout_at(static_cast<std::uint32_t>(RandomSite::EmbeddingDropout), dropout_.hidden);
  embedding.tokens = identity();
  embedding.x = rows(embedding_.z, tokens_, shape_.hidden);
  embedding.mean = rows(embedding_.mean, tokens_, 1);
  embedding.rstd = rows(embedding_.rstd, tokens_, 1);
  embedding.y = rows(embedding_.y, tokens_, shape_.hidden);
  device_.embedding_forward(kCompute, embedding);
  View hidden = embedding.y;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    layer_forward(layer, hidden);
    hidden = rows(states_[static_cast<std::size_t>(layer)].output_norm.y, tokens_, shape_.hidden);
  }
  nsp_forward(hidden);
  if (masked_ > 0) mlm_forward(hidden);
}

void Bert::layer_forward(int layer, View x) {
  const LayerParameters& parameters = layers_[static_cast<std::size_t>(layer)];
  LayerState& state = states_[static_cast<std::size_t>(layer)];
  const std::int64_t hidden = shape_.hidden;
  const View qkv = rows(state.qkv, tokens_, 3 * hidden);
  const View branch = rows(branch_, tokens_, hidden);

  apply(parameters.query_key_value, x, tokens_, qkv);
  AttentionForward attention;
  attention.qkv = qkv;
  attention.out = rows(state.attention, tokens_, hidden);
  attention.lse = rows(state.lse, tokens_, shape_.heads);
  attention.heads = shape_.heads;
  attention.dropout = dropout_at(attention_dropout_site(layer), dropout_.attention);
  attention.tokens = identity();
  device_.attention_forward(kCompute, attention);
  apply(parameters.attention_output, attention.out, tokens_, branch);

  const auto add_and_norm = [&](const Norm& norm, NormState& kept, View residual,
                                std::uint32_t site) {
    LayerNormForward op;
    op.x = branch;
    op.residual = residual;
    op.gamma = norm.gamma;
    op.beta = norm.beta;
    op.epsilon = shape_.layer_norm_epsilon;
    op.dropout = dropout_at(site, dropout_.hidden);
    op.tokens = identity();
    op.z = rows(kept.z, tokens_, hidden);
    op.mean = rows(kept.mean, tokens_, 1);
    op.rstd = rows(kept.rstd, tokens_, 1);
    op.y = rows(kept.y, tokens_, hidden);
    device_.layer_norm_forward(kCompute, op);
    return op.y;
  };
  const View middle = add_and_norm(parameters.attention_norm, state.attention_norm, x,
                                   attention_output_dropout_site(layer));
  const View inner = rows(state.inner, tokens_, shape_.feed_forward);
  const View activated = rows(state.activated, tokens_, shape_.feed_forward);
  apply(parameters.intermediate, middle, tokens_, inner);
  device_.gelu_forward(kCompute, inner, activated, shape_.gelu == Gelu::Tanh);
  apply(parameters.output, activated, tokens_, branch);
  add_and_norm(parameters.output_norm, state.output_norm, middle, output_dropout_site(layer));
}

// Next-sentence head: hidden state of [CLS] → pooler with tanh → two logits.
void Bert::nsp_forward(View hidden) {
  const View first = rows(first_hidden_, samples_, shape_.hidden);
  const View pooled = rows(pooled_, samples_, shape_.hidden);
  device_.gather_rows(kCompute, hidden, inputs_.first_rows.view().slice(0, samples_), shape_.hidden,
                      first);
  apply(pooler_, first, samples_, pooled);
  device_.tanh_forward(kCompute, pooled, pooled);
  CrossEntropy loss;
  loss.logits = rows(next_logits_, samples_, 2);
  apply(next_sentence_, pooled, samples_, loss.logits);
  loss.labels = inputs_.next_sentence_labels.view().slice(0, samples_);
  loss.classes = 2;
  loss.scale = scales_.view().slice(1, 1);
  loss.evaluate = mode_ == Mode::Evaluation;
  loss.sums = statistics_.view().slice(3, 3);
  device_.cross_entropy(kCompute, loss);
}

// Masked rows only: gather → dense → GELU → LayerNorm → word embeddingᵀ + bias.
void Bert::mlm_forward(View hidden) {
  const std::int64_t size = shape_.hidden;
  const View gathered = rows(masked_hidden_, masked_, size);
  const View inner = rows(masked_inner_, masked_, size);
  device_.gather_rows(kCompute, hidden, inputs_.masked_rows.view().slice(0, masked_), size,
                      gathered);
  apply(mlm_transform_, gathered, masked_, inner);
  LayerNormForward op;
  op.x = rows(masked_activated_, masked_, size);
  device_.gelu_forward(kCompute, inner, op.x, shape_.gelu == Gelu::Tanh);
  op.gamma = mlm_norm_.gamma;
  op.beta = mlm_norm_.beta;
  op.epsilon = shape_.layer_norm_epsilon;
  op.z = rows(masked_norm_.z, masked_, size);
  op.mean = rows(masked_norm_.mean, masked_, 1);
  op.rstd = rows(masked_norm_.rstd, masked_, 1);
  op.y = rows(masked_norm_.y, masked_, size);
  device_.layer_norm_forward(kCompute, op);

  CrossEntropy loss;
  loss.logits = rows(logits_, masked_, shape_.vocabulary);
  Linear decoder;
  decoder.weight = word_;
  decoder.bias = decoder_bias_;
  decoder.outputs = shape_.vocabulary;
  decoder.inputs = size;
  apply(decoder, op.y, masked_, loss.logits);
  loss.labels = inputs_.masked_labels.view().slice(0, masked_);
  loss.classes = shape_.vocabulary;
  loss.scale = scales_.view().slice(0, 1);
  loss.evaluate = mode_ == Mode::Evaluation;
  loss.sums = statistics_.view().slice(0, 3);
  device_.cross_entropy(kCompute, loss);
}

void Bert::backward() {
  base::check(mode_ == Mode::Training, "backward follows a training forward");
  const View dhidden = rows(gradient_a_, tokens_, shape_.hidden);
  device_.fill_zero(kCompute, dhidden);
  nsp_backward(dhidden);
  if (masked_ > 0) mlm_backward(dhidden);
  for (int layer = shape_.layers - 1; layer >= 0; --layer) {
    const DeviceMemory& input =
        layer > 0 ? states_[static_cast<std::size_t>(layer - 1)].output_norm.y : embedding_.y;
    layer_backward(layer, rows(input, tokens_, shape_.hidden), dhidden);
  }
  EmbeddingBackward op;
  op.ids = inputs_.ids.view().slice(0, tokens_);
  op.types = inputs_.types.view().slice(0, tokens_);
  op.sorted = inputs_.sorted.view().slice(0, tokens_);
  op.gamma = embedding_norm_.gamma;
  op.x = rows(embedding_.z, tokens_, shape_.hidden);
  op.mean = rows(embedding_.mean, tokens_, 1);
  op.rstd = rows(embedding_.rstd, tokens_, 1);
  op.dropout =
      dropout_at(static_cast<std::uint32_t>(RandomSite::EmbeddingDropout), dropout_.hidden);
  op.tokens = identity();
  op.dy = dhidden;
  op.dword = word_gradient_;
  op.dposition = gradient("bert.embeddings.position_embeddings.weight");
  op.dtype_rows = gradient("bert.embeddings.token_type_embeddings.weight");
  op.dgamma = embedding_norm_.gamma_gradient;
  op.dbeta = embedding_norm_.beta_gradient;
  device_.embedding_backward(kCompute, op);
}

void Bert::nsp_backward(View dhidden) {
  const View first = rows(first_hidden_, samples_, shape_.hidden);
  const View pooled = rows(pooled_, samples_, shape_.hidden);
  const View dpooled = rows(first_gradient_, samples_, shape_.hidden);
  apply_backward(next_sentence_, pooled, rows(next_logits_, samples_, 2), samples_, dpooled, false);
  device_.tanh_backward(kCompute, pooled, dpooled, dpooled);
  // `pooled` is not needed any more and takes the gradient of the gathered rows.
  apply_backward(pooler_, first, dpooled, samples_, pooled, false);
  device_.scatter_add_rows(kCompute, pooled, inputs_.first_rows.view().slice(0, samples_),
                           shape_.hidden, dhidden);
}

void Bert::mlm_backward(View dhidden) {
  const std::int64_t size = shape_.hidden;
  const View gradient_rows = rows(masked_gradient_, masked_, size);
  const View inner = rows(masked_inner_, masked_, size);
  Linear decoder{word_, decoder_bias_, word_gradient_, decoder_bias_gradient_, shape_.vocabulary,
                 size};
  apply_backward(decoder, rows(masked_norm_.y, masked_, size),
                 rows(logits_, masked_, shape_.vocabulary), masked_, gradient_rows, false);
  LayerNormBackward op;
  op.dy = gradient_rows;
  op.z = rows(masked_norm_.z, masked_, size);
  op.mean = rows(masked_norm_.mean, masked_, 1);
  op.rstd = rows(masked_norm_.rstd, masked_, 1);
  op.gamma = mlm_norm_.gamma;
  op.dresidual = gradient_rows;
  op.dx = gradient_rows;
  op.dgamma = mlm_norm_.gamma_gradient;
  op.dbeta = mlm_norm_.beta_gradient;
  device_.layer_norm_backward(kCompute, op);
  device_.gelu_backward(kCompute, inner, gradient_rows, gradient_rows, shape_.gelu == Gelu::Tanh);
  // `inner` is not needed any more and takes the gradient of the gathered rows.
  apply_backward(mlm_transform_, rows(masked_hidden_, masked_, size), gradient_rows, masked_, inner,
                 false);
  device_.scatter_add_rows(kCompute, inner, inputs_.masked_rows.view().slice(0, masked_), size,
                           dhidden);
}

// dy comes in as the gradient of the layer's output and leaves as that of its input x.
void Bert::layer_backward(int layer, View x, View dy) {
  const LayerParameters& parameters = layers_[static_cast<std::size_t>(layer)];
  LayerState& state = states_[static_cast<std::size_t>(layer)];
  const std::int64_t hidden = shape_.hidden;
  const View dbranch = rows(gradient_b_, tokens_, hidden);
  const auto norm_backward = [&](const Norm& norm, NormState& kept, std::uint32_t site) {
    LayerNormBackward op;
    op.dy = dy;
    op.z = rows(kept.z, tokens_, hidden);
    op.mean = rows(kept.mean, tokens_, 1);
    op.rstd = rows(kept.rstd, tokens_, 1);
    op.gamma = norm.gamma;
    op.dropout = dropout_at(site, dropout_.hidden);
    op.tokens = identity();
    op.dresidual = dy;
    op.dx = dbranch;
    op.dgamma = norm.gamma_gradient;
    op.dbeta = norm.beta_gradient;
    device_.layer_norm_backward(kCompute, op);
  };
  const View inner = rows(state.inner, tokens_, shape_.feed_forward);
  const View dinner = rows(gradient_inner_, tokens_, shape_.feed_forward);
  norm_backward(parameters.output_norm, state.output_norm, output_dropout_site(layer));
  apply_backward(parameters.output, rows(state.activated, tokens_, shape_.feed_forward), dbranch,
                 tokens_, dinner, false);
  device_.gelu_backward(kCompute, inner, dinner, dinner, shape_.gelu == Gelu::Tanh);
  apply_backward(parameters.intermediate, rows(state.attention_norm.y, tokens_, hidden), dinner,
                 tokens_, dy, true);

  norm_backward(parameters.attention_norm, state.attention_norm,
                attention_output_dropout_site(layer));
  AttentionBackward attention;
  attention.qkv = rows(state.qkv, tokens_, 3 * hidden);
  attention.out = rows(state.attention, tokens_, hidden);
  attention.lse = rows(state.lse, tokens_, shape_.heads);
  attention.dout = rows(branch_, tokens_, hidden);
  attention.dqkv = rows(gradient_qkv_, tokens_, 3 * hidden);
  attention.heads = shape_.heads;
  attention.dropout = dropout_at(attention_dropout_site(layer), dropout_.attention);
  attention.tokens = identity();
  apply_backward(parameters.attention_output, attention.out, dbranch, tokens_, attention.dout,
                 false);
  device_.attention_backward(kCompute, attention);
  apply_backward(parameters.query_key_value, x, attention.dqkv, tokens_, dy, true);
}

void Bert::zero_gradients() { device_.fill_zero(kCompute, gradients_.view()); }

void Bert::reset_statistics() { device_.fill_zero(kCompute, statistics_.view()); }

void Bert::read_statistics(float* sums) {
  device_.copy_to_host(kCompute, sums, statistics_.view());
}

Statistics Bert::statistics_of(const float* sums) {
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]};
}

}  // namespace regatta::trainer
