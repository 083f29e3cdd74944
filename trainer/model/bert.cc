#include "trainer/model/bert.h"

#include <algorithm>

#include "base/error.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::model {
Bert::Bert(device::Device& device, const contract::ModelShape& shape, const BertOptions& options)
    : device_(device),
      shape_(shape),
      table_(contract::make_tensor_table(shape)),
      options_(options),
      stage_(options.stage.value_or(contract::whole_model(shape))),
      parameters_(device, table_.arena_size, device::Dtype::Float32),
      gradients_(device, table_.arena_size, device::Dtype::Float32),
      statistics_(device, 6, device::Dtype::Float32) {
  contract::check_shape(shape);
  use(0);
  base::check(device.computes_in(options.compute), "the device computes in the compute type");
  base::check(!options.keep_masked_logits || options.compute == device::Dtype::Float32,
              "masked logits are read as they are computed, in float32");
  if (options.compute != device::Dtype::Float32) {
    compute_copy_ = device::DeviceMemory(device, table_.arena_size, options.compute);
  }
  // The gaps between tensors stay zero.
  device_.fill_zero(kCompute, parameters_.view());
  device_.fill_zero(kCompute, gradients_.view());
  bind_parameters();
}

void Bert::use(int slot) {
  base::check(slot >= 0, "slots are numbered from 0");
  while (slots_.size() <= static_cast<std::size_t>(slot)) {
    slots_.push_back(std::make_unique<Slot>(device_));
  }
  slot_number_ = slot;
  slot_ = slots_[static_cast<std::size_t>(slot)].get();
}

void Bert::renew_compute_copy() {
  if (compute_copy_.view().size > 0) {
    device_.convert(kCompute, compute_copy_.view(), parameters_.view());
  }
}

device::View Bert::parameter(const std::string& name) const {
  const contract::TensorEntry& entry = table_.at(name);
  return parameters_.view().slice(entry.offset, entry.size);
}

device::View Bert::weight(std::int64_t offset, std::int64_t size) const {
  const device::View& all =
      options_.compute == device::Dtype::Float32 ? parameters_.view() : compute_copy_.view();
  return all.slice(offset, size);
}

device::View Bert::weight(const std::string& name) const {
  const contract::TensorEntry& entry = table_.at(name);
  return weight(entry.offset, entry.size);
}

device::View Bert::gradient(const std::string& name) const {
  const contract::TensorEntry& entry = table_.at(name);
  return gradients_.view().slice(entry.offset, entry.size);
}

Bert::Linear Bert::linear(const std::string& name) const {
  const contract::TensorEntry& entry = table_.at(name + ".weight");
  return {weight(name + ".weight"), weight(name + ".bias"), gradient(name + ".weight"),
          gradient(name + ".bias"), entry.shape[0],         entry.shape[1]};
}

Bert::Norm Bert::norm(const std::string& name) const {
  return {parameter(name + ".weight"), parameter(name + ".bias"), gradient(name + ".weight"),
          gradient(name + ".bias")};
}

// Query, key and value are neighbours in the arena, so one view covers the three.
Bert::Linear Bert::query_key_value(int layer) const {
  const std::string prefix = "bert.encoder.layer." + std::to_string(layer) + ".attention.self.";
  const std::int64_t hidden = shape_.hidden;
  const std::int64_t matrix = table_.at(prefix + "query.weight").offset;
  const std::int64_t bias = table_.at(prefix + "query.bias").offset;
  base::check(table_.at(prefix + "value.weight").offset == matrix + 2 * hidden * hidden &&
                  table_.at(prefix + "value.bias").offset == bias + 2 * hidden,
              "query, key and value lie side by side");
  const device::View gradients = gradients_.view();
  return {weight(matrix, 3 * hidden * hidden),
          weight(bias, 3 * hidden),
          gradients.slice(matrix, 3 * hidden * hidden),
          gradients.slice(bias, 3 * hidden),
          3 * hidden,
          hidden};
}

