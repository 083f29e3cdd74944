#include "trainer/probe/reference_model.h"

#include <cmath>

#include "base/philox.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::probe {
namespace {

using contract::RandomSite;

std::string layer_prefix(int layer) { return "bert.encoder.layer." + std::to_string(layer) + "."; }

// trainer/contract/random_site.h: the element's draw within its block of eight.
double dropout_factor(std::uint32_t threshold, std::uint64_t seed, const base::PhiloxCounter& at,
                      std::int64_t element) {
  if (threshold == 0) return 1;
  const std::uint32_t word = base::philox(seed, at)[static_cast<std::size_t>(element % 8 / 2)];
  const std::uint32_t draw = element % 2 == 0 ? word & 0xFFFFU : word >> 16U;
  return draw < threshold ? 0 : 65536.0 / (65536.0 - static_cast<double>(threshold));
}

}  // namespace

// What backward needs of forward.
struct ReferenceModel::Layer {
  Matrix x, q, k, v, context, attention_sum, middle, inner, activated, output_sum;
  Matrix attention_mask, output_mask;
  std::vector<Matrix> probabilities, factors;  // of each head
};

ReferenceModel::ReferenceModel(const ReferenceOptions& options,
                               const std::map<std::string, std::vector<double>>& weights)
    : options_(options) {
  for (const contract::TensorEntry& entry : contract::make_tensor_table(options.shape).tensors) {
    Parameter& parameter = parameters_[entry.name];
    const std::int64_t columns = entry.shape.back();
    parameter.value = Matrix(entry.size / columns, columns);
    parameter.value.values = weights.at(entry.name);
    parameter.gradient = Matrix(entry.size / columns, columns);
  }
}

void ReferenceModel::note(const std::string& name, const Matrix& rows) {
  std::vector<double>& all = activations_[name];
  all.insert(all.end(), rows.values.begin(), rows.values.end());
}

GeluForm ReferenceModel::form() const {
  return options_.shape.gelu == contract::Gelu::Tanh ? GeluForm::Tanh : GeluForm::Erf;
}

double ReferenceModel::epsilon() const {
  return static_cast<double>(options_.shape.layer_norm_epsilon);
}

Matrix ReferenceModel::apply(const std::string& name, const Matrix& x) {
  return linear(x, at(name + ".weight"), at(name + ".bias"));
}

Matrix ReferenceModel::apply_backward(const std::string& name, const Matrix& x, const Matrix& dy) {
  return linear_backward(x, dy, &at(name + ".weight"), &at(name + ".bias"));
}

Matrix ReferenceModel::norm(const std::string& name, const Matrix& x) {
  return layer_norm(x, at(name + ".weight"), at(name + ".bias"), epsilon());
}

Matrix ReferenceModel::norm_backward(const std::string& name, const Matrix& x, const Matrix& dy) {
  return layer_norm_backward(x, dy, epsilon(), &at(name + ".weight"), &at(name + ".bias"));
}

Matrix ReferenceModel::hidden_factors(std::uint32_t site, std::int64_t rows,
                                      const ReplayedSample& sample) const {
  Matrix factors(rows, options_.shape.hidden);
  const auto hidden = static_cast<std::uint32_t>(options_.shape.hidden);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < factors.columns; ++c) {
      const std::uint32_t block =
          contract::row_block(static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(c), hidden);
      factors.row(r)[c] =
          dropout_factor(contract::dropout_threshold(options_.dropout), options_.seed,
                         {block, static_cast<std::uint32_t>(sample.ordinal),
                          static_cast<std::uint32_t>(options_.step), site},
                         c);
    }
  }
  return factors;
}

