#include "tests/trainer/model/reference_bert.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "tests/trainer/model/rounding.h"

namespace regatta::tests {
namespace {

using trainer::contract::ModelShape;
using trainer::samples::Sample;

// Philox4x32-10 again, from the paper, so that the oracle shares no code with the product.
std::array<std::uint32_t, 4> philox_again(std::uint64_t key, std::array<std::uint32_t, 4> c) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key & 0xFFFFFFFFU);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t a = 0xD2511F53ULL * c[0];
    const std::uint64_t b = 0xCD9E8D57ULL * c[2];
    c = {static_cast<std::uint32_t>(b >> 32U) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32U) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

double dropout_factor(double p, std::uint64_t seed, std::uint32_t block, int ordinal,
                      std::uint32_t step, std::uint32_t site, std::size_t element) {
  const double threshold = std::floor(65536 * p + 0.5);
  if (threshold == 0) return 1;
  const auto words = philox_again(seed, {block, static_cast<std::uint32_t>(ordinal), step, site});
  const std::uint32_t word = words[element % 8 / 2];
  const std::uint32_t draw = element % 2 == 0 ? word & 0xFFFFU : word >> 16U;
  return draw >= threshold ? 65536 / (65536 - threshold) : 0;
}

class Builder {
 public:
  Builder(const ModelShape& shape, const ReferenceWeights& weights, const ReferenceDropout& dropout,
          std::uint32_t step)
      : shape_(shape), dropout_(dropout), step_(step) {
    for (const auto& [name, weight] : weights) {
      nodes_[name] = tape_.input(weight.rows, weight.columns, weight.values);
    }
  }

  Node* sample_output(const Sample& sample, int ordinal) {
    std::vector<int> positions;
    for (std::size_t i = 0; i < sample.ids.size(); ++i) positions.push_back(static_cast<int>(i));
    Node* x = tape_.gather(weight("bert.embeddings.word_embeddings.weight"), ints(sample.ids));
    x = tape_.add(x, tape_.gather(weight("bert.embeddings.position_embeddings.weight"), positions));
    x = tape_.add(x, tape_.gather(weight("bert.embeddings.token_type_embeddings.weight"),
                                  ints(sample.types)));
    x = drop(norm("bert.embeddings.LayerNorm", x), ordinal, 16);
    for (int layer = 0; layer < shape_.layers; ++layer) x = encoder_layer(layer, x, ordinal);
    return x;
  }

  // Logits of all samples: [masked positions, vocabulary], or null if none is masked, and
  // [samples, 2].
  struct Heads {
    Node* mlm = nullptr;
    Node* nsp = nullptr;
    std::vector<int> mlm_labels, nsp_labels;
  };
  Heads heads(const std::vector<Node*>& outputs, const std::vector<Sample>& samples) {
    std::vector<Node*> first, masked;
    Heads heads;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      first.push_back(tape_.gather(outputs[i], {0}));
      heads.nsp_labels.push_back(samples[i].sample_label);
      if (samples[i].masked_positions.empty()) continue;
      masked.push_back(tape_.gather(outputs[i], ints(samples[i].masked_positions)));
      heads.mlm_labels.insert(heads.mlm_labels.end(), samples[i].masked_labels.begin(),
                              samples[i].masked_labels.end());
    }
    Node* pooled = tape_.tanh(dense("bert.pooler.dense", tape_.join_rows(first)));
    heads.nsp = dense("cls.seq_relationship", pooled);
    if (masked.empty()) return heads;
    Node* h = dense("cls.predictions.transform.dense", tape_.join_rows(masked));
    h = norm("cls.predictions.transform.LayerNorm",
             tape_.gelu(h, shape_.gelu == trainer::contract::Gelu::Tanh));
    heads.mlm = tape_.linear(h, weight("bert.embeddings.word_embeddings.weight"),
                             weight("cls.predictions.bias"));
    return heads;
  }

