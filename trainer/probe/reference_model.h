// BERT in float64: what a step would give without rounding. From the paper's formulas (Devlin et
// al., arXiv 1810.04805), sample by sample; slow, and sharing no code with device/ and model/.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/probe/reference_math.h"
#include "trainer/probe/replay.h"

namespace regatta::trainer::probe {

struct ReferenceOptions {
  contract::ModelShape shape;
  double dropout = 0, attention_dropout = 0;
  std::uint64_t seed = 0;
  std::int64_t step = 0;           // of the optimizer, for dropout
  double masked = 1, samples = 1;  // of the whole step: what losses are divided by
  double label_smoothing = 0;
};

class ReferenceModel {
 public:
  // weights: every tensor of the table, by name.
  ReferenceModel(const ReferenceOptions& options,
                 const std::map<std::string, std::vector<double>>& weights);

  // Forward and backward of one sample: what it gives is added to all below.
  void train(const ReplayedSample& sample);

  // Σ mlm / masked + Σ sample / samples.
  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] const std::vector<double>& gradient(const std::string& tensor) const {
    return parameters_.at(tensor).gradient.values;
  }
  // √(Σ ‖what a token adds to it‖²): how large it would be if these did not cancel out.
  [[nodiscard]] double gradient_spread(const std::string& tensor) const {
    return std::sqrt(parameters_.at(tensor).squares);
  }
  // By the names of read_activations(), the samples' rows one after another.
  [[nodiscard]] const std::map<std::string, std::vector<double>>& activations() const {
    return activations_;
  }

 private:
  struct Layer;
  [[nodiscard]] Parameter& at(const std::string& name) { return parameters_.at(name); }
  void note(const std::string& name, const Matrix& rows);
  [[nodiscard]] GeluForm form() const;
  [[nodiscard]] double epsilon() const;
  [[nodiscard]] Matrix apply(const std::string& name, const Matrix& x);
  [[nodiscard]] Matrix apply_backward(const std::string& name, const Matrix& x, const Matrix& dy);
  [[nodiscard]] Matrix norm(const std::string& name, const Matrix& x);
  [[nodiscard]] Matrix norm_backward(const std::string& name, const Matrix& x, const Matrix& dy);
  // Factors of dropout: 0 or what kept elements are multiplied by.
  [[nodiscard]] Matrix hidden_factors(std::uint32_t site, std::int64_t rows,
                                      const ReplayedSample& sample) const;
  [[nodiscard]] Matrix attention_factors(int layer, int head, std::int64_t tokens,
                                         const ReplayedSample& sample) const;
  [[nodiscard]] Matrix embeddings(const samples::Sample& sample);
  void embeddings_backward(const samples::Sample& sample, const Matrix& dx);
  [[nodiscard]] Matrix forward(int layer, const Matrix& x, const ReplayedSample& sample,
                               Layer* kept);
  [[nodiscard]] Matrix backward(int layer, const Layer& kept, const Matrix& dy);
  [[nodiscard]] Matrix attend(int layer, const ReplayedSample& sample, Layer* kept);
  // Heads, with loss: each returns the gradient of the hidden states.
  [[nodiscard]] Matrix masked_head(const Matrix& hidden, const samples::Sample& sample);
  [[nodiscard]] Matrix pooled_head(const Matrix& hidden, const samples::Sample& sample);
  [[nodiscard]] Matrix answer_head(const Matrix& hidden, const samples::Sample& sample);
  // Adds a row's loss / `of`, and returns its gradient.
  [[nodiscard]] Matrix row_loss(const double* logits, std::int64_t classes, std::int32_t label,
                                double of);

  ReferenceOptions options_;
  std::map<std::string, Parameter> parameters_;
  std::map<std::string, std::vector<double>> activations_;
  double loss_ = 0;
};

}  // namespace regatta::trainer::probe