Matrix ReferenceModel::attention_factors(int layer, int head, std::int64_t tokens,
                                         const ReplayedSample& sample) const {
  Matrix factors(tokens, tokens);
  for (std::int64_t i = 0; i < tokens; ++i) {
    for (std::int64_t j = 0; j < tokens; ++j) {
      const std::uint32_t block =
          contract::attention_block(static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(i),
                                    static_cast<std::uint32_t>(j));
      factors.row(i)[j] = dropout_factor(
          contract::dropout_threshold(options_.attention_dropout), options_.seed,
          {block, static_cast<std::uint32_t>(sample.ordinal),
           static_cast<std::uint32_t>(options_.step), contract::attention_dropout_site(layer)},
          j);
    }
  }
  return factors;
}

Matrix ReferenceModel::embeddings(const samples::Sample& sample) {
  Matrix x = rows_of(at(contract::kWordEmbedding).value, sample.ids);
  std::vector<std::int32_t> positions(sample.ids.size());
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
  x += rows_of(at("bert.embeddings.position_embeddings.weight").value, positions);
  x += rows_of(at("bert.embeddings.token_type_embeddings.weight").value, sample.types);
  return x;
}

void ReferenceModel::embeddings_backward(const samples::Sample& sample, const Matrix& dx) {
  add_to_rows(dx, sample.ids, &at(contract::kWordEmbedding));
  std::vector<std::int32_t> positions(sample.ids.size());
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
  add_to_rows(dx, positions, &at("bert.embeddings.position_embeddings.weight"));
  add_to_rows(dx, sample.types, &at("bert.embeddings.token_type_embeddings.weight"));
}

Matrix ReferenceModel::attend(int layer, const ReplayedSample& sample, Layer* kept) {
  Matrix context(kept->x.rows, kept->x.columns);
  const std::int64_t size = options_.shape.head_size();
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  kept->probabilities.resize(static_cast<std::size_t>(options_.shape.heads));
  for (int head = 0; head < options_.shape.heads; ++head) {
    kept->factors.push_back(attention_factors(layer, head, kept->x.rows, sample));
    put_columns(
        attention(columns_of(kept->q, head * size, size), columns_of(kept->k, head * size, size),
                  columns_of(kept->v, head * size, size), kept->factors.back(), scale,
                  &kept->probabilities[static_cast<std::size_t>(head)]),
        head * size, &context);
  }
  return context;
}

Matrix ReferenceModel::forward(int layer, const Matrix& x, const ReplayedSample& sample,
                               Layer* kept) {
  const std::string prefix = layer_prefix(layer);
  kept->x = x;
  kept->q = apply(prefix + "attention.self.query", x);
  kept->k = apply(prefix + "attention.self.key", x);
  kept->v = apply(prefix + "attention.self.value", x);
  note("output of " + prefix + "attention.self.query.weight", kept->q);
  note("output of " + prefix + "attention.self.key.weight", kept->k);
  note("output of " + prefix + "attention.self.value.weight", kept->v);
  kept->context = attend(layer, sample, kept);
  note("input of " + prefix + "attention.output.dense.weight", kept->context);
  kept->attention_mask =
      hidden_factors(contract::attention_output_dropout_site(layer), x.rows, sample);
  kept->attention_sum =
      product(apply(prefix + "attention.output.dense", kept->context), kept->attention_mask);
  kept->attention_sum += x;
  note("output of " + prefix + "attention.output.dense.weight", kept->attention_sum);
  kept->middle = norm(prefix + "attention.output.LayerNorm", kept->attention_sum);
  note("output of " + prefix + "attention.output.LayerNorm.weight", kept->middle);
  kept->inner = apply(prefix + "intermediate.dense", kept->middle);
  note("output of " + prefix + "intermediate.dense.weight", kept->inner);
  kept->activated = gelu(kept->inner, form());
  note("input of " + prefix + "output.dense.weight", kept->activated);
  kept->output_mask = hidden_factors(contract::output_dropout_site(layer), x.rows, sample);
  kept->output_sum = product(apply(prefix + "output.dense", kept->activated), kept->output_mask);
  kept->output_sum += kept->middle;
  note("output of " + prefix + "output.dense.weight", kept->output_sum);
  Matrix y = norm(prefix + "output.LayerNorm", kept->output_sum);
  note("output of " + prefix + "output.LayerNorm.weight", y);
  return y;
}

