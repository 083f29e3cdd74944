// The memory-bound cases of bench_kernel_cases.h: what they move at the least, by the contract of
// each operation.
#include "trainer/bench/bench_kernel_cases.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::bench {
namespace {

using model::kCompute;

std::string rows_text(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + "x" + std::to_string(columns);
}

}  // namespace

// The MLM head's LayerNorm: no residual, no dropout, and backward writes one gradient.
void KernelCases::add_masked_layer_norm() {
  const std::int64_t elements = room_.masked * shape_.hidden;
  device::LayerNormForward forward = norm_forward(false);
  forward.x = masked_a_;
  forward.residual = {};
  forward.z = masked_b_;
  forward.y = masked_c_;
  forward.mean = mean_.slice(0, room_.masked);
  forward.rstd = rstd_.slice(0, room_.masked);
  KernelCase entry;
  entry.name = "mlm_layer_norm.forward";
  entry.group = "norm";
  entry.shape = rows_text(room_.masked, shape_.hidden);
  entry.calls_per_step = 1;
  entry.bytes = bytes_of(3 * elements) + 8.0 * static_cast<double>(room_.masked);
  entry.enqueue = [this, forward] { device_.layer_norm_forward(kCompute, forward); };
  entry.reset = [this] { fill(masked_a_, random_); };
  KernelCase back = entry;
  add(std::move(entry));

  device::LayerNormBackward op;
  op.dy = masked_c_;
  op.z = masked_b_;
  op.mean = forward.mean;
  op.rstd = forward.rstd;
  op.gamma = gamma_;
  op.dresidual = masked_a_;
  op.dx = masked_a_;
  op.dgamma = gradients_.slice(table_.at("cls.predictions.transform.LayerNorm.weight").offset,
                               shape_.hidden);
  op.dbeta =
      gradients_.slice(table_.at("cls.predictions.transform.LayerNorm.bias").offset, shape_.hidden);
  back.name = "mlm_layer_norm.backward";
  back.enqueue = [this, op] { device_.layer_norm_backward(kCompute, op); };
  back.reset = [this, forward] {
    fill(masked_a_, random_);
    device_.layer_norm_forward(kCompute, forward);
  };
  add(std::move(back));
}

// Forward reads a row of the word embedding per token and the two small tables once. Backward reads
// dy and x, writes and reads the gradient of the sum, and adds to the rows of the pieces that
// occur and of the positions.
void KernelCases::add_embeddings() {
  const std::int64_t h = shape_.hidden;
  const device::View weights =
      options_.dtype == device::Dtype::Float32 ? parameters_ : compute_copy_;
  const auto table_of = [&](const device::View& arena, const char* name) {
    const contract::TensorEntry& entry =
        table_.at(std::string("bert.embeddings.") + name + ".weight");
    return arena.slice(entry.offset, entry.size);
  };
  device::EmbeddingForward forward;
  forward.ids = inputs_.ids();
  forward.types = inputs_.types();
  forward.word = table_of(weights, "word_embeddings");
  forward.position = table_of(weights, "position_embeddings");
  forward.type = table_of(weights, "token_type_embeddings");
  forward.gamma = gamma_;
  forward.beta = beta_;
  forward.epsilon = shape_.layer_norm_epsilon;
  forward.dropout = dropout(options_.dropout > 0);
  forward.tokens = inputs_.identity();
  forward.x = hidden_;
  forward.mean = mean_;
  forward.rstd = rstd_;
  forward.y = output_;
  const auto tokens = static_cast<double>(room_.tokens);
  KernelCase entry;
  entry.name = "embedding.forward";
  entry.group = "embedding";
  entry.shape = rows_text(room_.tokens, h);
  entry.calls_per_step = 1;
  entry.bytes = bytes_of(3 * room_.tokens * h) + bytes_of((room_.max_length + 2) * h) +
                24.0 * tokens;  // ids, types, positions, ordinals; mean, rstd
  entry.enqueue = [this, forward] { device_.embedding_forward(kCompute, forward); };
  KernelCase back = entry;
  add(std::move(entry));

  device::EmbeddingBackward op;
  op.ids = forward.ids;
  op.types = forward.types;
  op.sorted = inputs_.sorted();
  op.gamma = gamma_;
  op.x = forward.x;
  op.mean = mean_;
  op.rstd = rstd_;
  op.dropout = forward.dropout;
  op.tokens = forward.tokens;
  op.dy = branch_;
  op.dword = table_of(gradients_, "word_embeddings");
  op.dposition = table_of(gradients_, "position_embeddings");
  op.dtype_rows = table_of(gradients_, "token_type_embeddings");
  op.dgamma = gradients_.slice(table_.at("bert.embeddings.LayerNorm.weight").offset, h);
  op.dbeta = gradients_.slice(table_.at("bert.embeddings.LayerNorm.bias").offset, h);
  back.name = "embedding.backward";
  back.bytes = bytes_of(4 * room_.tokens * h) +
               8.0 * static_cast<double>((distinct_pieces_ + room_.max_length + 2) * h) +
               28.0 * tokens;
  back.enqueue = [this, op] { device_.embedding_backward(kCompute, op); };
  // Random sums of deviation 1, not the small embeddings', so that the gradient, which goes in and
  // out in one place, keeps its size over a batch of calls.
  back.reset = [this] {
    fill(hidden_, random_);
    fill(branch_, random_);
    device::LayerNormForward statistics = norm_forward(false);  // mean and rstd of hidden_
    statistics.x = hidden_;
    statistics.residual = {};
    device_.layer_norm_forward(kCompute, statistics);
  };
  add(std::move(back));
}

