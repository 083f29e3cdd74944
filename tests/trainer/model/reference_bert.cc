#include "tests/trainer/model/reference_bert.h"

#include <array>
#include <cmath>

namespace regatta::tests {
namespace {

using trainer::ModelShape;
using trainer::Sample;

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

  ReferenceResult finish(const std::vector<Node*>& outputs, const std::vector<Sample>& samples,
                         double masked_total, double sample_total) {
    std::vector<Node*> first, masked;
    std::vector<int> next_labels, labels;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      first.push_back(tape_.gather(outputs[i], {0}));
      next_labels.push_back(samples[i].next_sentence_label);
      if (samples[i].masked_positions.empty()) continue;
      masked.push_back(tape_.gather(outputs[i], ints(samples[i].masked_positions)));
      labels.insert(labels.end(), samples[i].masked_labels.begin(), samples[i].masked_labels.end());
    }
    Node* pooled = tape_.tanh(dense("bert.pooler.dense", tape_.join_rows(first)));
    Node* nsp =
        tape_.cross_entropy(dense("cls.seq_relationship", pooled), next_labels, 1 / sample_total);
    Node* total = nsp;
    ReferenceResult result;
    if (!masked.empty()) {
      Node* h = dense("cls.predictions.transform.dense", tape_.join_rows(masked));
      h = norm("cls.predictions.transform.LayerNorm",
               tape_.gelu(h, shape_.gelu == trainer::Gelu::Tanh));
      Node* logits = tape_.linear(h, weight("bert.embeddings.word_embeddings.weight"),
                                  weight("cls.predictions.bias"));
      Node* mlm = tape_.cross_entropy(logits, labels, 1 / masked_total);
      result.mlm_loss = mlm->value[0] * masked_total;
      total = tape_.add(nsp, mlm);
    }
    result.nsp_loss = nsp->value[0] * sample_total;
    result.loss = total->value[0];
    tape_.backward(total);
    for (const auto& [name, node] : nodes_) result.gradients[name] = node->gradient;
    return result;
  }

 private:
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
    Node* f =
        tape_.gelu(dense(prefix + "intermediate.dense", a), shape_.gelu == trainer::Gelu::Tanh);
    f = dense(prefix + "output.dense", f);
    return norm(prefix + "output.LayerNorm", tape_.add(drop(f, ordinal, site + 2), a));
  }

  ModelShape shape_;
  ReferenceDropout dropout_;
  std::uint32_t step_;
  Tape tape_;
  std::map<std::string, Node*> nodes_;
};

}  // namespace

ReferenceResult reference_bert(const ModelShape& shape, const ReferenceWeights& weights,
                               const std::vector<Sample>& samples, const std::vector<int>& ordinals,
                               const ReferenceDropout& dropout, std::uint32_t step,
                               double masked_total, double sample_total) {
  Builder builder(shape, weights, dropout, step);
  std::vector<Node*> outputs;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    outputs.push_back(builder.sample_output(samples[i], ordinals[i]));
  }
  return builder.finish(outputs, samples, masked_total, sample_total);
}

}  // namespace regatta::tests