Matrix ReferenceModel::backward(int layer, const Layer& kept, const Matrix& dy) {
  const std::string prefix = layer_prefix(layer);
  const Matrix doutput = norm_backward(prefix + "output.LayerNorm", kept.output_sum, dy);
  const Matrix dinner = gelu_backward(
      kept.inner,
      apply_backward(prefix + "output.dense", kept.activated, product(doutput, kept.output_mask)),
      form());
  Matrix dmiddle = apply_backward(prefix + "intermediate.dense", kept.middle, dinner);
  dmiddle += doutput;
  Matrix dx = norm_backward(prefix + "attention.output.LayerNorm", kept.attention_sum, dmiddle);
  const Matrix dcontext = apply_backward(prefix + "attention.output.dense", kept.context,
                                         product(dx, kept.attention_mask));
  Matrix dq(dx.rows, dx.columns), dk = dq, dv = dq;
  const std::int64_t size = options_.shape.head_size();
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  for (int head = 0; head < options_.shape.heads; ++head) {
    const auto h = static_cast<std::size_t>(head);
    const AttentionGradients d = attention_backward(
        columns_of(kept.q, head * size, size), columns_of(kept.k, head * size, size),
        columns_of(kept.v, head * size, size), kept.factors[h], scale, kept.probabilities[h],
        columns_of(dcontext, head * size, size));
    put_columns(d.q, head * size, &dq);
    put_columns(d.k, head * size, &dk);
    put_columns(d.v, head * size, &dv);
  }
  dx += apply_backward(prefix + "attention.self.query", kept.x, dq);
  dx += apply_backward(prefix + "attention.self.key", kept.x, dk);
  dx += apply_backward(prefix + "attention.self.value", kept.x, dv);
  return dx;
}

// The label has weight 1 − smoothing, and smoothing is shared out alike among all. A label of −1 is
// not known and counts nowhere.
Matrix ReferenceModel::row_loss(const double* logits, std::int64_t classes, std::int32_t label,
                                double of) {
  Matrix gradient(1, classes);
  if (label < 0) return gradient;
  std::vector<double> targets(static_cast<std::size_t>(classes),
                              options_.label_smoothing / static_cast<double>(classes));
  targets[static_cast<std::size_t>(label)] += 1 - options_.label_smoothing;
  const RowLoss row = cross_entropy(logits, targets);
  loss_ += row.loss / of;
  for (std::int64_t c = 0; c < classes; ++c) {
    gradient.row(0)[c] = row.gradient[static_cast<std::size_t>(c)] / of;
  }
  return gradient;
}

Matrix ReferenceModel::masked_head(const Matrix& hidden, const samples::Sample& sample) {
  const std::string transform = "cls.predictions.transform.";
  const Matrix gathered = rows_of(hidden, sample.masked_positions);
  const Matrix inner = apply(transform + "dense", gathered);
  note("output of " + transform + "dense.weight", inner);
  const Matrix activated = gelu(inner, form());
  const Matrix normed = norm(transform + "LayerNorm", activated);
  note("output of " + transform + "LayerNorm.weight", normed);
  Parameter& word = at(contract::kWordEmbedding);
  Parameter& bias = at("cls.predictions.bias");
  const Matrix logits = linear(normed, word, bias);
  Matrix dlogits(logits.rows, logits.columns);
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    const Matrix row = row_loss(logits.row(r), logits.columns,
                                sample.masked_labels[static_cast<std::size_t>(r)], options_.masked);
    std::copy_n(row.row(0), logits.columns, dlogits.row(r));
  }
  note(std::string("gradient of the output of ") + contract::kWordEmbedding, dlogits);
  const Matrix dnormed = linear_backward(normed, dlogits, &word, &bias);
  const Matrix dactivated = norm_backward(transform + "LayerNorm", activated, dnormed);
  const Matrix dgathered =
      apply_backward(transform + "dense", gathered, gelu_backward(inner, dactivated, form()));
  Matrix dhidden(hidden.rows, hidden.columns);
  add_rows(dgathered, sample.masked_positions, &dhidden);
  return dhidden;
}