void KernelCases::add_losses() {
  device::CrossEntropy op;
  op.logits = logits_;
  op.labels = inputs_.masked_labels();
  op.classes = shape_.vocabulary;
  op.stride = contract::vocabulary_rows(shape_);
  op.scale = inputs_.mlm_scale();
  op.sums = sums_;
  KernelCase entry;
  entry.name = "cross_entropy";
  entry.group = "loss";
  entry.shape = rows_text(room_.masked, shape_.vocabulary);
  entry.calls_per_step = 1;
  entry.bytes =
      bytes_of(2 * room_.masked * shape_.vocabulary) + 4.0 * static_cast<double>(room_.masked);
  entry.enqueue = [this, op] { device_.cross_entropy(kCompute, op); };
  entry.reset = [this] { fill(logits_, random_); };
  add(std::move(entry));

  device::CrossEntropy next = op;
  next.logits = next_logits_;
  next.labels = inputs_.sample_labels();
  next.classes = 2;
  next.stride = 0;
  next.scale = inputs_.sample_scale();
  KernelCase second;
  second.name = "cross_entropy.next_sentence";
  second.group = "loss";
  second.shape = rows_text(room_.samples, 2);
  second.calls_per_step = 1;
  second.bytes = bytes_of(4 * room_.samples) + 4.0 * static_cast<double>(room_.samples);
  second.enqueue = [this, next] { device_.cross_entropy(kCompute, next); };
  second.reset = [this] { fill(next_logits_, random_); };
  add(std::move(second));
}

void KernelCases::add_rows() {
  const std::int64_t h = shape_.hidden;
  struct Selection {
    const char* suffix;
    device::View index, rows;
  };
  for (const Selection& selection : {Selection{"masked", inputs_.masked_rows(), masked_a_},
                                     Selection{"first", inputs_.first_rows(), first_a_}}) {
    const std::int64_t count = selection.index.size;
    const device::View index = selection.index;
    const device::View rows = selection.rows;
    KernelCase entry;
    entry.name = std::string("gather_rows.") + selection.suffix;
    entry.group = "rows";
    entry.shape = rows_text(count, h);
    entry.calls_per_step = 1;
    entry.bytes = bytes_of(2 * count * h) + 4.0 * static_cast<double>(count);
    entry.enqueue = [this, index, rows, h] {
      device_.gather_rows(kCompute, hidden_, index, h, rows);
    };
    KernelCase back = entry;
    add(std::move(entry));
    back.name = std::string("scatter_add_rows.") + selection.suffix;
    back.bytes = bytes_of(3 * count * h) + 4.0 * static_cast<double>(count);
    back.enqueue = [this, index, rows, h] {
      device_.scatter_add_rows(kCompute, rows, index, h, output_);
    };
    back.reset = [this, rows] {
      fill(rows, random_);
      fill(output_, random_);
    };
    add(std::move(back));
  }
}

// GELU of the feed-forward layer as an operation of its own is what the products' tails save.
void KernelCases::add_activations() {
  const bool tanh_form = shape_.gelu == contract::Gelu::Tanh;
  struct Elementwise {
    const char* name;
    double calls;
    device::View x;
    std::int64_t views;  // read and written
    std::function<void()> enqueue;
  };
  const device::View x = inner_, y = activated_, dx = dinner_;
  const Elementwise cases[] = {
      {"gelu.forward", 0, x, 2,
       [this, x, y, tanh_form] { device_.gelu_forward(kCompute, x, y, tanh_form); }},
      {"gelu.backward", 0, x, 3,
       [this, x, y, dx, tanh_form] { device_.gelu_backward(kCompute, x, y, dx, tanh_form); }},
      {"gelu.backward_masked", 1, masked_a_, 3,
       [this, tanh_form] {
         device_.gelu_backward(kCompute, masked_a_, masked_b_, masked_c_, tanh_form);
       }},
      {"tanh.forward", 1, first_a_, 2,
       [this] { device_.tanh_forward(kCompute, first_a_, first_b_); }},
      {"tanh.backward", 1, first_a_, 3,
       [this] { device_.tanh_backward(kCompute, first_b_, first_a_, first_c_); }},
      {"add", 0, hidden_, 3, [this] { device_.add(kCompute, hidden_, output_); }},
      {"add_column_sums", 0, qkv_, 1,
       [this] {
         const std::int64_t columns = 3 * shape_.hidden;
         const contract::TensorEntry& bias =
             table_.at("bert.encoder.layer.0.attention.self.query.bias");
         device_.add_column_sums(kCompute, qkv_, columns, gradients_.slice(bias.offset, columns));
       }},
  };
  for (const Elementwise& e : cases) {
    KernelCase entry;
    entry.name = e.name;
    entry.group = "elementwise";
    entry.shape = std::to_string(e.x.size);
    entry.calls_per_step = e.calls;
    entry.bytes = bytes_of(e.views * e.x.size);
    entry.enqueue = e.enqueue;
    entry.reset = [this] {
      for (const device::View& view :
           {hidden_, output_, qkv_, inner_, activated_, first_a_, first_b_, masked_a_, masked_b_}) {
        fill(view, random_);
      }
    };
    add(std::move(entry));
  }
}