  // The label has weight 1 − smoothing, and smoothing is shared out alike among all.
  Node* smoothed_loss(Node* logits, const std::vector<int>& labels, double smoothing,
                      double weight) {
    if (smoothing == 0) return tape_.cross_entropy(logits, labels, weight);
    std::vector<double> targets(logits->value.size(),
                                smoothing / static_cast<double>(logits->columns));
    for (std::size_t r = 0; r < labels.size(); ++r) {
      targets[r * logits->columns + static_cast<std::size_t>(labels[r])] += 1 - smoothing;
    }
    return tape_.soft_cross_entropy(logits, targets, weight);
  }

  ReferenceResult finish(const std::vector<Node*>& outputs, const std::vector<Sample>& samples,
                         double masked_total, double sample_total, double smoothing) {
    const Heads logits = heads(outputs, samples);
    Node* nsp = smoothed_loss(logits.nsp, logits.nsp_labels, smoothing, 1 / sample_total);
    Node* total = nsp;
    ReferenceResult result;
    if (logits.mlm != nullptr) {
      Node* mlm = smoothed_loss(logits.mlm, logits.mlm_labels, smoothing, 1 / masked_total);
      result.mlm_loss = mlm->value[0] * masked_total;
      total = tape_.add(nsp, mlm);
    }
    result.nsp_loss = nsp->value[0] * sample_total;
    result.loss = total->value[0];
    tape_.backward(total);
    for (const auto& [name, node] : nodes_) {
      result.gradients[name] = node->gradient;
      result.magnitudes[name] = node->magnitude;
    }
    return result;
  }

  // Logits of each sample: of each of its tokens, or of [CLS].
  std::vector<Node*> task_logits(const std::vector<Node*>& outputs) {
    std::vector<Node*> logits;
    for (Node* output : outputs) {
      if (shape_.task == trainer::contract::Task::QuestionAnswering) {
        logits.push_back(dense("qa_outputs", output));
        continue;
      }
      Node* pooled = tape_.tanh(dense("bert.pooler.dense", tape_.gather(output, {0})));
      logits.push_back(dense("classifier", pooled));
    }
    return logits;
  }
  // Divided by sample_total.
  Node* task_loss(Node* logits, const Sample& sample, double smoothing, double sample_total) {
    const auto targets = [&](std::size_t count, std::int32_t label) {
      std::vector<double> shares(count, smoothing / static_cast<double>(count));
      shares[static_cast<std::size_t>(label)] += 1 - smoothing;
      return shares;
    };
    if (shape_.task == trainer::contract::Task::Regression) {
      return tape_.squared_error(logits, {static_cast<double>(sample.value)}, 1 / sample_total);
    }
    if (shape_.task == trainer::contract::Task::Classification) {
      if (sample.sample_label < 0) return nothing();
      return tape_.soft_cross_entropy(logits, targets(logits->columns, sample.sample_label),
                                      1 / sample_total);
    }
    if (sample.answer_begin < 0 || sample.answer_end < 0) return nothing();
    const auto end_of = [&](std::size_t column, std::int32_t token) {
      return tape_.soft_cross_entropy(tape_.row_of(tape_.columns(logits, column, 1)),
                                      targets(logits->rows, token), 0.5 / sample_total);
    };
    return tape_.add(end_of(0, sample.answer_begin), end_of(1, sample.answer_end));
  }
  [[nodiscard]] std::map<std::string, std::vector<double>> gradients_of(Node* total) {
    tape_.backward(total);
    std::map<std::string, std::vector<double>> gradients;
    for (const auto& [name, node] : nodes_) gradients[name] = node->gradient;
    return gradients;
  }

  Tape& tape() { return tape_; }