void Bert::bind_parameters() {
  for (int layer = 0; layer < shape_.layers; ++layer) {
    const std::string prefix = "bert.encoder.layer." + std::to_string(layer) + ".";
    layers_.push_back({query_key_value(layer),
                       linear(prefix + "attention.output.dense"),
                       linear(prefix + "intermediate.dense"),
                       linear(prefix + "output.dense"),
                       norm(prefix + "attention.output.LayerNorm"),
                       norm(prefix + "output.LayerNorm"),
                       {tensors_before(prefix + "output.LayerNorm.weight"),
                        tensors_before(prefix + "intermediate.dense.bias"),
                        tensors_before(prefix + "attention.output.LayerNorm.weight"),
                        tensors_before(prefix + "attention.self.query.bias")}});
  }
  bind_head();
  const std::string position = "bert.embeddings.position_embeddings.weight";
  const std::string type = "bert.embeddings.token_type_embeddings.weight";
  embeddings_ = {weight(contract::kWordEmbedding),
                 weight(position),
                 weight(type),
                 gradient(contract::kWordEmbedding),
                 gradient(position),
                 gradient(type),
                 norm("bert.embeddings.LayerNorm"),
                 tensors_before("bert.embeddings.LayerNorm.weight")};
}

device::View Bert::at(const Buffer& buffer) const {
  const device::View& all = slot_->activations.view();
  base::check(buffer.offset + buffer.size * device::size_of(buffer.dtype) <= all.bytes(),
              "activations lie in their memory");
  return {static_cast<char*>(all.data) + buffer.offset, buffer.size, buffer.dtype};
}

void Bert::reserve(const BatchRoom& room) {
  const BatchRoom ample = with_headroom(room);
  const std::int64_t bytes = activation_layout(shape_, ample, options_.compute, stage_).bytes;
  const bool inputs_fit = slot_->inputs.has_room(room);
  if (inputs_fit && bytes <= slot_->activations.view().bytes()) return;
  device_.synchronize();
  device_.forget_repeats();
  if (!inputs_fit) slot_->inputs.reserve(ample);
  if (bytes > slot_->activations.view().bytes()) {
    slot_->activations = {};  // given back first: the two need not fit side by side
    slot_->activations = device::DeviceMemory(device_, bytes, device::Dtype::Byte);
  }
}

void Bert::upload(const samples::PackedBatch& batch, std::int32_t step, const LossScale& scale) {
  const BatchRoom room = room_for(batch, options_.room);
  reserve(room);
  if (!(room == slot_->room))
    slot_->layout = activation_layout(shape_, room, options_.compute, stage_);
  slot_->room = room;
  slot_->logit_rows = shape_.task == contract::Task::QuestionAnswering ? batch.tokens()
                      : shape_.task == contract::Task::Pretraining     ? batch.masked()
                                                                       : batch.samples();
  slot_->inputs.upload(batch,
                       {step, static_cast<float>(scale.factor / static_cast<double>(scale.masked)),
                        static_cast<float>(scale.factor / static_cast<double>(scale.samples))},
                       room);
}

device::Dropout Bert::dropout_at(std::uint32_t site, double probability) const {
  if (slot_->mode == Mode::Evaluation) return {};
  return {contract::dropout_threshold(probability), options_.dropout.seed, site};
}

device::Activation Bert::activation() const {
  return shape_.gelu == contract::Gelu::Tanh ? device::Activation::GeluTanh
                                             : device::Activation::GeluErf;
}

void Bert::run(Pass pass) {
  const auto enqueue = [&] {
    pass == Pass::Forward ? enqueue_forward(nullptr) : enqueue_backward(nullptr);
  };
  if (!options_.repeat) return enqueue();
  const auto [entry, is_new] =
      keys_.try_emplace({slot_number_, slot_->room.tokens, slot_->room.samples, slot_->room.masked,
                         slot_->room.max_length, slot_->mode, pass},
                        keys_.size());
  device_.repeat(kCompute, entry->second, enqueue);
}

void Bert::forward(Mode mode, const Needed& needed) {
  slot_->mode = mode;
  needed ? enqueue_forward(needed) : run(Pass::Forward);
}

void Bert::backward(const Ready& ready) {
  base::check(slot_->mode == Mode::Training, "backward follows a training forward");
  ready ? enqueue_backward(ready) : run(Pass::Backward);
}

int Bert::tensors_before(const std::string& name) const {
  return static_cast<int>(&table_.at(name) - table_.tensors.data());
}

void Bert::apply(const Linear& linear, device::View x, std::int64_t count, device::View y,
                 device::View pre_activation) {
  device::Gemm op;
  op.m = count;
  op.n = linear.outputs;
  op.k = linear.inputs;
  op.a = x;
  op.b = linear.weight;
  op.c = y;
  op.transpose_b = true;
  op.bias = linear.bias;
  if (pre_activation.size > 0) {
    op.activation = activation();
    op.pre_activation = pre_activation;
  }
  device_.gemm(kCompute, op);
}