Matrix ReferenceModel::pooled_head(const Matrix& hidden, const samples::Sample& sample) {
  const Matrix first = rows_of(hidden, {0});
  Matrix pooled = apply("bert.pooler.dense", first);
  for (double& v : pooled.values) v = std::tanh(v);
  note("output of bert.pooler.dense.weight", pooled);
  const std::string head =
      options_.shape.task == contract::Task::Pretraining ? "cls.seq_relationship" : "classifier";
  const Matrix logits = apply(head, pooled);
  Matrix dlogits(1, logits.columns);
  if (options_.shape.task == contract::Task::Regression) {
    const auto value = static_cast<double>(sample.value);
    if (!std::isnan(value)) {
      const double apart = logits.row(0)[0] - value;
      loss_ += apart * apart / options_.samples;
      dlogits.row(0)[0] = 2 * apart / options_.samples;
    }
  } else {
    dlogits = row_loss(logits.row(0), logits.columns, sample.sample_label, options_.samples);
  }
  note("gradient of the output of " + head + ".weight", dlogits);
  Matrix dpooled = apply_backward(head, pooled, dlogits);
  for (std::size_t i = 0; i < dpooled.values.size(); ++i) {
    dpooled.values[i] *= 1 - pooled.values[i] * pooled.values[i];
  }
  Matrix dhidden(hidden.rows, hidden.columns);
  add_rows(apply_backward("bert.pooler.dense", first, dpooled), {0}, &dhidden);
  return dhidden;
}

// ½·(cross-entropy of the first token + of the last) over the tokens of the sample.
Matrix ReferenceModel::answer_head(const Matrix& hidden, const samples::Sample& sample) {
  const Matrix logits = apply("qa_outputs", hidden);
  Matrix dlogits(logits.rows, 2);
  const bool known = sample.answer_begin >= 0 && sample.answer_end >= 0;
  for (const int end : {0, 1}) {
    const Matrix column = columns_of(logits, end, 1);
    const std::int32_t label = end == 0 ? sample.answer_begin : sample.answer_end;
    const Matrix row =
        row_loss(column.values.data(), column.rows, known ? label : -1, 2 * options_.samples);
    for (std::int64_t r = 0; r < logits.rows; ++r) dlogits.row(r)[end] = row.row(0)[r];
  }
  note("gradient of the output of qa_outputs.weight", dlogits);
  return apply_backward("qa_outputs", hidden, dlogits);
}

void ReferenceModel::train(const ReplayedSample& sample) {
  const std::string norm_name = "bert.embeddings.LayerNorm";
  const Matrix sum = embeddings(sample.sample);
  note("input of " + norm_name + ".weight", sum);
  const Matrix mask =
      hidden_factors(static_cast<std::uint32_t>(RandomSite::EmbeddingDropout), sum.rows, sample);
  Matrix hidden = product(norm(norm_name, sum), mask);
  note("output of " + norm_name + ".weight", hidden);
  std::vector<Layer> layers(static_cast<std::size_t>(options_.shape.layers));
  for (int layer = 0; layer < options_.shape.layers; ++layer) {
    hidden = forward(layer, hidden, sample, &layers[static_cast<std::size_t>(layer)]);
  }
  Matrix d(hidden.rows, hidden.columns);
  if (options_.shape.task == contract::Task::QuestionAnswering) {
    d += answer_head(hidden, sample.sample);
  } else {
    d += pooled_head(hidden, sample.sample);
    if (options_.shape.task == contract::Task::Pretraining) d += masked_head(hidden, sample.sample);
  }
  for (int layer = options_.shape.layers - 1; layer >= 0; --layer) {
    d = backward(layer, layers[static_cast<std::size_t>(layer)], d);
  }
  embeddings_backward(sample.sample, norm_backward(norm_name, sum, product(d, mask)));
}

}  // namespace regatta::trainer::probe