 private:
  Node* nothing() { return tape_.input(1, 1, {0.0}); }
  static std::vector<int> ints(const std::vector<std::int32_t>& values) {
    return {values.begin(), values.end()};
  }
  Node* weight(const std::string& name) { return nodes_.at(name); }
  Node* dense(const std::string& name, Node* x) {
    return tape_.linear(x, weight(name + ".weight"), weight(name + ".bias"));
  }
  Node* norm(const std::string& name, Node* x) {
    return tape_.layer_norm(x, weight(name + ".weight"), weight(name + ".bias"),
                            static_cast<double>(shape_.layer_norm_epsilon));
  }
  Node* drop(Node* x, int ordinal, std::uint32_t site) {
    std::vector<double> factors(x->value.size());
    const auto blocks = static_cast<std::uint32_t>((x->columns + 7) / 8);
    for (std::size_t r = 0; r < x->rows; ++r) {
      for (std::size_t c = 0; c < x->columns; ++c) {
        const auto block =
            static_cast<std::uint32_t>(r) * blocks + static_cast<std::uint32_t>(c / 8);
        factors[r * x->columns + c] =
            dropout_factor(dropout_.hidden, dropout_.seed, block, ordinal, step_, site, c);
      }
    }
    return tape_.scale_elements(x, factors);
  }
  Node* encoder_layer(int layer, Node* x, int ordinal) {
    const std::string prefix = "bert.encoder.layer." + std::to_string(layer) + ".";
    const std::uint32_t site = 64 + 4 * static_cast<std::uint32_t>(layer);
    Node* q = dense(prefix + "attention.self.query", x);
    Node* k = dense(prefix + "attention.self.key", x);
    Node* v = dense(prefix + "attention.self.value", x);
    const auto size = static_cast<std::size_t>(shape_.head_size());
    std::vector<Node*> heads;
    for (int head = 0; head < shape_.heads; ++head) {
      std::vector<double> factors(x->rows * x->rows);
      for (std::size_t i = 0; i < x->rows; ++i) {
        for (std::size_t j = 0; j < x->rows; ++j) {
          const std::uint32_t block =
              (static_cast<std::uint32_t>(head) * 4096 + static_cast<std::uint32_t>(i)) * 512 +
              static_cast<std::uint32_t>(j / 8);
          factors[i * x->rows + j] =
              dropout_factor(dropout_.attention, dropout_.seed, block, ordinal, step_, site, j);
        }
      }
      const std::size_t begin = static_cast<std::size_t>(head) * size;
      heads.push_back(tape_.attention(tape_.columns(q, begin, size), tape_.columns(k, begin, size),
                                      tape_.columns(v, begin, size),
                                      1 / std::sqrt(static_cast<double>(size)), factors));
    }
    Node* a = dense(prefix + "attention.output.dense", tape_.join_columns(heads));
    a = norm(prefix + "attention.output.LayerNorm", tape_.add(drop(a, ordinal, site + 1), x));
    Node* f = tape_.gelu(dense(prefix + "intermediate.dense", a),
                         shape_.gelu == trainer::contract::Gelu::Tanh);
    f = dense(prefix + "output.dense", f);
    return norm(prefix + "output.LayerNorm", tape_.add(drop(f, ordinal, site + 2), a));
  }

  ModelShape shape_;
  ReferenceDropout dropout_;
  std::uint32_t step_;
  Tape tape_;
  std::map<std::string, Node*> nodes_;
};

// Without dropout, whose masks are all that an ordinal is for.
std::vector<Node*> plain_outputs(Builder* builder, const std::vector<Sample>& samples) {
  std::vector<Node*> outputs;
  outputs.reserve(samples.size());
  for (const Sample& sample : samples) outputs.push_back(builder->sample_output(sample, 0));
  return outputs;
}

std::vector<ReferencePrediction> predictions(const Node* logits) {
  std::vector<ReferencePrediction> found;
  for (std::size_t r = 0; r < logits->rows; ++r) {
    const auto begin = logits->value.begin() + static_cast<std::ptrdiff_t>(r * logits->columns);
    std::vector<double> row(begin, begin + static_cast<std::ptrdiff_t>(logits->columns));
    const auto best = std::max_element(row.begin(), row.end());
    const double largest = *best;
    const auto at = static_cast<int>(best - row.begin());
    *best = -HUGE_VAL;
    found.push_back({at, largest - *std::max_element(row.begin(), row.end())});
  }
  return found;
}