void Bert::apply_backward(const Linear& linear, device::View x, device::View dy, std::int64_t count,
                          device::View dx, const LinearBackward& how) {
  device::Gemm weights;  // dW += dyᵀ·x, db += column sums of dy
  weights.m = linear.outputs;
  weights.n = linear.inputs;
  weights.k = count;
  weights.a = dy;
  weights.b = x;
  weights.c = linear.weight_gradient;
  weights.transpose_a = true;
  weights.beta = 1;
  if (!how.bias_is_done) weights.a_column_sums = linear.bias_gradient;
  if (how.frozen) {
    device_.add_column_sums(kCompute, dy, linear.outputs, linear.bias_gradient);
  } else {
    device_.gemm(kCompute, weights);
  }
  device::Gemm input;  // dx (+)= dy·W
  input.m = count;
  input.n = linear.inputs;
  input.k = linear.outputs;
  input.a = dy;
  input.b = linear.weight;
  input.c = dx;
  input.beta = how.accumulate ? 1.0F : 0.0F;
  if (how.gelu_input.size > 0) {
    input.activation = activation();
    input.gelu_input = how.gelu_input;
  }
  device_.gemm(kCompute, input);
}

// Of a stage: what travels is float32, so another compute type is converted at either end.
device::View Bert::stage_input() const {
  base::check(!stage_.has_embeddings(), "a stage below gives the input");
  return at(travels_as_computed() ? slot_->layout.embedding.y : slot_->layout.below);
}
device::View Bert::input_gradient() const {
  base::check(!stage_.has_embeddings(), "a stage below takes the gradient");
  return at(travels_as_computed() ? slot_->layout.gradient_a : slot_->layout.below);
}
device::View Bert::stage_output() const {
  base::check(!stage_.has_head(), "a stage above takes the output");
  return travels_as_computed() ? top_hidden() : at(slot_->layout.up);
}
device::View Bert::output_gradient() const {
  base::check(!stage_.has_head(), "a stage above gives the gradient");
  return at(travels_as_computed() ? slot_->layout.gradient_a : slot_->layout.back);
}

device::View Bert::top_hidden() const {
  return at(slot_->layout.layers[static_cast<std::size_t>(stage_.end_layer) - 1].output_norm.y);
}

void Bert::enqueue_forward(const Needed& needed) {
  const auto need = [&](int begin, int end) {
    if (needed) needed(begin, end);
  };
  if (stage_.has_embeddings()) {
    need(first_tensor_of_layer(-1), static_cast<int>(table_.tensors.size()));
    embedding_forward();
  } else if (!travels_as_computed()) {
    device_.convert(kCompute, at(slot_->layout.embedding.y), stage_input());
  }
  device::View hidden = at(slot_->layout.embedding.y);
  for (int layer = stage_.first_layer; layer < stage_.end_layer; ++layer) {
    need(first_tensor_of_layer(layer), first_tensor_of_layer(layer - 1));
    layer_forward(layer, hidden);
    hidden = at(slot_->layout.layers[static_cast<std::size_t>(layer)].output_norm.y);
  }
  if (!stage_.has_head()) {
    if (!travels_as_computed()) device_.convert(kCompute, stage_output(), hidden);
    return;
  }
  need(0, first_tensor_of_layer(shape_.layers - 1));
  if (shape_.task == contract::Task::QuestionAnswering) return answers_forward(hidden);
  pooled_forward(hidden);
  if (shape_.task == contract::Task::Pretraining && slot_->room.masked > 0) mlm_forward(hidden);
}

void Bert::embedding_forward() {
  device::EmbeddingForward embedding;
  embedding.ids = slot_->inputs.ids();
  embedding.types = slot_->inputs.types();
  embedding.word = embeddings_.word;
  embedding.position = embeddings_.position;
  embedding.type = embeddings_.type;
  embedding.gamma = embeddings_.norm.gamma;
  embedding.beta = embeddings_.norm.beta;
  embedding.epsilon = shape_.layer_norm_epsilon;
  embedding.dropout = dropout_at(static_cast<std::uint32_t>(contract::RandomSite::EmbeddingDropout),
                                 options_.dropout.hidden);
  embedding.tokens = slot_->inputs.identity();
  embedding.x = at(slot_->layout.embedding.z);
  embedding.mean = at(slot_->layout.embedding.mean);
  embedding.rstd = at(slot_->layout.embedding.rstd);
  embedding.y = at(slot_->layout.embedding.y);
  device_.embedding_forward(kCompute, embedding);
}

