#include "trainer/model/bert.h"

#include "base/error.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::model {
namespace {

constexpr char kWordEmbedding[] = "bert.embeddings.word_embeddings.weight";

}  // namespace

Bert::Bert(device::Device& device, const contract::ModelShape& shape, const BertOptions& options)
    : device_(device),
      shape_(shape),
      table_(contract::make_tensor_table(shape)),
      options_(options),
      parameters_(device, table_.arena_size, device::Dtype::Float32),
      gradients_(device, table_.arena_size, device::Dtype::Float32),
      inputs_(device),
      statistics_(device, 6, device::Dtype::Float32) {
  contract::check_shape(shape);
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

// The word embedding, with the gaps that round the vocabulary up (vocabulary_rows).
Bert::Linear Bert::decoder() const {
  const std::int64_t rows = contract::vocabulary_rows(shape_);
  const std::int64_t matrix = table_.at(kWordEmbedding).offset;
  const std::int64_t bias = table_.at("cls.predictions.bias").offset;
  const device::View gradients = gradients_.view();
  return {weight(matrix, rows * shape_.hidden),
          weight(bias, rows),
          gradients.slice(matrix, rows * shape_.hidden),
          gradients.slice(bias, rows),
          rows,
          shape_.hidden};
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
  embeddings_ = {weight(kWordEmbedding),
                 weight(position),
                 weight(type),
                 gradient(kWordEmbedding),
                 gradient(position),
                 gradient(type),
                 norm("bert.embeddings.LayerNorm"),
                 tensors_before("bert.embeddings.LayerNorm.weight")};
}

void Bert::bind_head() {
  switch (shape_.task) {
    case contract::Task::Pretraining:
      mlm_transform_ = linear("cls.predictions.transform.dense");
      mlm_norm_ = norm("cls.predictions.transform.LayerNorm");
      decoder_ = decoder();
      head_ = linear("cls.seq_relationship");
      break;
    case contract::Task::QuestionAnswering:
      head_ = linear("qa_outputs");
      return;
    case contract::Task::Classification:
    case contract::Task::Regression:
      head_ = linear("classifier");
      break;
  }
  pooler_ = linear("bert.pooler.dense");
}

device::View Bert::at(const Buffer& buffer) const {
  const device::View& all = activations_.view();
  base::check(buffer.offset + buffer.size * device::size_of(buffer.dtype) <= all.bytes(),
              "activations lie in their memory");
  return {static_cast<char*>(all.data) + buffer.offset, buffer.size, buffer.dtype};
}

void Bert::reserve(const BatchRoom& room) {
  const BatchRoom ample = with_headroom(room);
  const std::int64_t bytes = activation_layout(shape_, ample, options_.compute).bytes;
  const bool inputs_fit = inputs_.has_room(room);
  if (inputs_fit && bytes <= activations_.view().bytes()) return;
  device_.synchronize();
  device_.forget_repeats();
  if (!inputs_fit) inputs_.reserve(ample);
  if (bytes > activations_.view().bytes()) {
    activations_ = {};  // given back first: the two need not fit side by side
    activations_ = device::DeviceMemory(device_, bytes, device::Dtype::Byte);
  }
}

void Bert::upload(const samples::PackedBatch& batch, std::int32_t step, const LossScale& scale) {
  const BatchRoom room = room_for(batch, options_.room);
  reserve(room);
  if (!(room == room_)) layout_ = activation_layout(shape_, room, options_.compute);
  room_ = room;
  logit_rows_ = shape_.task == contract::Task::QuestionAnswering ? batch.tokens()
                : shape_.task == contract::Task::Pretraining     ? batch.masked()
                                                                 : batch.samples();
  inputs_.upload(batch,
                 {step, static_cast<float>(scale.factor / static_cast<double>(scale.masked)),
                  static_cast<float>(scale.factor / static_cast<double>(scale.samples))},
                 room);
}

device::Dropout Bert::dropout_at(std::uint32_t site, double probability) const {
  if (mode_ == Mode::Evaluation) return {};
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
  const auto [entry, is_new] = keys_.try_emplace(
      {room_.tokens, room_.samples, room_.masked, room_.max_length, mode_, pass}, keys_.size());
  device_.repeat(kCompute, entry->second, enqueue);
}

void Bert::forward(Mode mode, const Needed& needed) {
  mode_ = mode;
  needed ? enqueue_forward(needed) : run(Pass::Forward);
}

void Bert::backward(const Ready& ready) {
  base::check(mode_ == Mode::Training, "backward follows a training forward");
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

void Bert::enqueue_forward(const Needed& needed) {
  const auto need = [&](int begin, int end) {
    if (needed) needed(begin, end);
  };
  const auto all = static_cast<int>(table_.tensors.size());
  need(first_tensor_of_layer(-1), all);
  device::EmbeddingForward embedding;
  embedding.ids = inputs_.ids();
  embedding.types = inputs_.types();
  embedding.word = embeddings_.word;
  embedding.position = embeddings_.position;
  embedding.type = embeddings_.type;
  embedding.gamma = embeddings_.norm.gamma;
  embedding.beta = embeddings_.norm.beta;
  embedding.epsilon = shape_.layer_norm_epsilon;
  embedding.dropout = dropout_at(static_cast<std::uint32_t>(contract::RandomSite::EmbeddingDropout),
                                 options_.dropout.hidden);
  embedding.tokens = inputs_.identity();
  embedding.x = at(layout_.embedding.z);
  embedding.mean = at(layout_.embedding.mean);
  embedding.rstd = at(layout_.embedding.rstd);
  embedding.y = at(layout_.embedding.y);
  device_.embedding_forward(kCompute, embedding);
  device::View hidden = embedding.y;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    need(first_tensor_of_layer(layer), first_tensor_of_layer(layer - 1));
    layer_forward(layer, hidden);
    hidden = at(layout_.layers[static_cast<std::size_t>(layer)].output_norm.y);
  }
  need(0, first_tensor_of_layer(shape_.layers - 1));
  if (shape_.task == contract::Task::QuestionAnswering) return answers_forward(hidden);
  pooled_forward(hidden);
  if (shape_.task == contract::Task::Pretraining && room_.masked > 0) mlm_forward(hidden);
}

void Bert::layer_forward(int layer, device::View x) {
  const LayerParameters& parameters = layers_[static_cast<std::size_t>(layer)];
  const LayerBuffers& kept = layout_.layers[static_cast<std::size_t>(layer)];
  const std::int64_t tokens = room_.tokens;
  const device::View branch = at(layout_.branch);

  apply(parameters.query_key_value, x, tokens, at(kept.qkv));
  device::AttentionForward attention;
  attention.qkv = at(kept.qkv);
  attention.out = at(kept.attention);
  attention.lse = at(kept.lse);
  attention.heads = shape_.heads;
  attention.dropout =
      dropout_at(contract::attention_dropout_site(layer), options_.dropout.attention);
  attention.tokens = inputs_.identity();
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
    op.tokens = inputs_.identity();
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

// Hidden state of [CLS] → pooler with tanh → logits of the sample.
void Bert::pooled_forward(device::View hidden) {
  const device::View first = at(layout_.first_hidden);
  const device::View pooled = at(layout_.pooled);
  const device::View logits = at(layout_.sample_logits);
  device_.gather_rows(kCompute, hidden, inputs_.first_rows(), shape_.hidden, first);
  apply(pooler_, first, room_.samples, pooled);
  device_.tanh_forward(kCompute, pooled, pooled);
  apply(head_, pooled, room_.samples, logits);
  keep_logits();
  const bool evaluate = mode_ == Mode::Evaluation;
  const device::View sums = statistics_.view().slice(3, 3);
  if (shape_.task == contract::Task::Regression) {
    device_.squared_error(kCompute,
                          {logits, inputs_.values(), inputs_.sample_scale(), evaluate, sums});
    return;
  }
  device::CrossEntropy loss;
  loss.logits = logits;
  loss.labels = inputs_.sample_labels();
  loss.classes = head_.outputs;
  loss.label_smoothing = options_.label_smoothing;
  loss.scale = inputs_.sample_scale();
  loss.evaluate = evaluate;
  loss.sums = sums;
  device_.cross_entropy(kCompute, loss);
}

// Every token's hidden state → of being the answer's first, and its last.
void Bert::answers_forward(device::View hidden) {
  device::SpanCrossEntropy loss;
  loss.logits = at(layout_.sample_logits);
  apply(head_, hidden, room_.tokens, loss.logits);
  keep_logits();
  loss.answers = inputs_.answers();
  loss.cumulative = inputs_.identity().cumulative;
  loss.label_smoothing = options_.label_smoothing;
  loss.scale = inputs_.sample_scale();
  loss.evaluate = mode_ == Mode::Evaluation;
  loss.sums = statistics_.view().slice(3, 3);
  device_.span_cross_entropy(kCompute, loss);
}

// Before the loss takes their memory.
void Bert::keep_logits() {
  if (mode_ != Mode::Evaluation || shape_.task == contract::Task::Pretraining) return;
  const device::View kept = at(layout_.kept_logits);
  const device::View logits = at(layout_.sample_logits);
  if (logits.dtype == device::Dtype::Float32) {
    device_.copy(kCompute, kept, logits);
  } else {
    device_.convert(kCompute, kept, logits);
  }
}

// Masked rows only: gather → dense → GELU → LayerNorm → word embeddingᵀ + bias.
void Bert::mlm_forward(device::View hidden) {
  const device::View gathered = at(layout_.masked_hidden);
  device_.gather_rows(kCompute, hidden, inputs_.masked_rows(), shape_.hidden, gathered);
  device::LayerNormForward op;
  op.x = at(layout_.masked_activated);
  apply(mlm_transform_, gathered, room_.masked, op.x, at(layout_.masked_inner));
  op.gamma = mlm_norm_.gamma;
  op.beta = mlm_norm_.beta;
  op.epsilon = shape_.layer_norm_epsilon;
  op.z = at(layout_.masked_norm.z);
  op.mean = at(layout_.masked_norm.mean);
  op.rstd = at(layout_.masked_norm.rstd);
  op.y = at(layout_.masked_norm.y);
  device_.layer_norm_forward(kCompute, op);

  device::CrossEntropy loss;
  loss.logits = at(layout_.logits);
  apply(decoder_, op.y, room_.masked, loss.logits);
  if (mode_ == Mode::Evaluation && options_.keep_masked_logits) return;
  loss.labels = inputs_.masked_labels();
  loss.classes = shape_.vocabulary;
  loss.stride = contract::vocabulary_rows(shape_);
  loss.label_smoothing = options_.label_smoothing;
  loss.scale = inputs_.mlm_scale();
  loss.evaluate = mode_ == Mode::Evaluation;
  loss.sums = statistics_.view().slice(0, 3);
  device_.cross_entropy(kCompute, loss);
}

void Bert::enqueue_backward(const Ready& ready) {
  const device::View dhidden = at(layout_.gradient_a);
  head_backward(dhidden);
  const int frozen = options_.frozen_layers;
  for (int layer = shape_.layers - 1; layer >= frozen; --layer) {
    const NormBuffers& input = layer > 0
                                   ? layout_.layers[static_cast<std::size_t>(layer - 1)].output_norm
                                   : layout_.embedding;
    if (ready) ready(first_tensor_of_layer(layer));  // of the heads, or of the layer above
    layer_backward(layer, at(input.y), dhidden, ready);
  }
  if (frozen == 0) {
    if (ready) ready(first_tensor_of_layer(-1));
    embedding_backward(dhidden);
  }
  if (ready) ready(static_cast<int>(table_.tensors.size()));
}

void Bert::embedding_backward(device::View dhidden) {
  device::EmbeddingBackward op;
  op.ids = inputs_.ids();
  op.types = inputs_.types();
  op.sorted = inputs_.sorted();
  op.gamma = embeddings_.norm.gamma;
  op.x = at(layout_.embedding.z);
  op.mean = at(layout_.embedding.mean);
  op.rstd = at(layout_.embedding.rstd);
  op.dropout = dropout_at(static_cast<std::uint32_t>(contract::RandomSite::EmbeddingDropout),
                          options_.dropout.hidden);
  op.tokens = inputs_.identity();
  op.dy = dhidden;
  op.dword = embeddings_.word_gradient;
  op.dposition = embeddings_.position_gradient;
  op.dtype_rows = embeddings_.type_gradient;
  op.dgamma = embeddings_.norm.gamma_gradient;
  op.dbeta = embeddings_.norm.beta_gradient;
  device_.embedding_backward(kCompute, op);
}

void Bert::head_backward(device::View dhidden) {
  if (shape_.task == contract::Task::QuestionAnswering) {
    const device::View hidden =
        at(layout_.layers[static_cast<std::size_t>(shape_.layers) - 1].output_norm.y);
    return apply_backward(head_, hidden, at(layout_.sample_logits), room_.tokens, dhidden);
  }
  device_.fill_zero(kCompute, dhidden);
  pooled_backward(dhidden);
  if (shape_.task == contract::Task::Pretraining && room_.masked > 0) mlm_backward(dhidden);
}

void Bert::pooled_backward(device::View dhidden) {
  const device::View pooled = at(layout_.pooled);
  const device::View dpooled = at(layout_.first_gradient);
  apply_backward(head_, pooled, at(layout_.sample_logits), room_.samples, dpooled);
  device_.tanh_backward(kCompute, pooled, dpooled, dpooled);
  // `pooled` is not needed any more and takes the gradient of the gathered rows.
  apply_backward(pooler_, at(layout_.first_hidden), dpooled, room_.samples, pooled);
  device_.scatter_add_rows(kCompute, pooled, inputs_.first_rows(), shape_.hidden, dhidden);
}

void Bert::mlm_backward(device::View dhidden) {
  const device::View dmasked = at(layout_.masked_gradient);
  const device::View inner = at(layout_.masked_inner);
  LinearBackward tied;  // the word embedding may be frozen; the decoder's bias is the head's
  tied.frozen = options_.frozen_layers > 0;
  apply_backward(decoder_, at(layout_.masked_norm.y), at(layout_.logits), room_.masked, dmasked,
                 tied);
  device::LayerNormBackward op;
  op.dy = dmasked;
  op.z = at(layout_.masked_norm.z);
  op.mean = at(layout_.masked_norm.mean);
  op.rstd = at(layout_.masked_norm.rstd);
  op.gamma = mlm_norm_.gamma;
  op.dresidual = dmasked;
  op.dx = dmasked;
  op.dgamma = mlm_norm_.gamma_gradient;
  op.dbeta = mlm_norm_.beta_gradient;
  device_.layer_norm_backward(kCompute, op);
  device_.gelu_backward(kCompute, inner, dmasked, dmasked, shape_.gelu == contract::Gelu::Tanh);
  // `inner` is not needed any more and takes the gradient of the gathered rows.
  apply_backward(mlm_transform_, at(layout_.masked_hidden), dmasked, room_.masked, inner);
  device_.scatter_add_rows(kCompute, inner, inputs_.masked_rows(), shape_.hidden, dhidden);
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
  op.tokens = inputs_.identity();
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
  const LayerBuffers& kept = layout_.layers[static_cast<std::size_t>(layer)];
  const std::int64_t tokens = room_.tokens;
  const device::View dbranch = at(layout_.gradient_b);
  const device::View dinner = at(layout_.gradient_inner);
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
  attention.dout = at(layout_.branch);
  attention.dqkv = at(layout_.gradient_qkv);
  attention.heads = shape_.heads;
  attention.dropout =
      dropout_at(contract::attention_dropout_site(layer), options_.dropout.attention);
  attention.tokens = inputs_.identity();
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
                       at(masked ? layout_.logits : layout_.kept_logits)
                           .slice(0, logit_rows_ * (masked ? decoder_ : head_).outputs));
}

Statistics Bert::statistics_of(const float* sums) {
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]};
}

}  // namespace regatta::trainer::model