void KernelCases::add_fills_and_copies() {
  const auto simple = [&](const char* name, double calls, std::int64_t count, double bytes,
                          std::function<void()> enqueue) {
    KernelCase entry;
    entry.name = name;
    entry.group = "memory";
    entry.shape = std::to_string(count);
    entry.calls_per_step = calls;
    entry.bytes = bytes;
    entry.enqueue = std::move(enqueue);
    add(std::move(entry));
  };
  const std::int64_t arena = parameters_.size;
  const auto parameters = static_cast<double>(arena);
  simple("fill_zero.gradients", 1, arena, 4 * parameters,
         [this] { device_.fill_zero(kCompute, gradients_); });
  simple("fill_zero.hidden", 1, output_.size, bytes_of(output_.size),
         [this] { device_.fill_zero(kCompute, output_); });
  simple("copy", 0, output_.size, bytes_of(2 * output_.size),
         [this] { device_.copy(kCompute, output_, hidden_); });
  if (options_.dtype != device::Dtype::Float32) {
    simple("convert", 0, arena, 6 * parameters,
           [this] { device_.convert(kCompute, compute_copy_, parameters_); });
  }
}

// AdamW reads four floats and writes three, LAMB reads the moments and the weights once more for
// the second pass; each writes the compute type's copy.
void KernelCases::add_optimizer() {
  const auto parameters = static_cast<double>(parameters_.size);
  const double copy_bytes = static_cast<double>(compute_copy_.bytes());
  const device::View norm = constants(1, 1.0F);
  std::vector<float> scalar_values(device::kStepScalars, 0.0F);
  scalar_values[device::kLearningRate] = 1e-7F;
  scalar_values[device::kBiasCorrection1] = 0.1F;
  scalar_values[device::kBiasCorrection2] = 0.001F;
  scalar_values[device::kClipNorm] = 1.0F;
  scalar_values[device::kInverseLossScale] = 1.0F;
  const device::View scalars = allocate(device::kStepScalars, device::Dtype::Float32);
  device_.copy_to_device(kCompute, scalars, scalar_values.data());
  device_.synchronize();
  device::OptimizerUpdate op;
  op.parameters = parameters_;
  op.gradients = gradients_;
  op.first_moment = first_moment_;
  op.second_moment = second_moment_;
  op.tensors = tensors_.data();
  op.tensor_count = static_cast<std::int64_t>(tensors_.size());
  op.beta1 = 0.9F;
  op.beta2 = 0.999F;
  op.epsilon = 1e-6F;
  op.weight_decay = 0.01F;
  op.scalars = scalars;
  op.squared_norm = norm;
  op.compute_copy = compute_copy_;

  KernelCase entry;
  entry.name = "sum_of_squares";
  entry.group = "optimizer";
  entry.shape = std::to_string(parameters_.size);
  entry.calls_per_step = 1;
  entry.bytes = 4 * parameters;
  entry.enqueue = [this, sums = sums_.slice(0, 1)] {
    device_.sum_of_squares(kCompute, gradients_, sums);
  };
  entry.reset = [this] { fill(gradients_, small_); };
  for (const bool lamb : {false, true}) {
    KernelCase update = entry;
    op.lamb = lamb;
    update.name = lamb ? "update.lamb" : "update.adamw";
    update.calls_per_step = lamb ? 0 : 1;
    update.bytes = (lamb ? 40 : 28) * parameters + copy_bytes;
    update.enqueue = [this, op] { device_.update(kCompute, op); };
    update.reset = [this] {
      fill(gradients_, small_);
      fill(parameters_, small_);
      device_.fill_zero(kCompute, first_moment_);
      device_.fill_zero(kCompute, second_moment_);
    };
    add(std::move(update));
  }
  add(std::move(entry));
}

}  // namespace regatta::trainer::bench