void Bert::layer_forward(int layer, device::View x) {
  const LayerParameters& parameters = layers_[static_cast<std::size_t>(layer)];
  const LayerBuffers& kept = slot_->layout.layers[static_cast<std::size_t>(layer)];
  const std::int64_t tokens = slot_->room.tokens;
  const device::View branch = at(slot_->layout.branch);

  apply(parameters.query_key_value, x, tokens, at(kept.qkv));
  device::AttentionForward attention;
  attention.qkv = at(kept.qkv);
  attention.out = at(kept.attention);
  attention.lse = at(kept.lse);
  attention.heads = shape_.heads;
  attention.dropout =
      dropout_at(contract::attention_dropout_site(layer), options_.dropout.attention);
  attention.tokens = slot_->inputs.identity();
  device_.attention_forward(kCompute, attention);
  apply(parameters.attention_output, attention.out, tokens, branch);

  const auto add_and_norm = [&](const Norm& norm, const NormBuffers& buffers, device::View residual,
                                std::uint32_t site) {
    device::LayerNormForward op;
    op.x = branch;
    op.residual = residual;
    op.gamma = norm.gamma;
    op.beta = norm.beta;
    op.epsilon = shape_.layer_norm_epsilon;
    op.dropout = dropout_at(site, options_.dropout.hidden);
    op.tokens = slot_->inputs.identity();
    op.z = at(buffers.z);
    op.mean = at(buffers.mean);
    op.rstd = at(buffers.rstd);
    op.y = at(buffers.y);
    device_.layer_norm_forward(kCompute, op);
    return op.y;
  };
  const device::View middle = add_and_norm(parameters.attention_norm, kept.attention_norm, x,
                                           contract::attention_output_dropout_site(layer));
  apply(parameters.intermediate, middle, tokens, at(kept.activated), at(kept.inner));
  apply(parameters.output, at(kept.activated), tokens, branch);
  add_and_norm(parameters.output_norm, kept.output_norm, middle,
               contract::output_dropout_site(layer));
}

void Bert::enqueue_backward(const Ready& ready) {
  const device::View dhidden = at(slot_->layout.gradient_a);
  if (stage_.has_head()) {
    head_backward(dhidden);
  } else if (!travels_as_computed()) {
    device_.convert(kCompute, dhidden, output_gradient());
  }
  const int lowest = std::max(stage_.first_layer, options_.frozen_layers);
  for (int layer = stage_.end_layer - 1; layer >= lowest; --layer) {
    const NormBuffers& input =
        layer > stage_.first_layer
            ? slot_->layout.layers[static_cast<std::size_t>(layer - 1)].output_norm
            : slot_->layout.embedding;
    if (ready) ready(first_tensor_of_layer(layer));  // of the heads, or of the layer above
    layer_backward(layer, at(input.y), dhidden, ready);
  }
  if (!stage_.has_embeddings()) {
    if (!travels_as_computed()) device_.convert(kCompute, input_gradient(), dhidden);
    if (ready) ready(first_tensor_of_layer(stage_.first_layer - 1));
    return;
  }
  if (options_.frozen_layers == 0) {
    if (ready) ready(first_tensor_of_layer(-1));
    embedding_backward(dhidden);
  }
  if (ready) ready(static_cast<int>(table_.tensors.size()));
}

void Bert::embedding_backward(device::View dhidden) {
  device::EmbeddingBackward op;
  op.ids = slot_->inputs.ids();
  op.types = slot_->inputs.types();
  op.sorted = slot_->inputs.sorted();
  op.gamma = embeddings_.norm.gamma;
  op.x = at(slot_->layout.embedding.z);
  op.mean = at(slot_->layout.embedding.mean);
  op.rstd = at(slot_->layout.embedding.rstd);
  op.dropout = dropout_at(static_cast<std::uint32_t>(contract::RandomSite::EmbeddingDropout),
                          options_.dropout.hidden);
  op.tokens = slot_->inputs.identity();
  op.dy = dhidden;
  op.dword = embeddings_.word_gradient;
  op.dposition = embeddings_.position_gradient;
  op.dtype_rows = embeddings_.type_gradient;
  op.dgamma = embeddings_.norm.gamma_gradient;
  op.dbeta = embeddings_.norm.beta_gradient;
  device_.embedding_backward(kCompute, op);
}