// Σ Tape::rounding() over the logits of a row. Σ_j (Σ_k a_jk²) is the mean of Σ_k (Σ_j ±a_jk)² over
// random signs; after some of them it is known to a few percent.
double row_rounding(Tape* tape, Node* logits, std::size_t row, std::mt19937* random) {
  constexpr int kDraws = 8;
  double sum = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> signs(logits->value.size(), 0.0);
    for (std::size_t c = 0; c < logits->columns; ++c) {
      signs[row * logits->columns + c] = (*random)() % 2U == 0 ? 1.0 : -1.0;
    }
    tape->backward(logits, signs);
    sum += tape->rounding();
  }
  return sum / kDraws;
}

}  // namespace

ReferenceResult reference_bert(const ModelShape& shape, const ReferenceWeights& weights,
                               const std::vector<Sample>& samples, const std::vector<int>& ordinals,
                               const ReferenceDropout& dropout, std::uint32_t step,
                               double masked_total, double sample_total, double smoothing) {
  Builder builder(shape, weights, dropout, step);
  std::vector<Node*> outputs;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    outputs.push_back(builder.sample_output(samples[i], ordinals[i]));
  }
  return builder.finish(outputs, samples, masked_total, sample_total, smoothing);
}

ReferenceTaskResult reference_task(const ModelShape& shape, const ReferenceWeights& weights,
                                   const std::vector<Sample>& samples,
                                   const std::vector<int>& ordinals,
                                   const ReferenceDropout& dropout, std::uint32_t step,
                                   double smoothing, double sample_total) {
  Builder builder(shape, weights, dropout, step);
  std::vector<Node*> outputs;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    outputs.push_back(builder.sample_output(samples[i], ordinals[i]));
  }
  ReferenceTaskResult result;
  Node* total = builder.tape().input(1, 1, {0.0});
  const std::vector<Node*> logits = builder.task_logits(outputs);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    result.logits.push_back(logits[i]->value);
    total = builder.tape().add(total,
                               builder.task_loss(logits[i], samples[i], smoothing, sample_total));
  }
  result.loss = total->value[0] * sample_total;
  result.gradients = builder.gradients_of(total);
  return result;
}

ReferenceScores reference_scores(const ModelShape& shape, const ReferenceWeights& weights,
                                 const std::vector<Sample>& samples) {
  Builder builder(shape, weights, {}, 0);
  const Builder::Heads logits = builder.heads(plain_outputs(&builder, samples), samples);
  ReferenceScores scores;
  scores.mlm = predictions(logits.mlm);
  scores.nsp = predictions(logits.nsp);
  const auto score = [&](Node* of, const std::vector<int>& labels, double* loss, double* error) {
    Node* sum = builder.tape().cross_entropy(of, labels, 1);
    *loss = sum->value[0];
    builder.tape().backward(sum);
    *error = float32_error(builder.tape().rounding(), 1);
  };
  score(logits.mlm, logits.mlm_labels, &scores.mlm_loss, &scores.mlm_error);
  score(logits.nsp, logits.nsp_labels, &scores.nsp_loss, &scores.nsp_error);
  return scores;
}

std::vector<ReferenceLogits> reference_logits(const ModelShape& shape,
                                              const ReferenceWeights& weights,
                                              const Sample& sample) {
  Builder builder(shape, weights, {}, 0);
  const Builder::Heads logits = builder.heads(plain_outputs(&builder, {sample}), {sample});
  std::mt19937 random(1);
  std::vector<ReferenceLogits> found;
  for (std::size_t row = 0; row < logits.mlm->rows; ++row) {
    const auto begin =
        logits.mlm->value.begin() + static_cast<std::ptrdiff_t>(row * logits.mlm->columns);
    found.push_back({{begin, begin + static_cast<std::ptrdiff_t>(logits.mlm->columns)},
                     row_rounding(&builder.tape(), logits.mlm, row, &random)});
  }
  for (const std::size_t next : {0U, 1U}) {
    builder.tape().backward(logits.nsp, {next == 0 ? 1.0 : 0.0, next == 0 ? 0.0 : 1.0});
    found.push_back({{logits.nsp->value[next]}, builder.tape().rounding()});
  }
  return found;
}

}  // namespace regatta::tests