// dy comes in as the gradient of LayerNorm's output and leaves as that of the residual; dbranch is
// that of the branch, and dbias sums it.
void Bert::norm_backward(const Norm& norm, const NormBuffers& kept, std::uint32_t site,
                         device::View dy, device::View dbranch, device::View dbias) {
  device::LayerNormBackward op;
  op.dy = dy;
  op.z = at(kept.z);
  op.mean = at(kept.mean);
  op.rstd = at(kept.rstd);
  op.gamma = norm.gamma;
  op.dropout = dropout_at(site, options_.dropout.hidden);
  op.tokens = slot_->inputs.identity();
  op.dresidual = dy;
  op.dx = dbranch;
  op.dgamma = norm.gamma_gradient;
  op.dbeta = norm.beta_gradient;
  op.dbias = dbias;
  device_.layer_norm_backward(kCompute, op);
}

// dy comes in as the gradient of the layer's output and leaves as that of its input x.
void Bert::layer_backward(int layer, device::View x, device::View dy, const Ready& ready) {
  const LayerParameters& parameters = layers_[static_cast<std::size_t>(layer)];
  const LayerBuffers& kept = slot_->layout.layers[static_cast<std::size_t>(layer)];
  const std::int64_t tokens = slot_->room.tokens;
  const device::View dbranch = at(slot_->layout.gradient_b);
  const device::View dinner = at(slot_->layout.gradient_inner);
  LinearBackward with_gelu;
  with_gelu.bias_is_done = true;
  with_gelu.gelu_input = at(kept.inner);
  LinearBackward onto_residual;
  onto_residual.accumulate = true;
  norm_backward(parameters.output_norm, kept.output_norm, contract::output_dropout_site(layer), dy,
                dbranch, parameters.output.bias_gradient);
  apply_backward(parameters.output, at(kept.activated), dbranch, tokens, dinner, with_gelu);
  if (ready) ready(parameters.before.intermediate);
  apply_backward(parameters.intermediate, at(kept.attention_norm.y), dinner, tokens, dy,
                 onto_residual);
  if (ready) ready(parameters.before.attention_norm);

  norm_backward(parameters.attention_norm, kept.attention_norm,
                contract::attention_output_dropout_site(layer), dy, dbranch,
                parameters.attention_output.bias_gradient);
  device::AttentionBackward attention;
  attention.qkv = at(kept.qkv);
  attention.out = at(kept.attention);
  attention.lse = at(kept.lse);
  attention.dout = at(slot_->layout.branch);
  attention.dqkv = at(slot_->layout.gradient_qkv);
  attention.heads = shape_.heads;
  attention.dropout =
      dropout_at(contract::attention_dropout_site(layer), options_.dropout.attention);
  attention.tokens = slot_->inputs.identity();
  LinearBackward without_bias;
  without_bias.bias_is_done = true;
  apply_backward(parameters.attention_output, attention.out, dbranch, tokens, attention.dout,
                 without_bias);
  if (ready) ready(parameters.before.attention);
  device_.attention_backward(kCompute, attention);
  apply_backward(parameters.query_key_value, x, attention.dqkv, tokens, dy, onto_residual);
}

void Bert::zero_gradients() { device_.fill_zero(kCompute, gradients_.view()); }

void Bert::reset_statistics() { device_.fill_zero(kCompute, statistics_.view()); }

void Bert::read_statistics(float* sums) {
  device_.copy_to_host(kCompute, sums, statistics_.view());
}

void Bert::read_logits(float* logits) {
  const bool masked = shape_.task == contract::Task::Pretraining;
  base::check(!masked || options_.keep_masked_logits, "there are logits to read");
  device_.copy_to_host(kCompute, logits,
                       at(masked ? slot_->layout.logits : slot_->layout.kept_logits)
                           .slice(0, slot_->logit_rows * (masked ? decoder_ : head_).outputs));
}

Statistics Bert::statistics_of(const float* sums) {
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]};
}

}  // namespace regatta::trainer::model
