// The gradient of chosen samples by a model of its own, in a step of nobody: what the noise scale
// of a run is compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/contract/run_config.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/bert.h"
#include "trainer/samples/batch.h"
#include "trainer/step/snapshot.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {

using Gradient = std::vector<double>;

class GradientOf {
 public:
  GradientOf(const trainer::contract::RunConfig& config, const std::vector<float>& weights)
      : device_(trainer::cpu::make_cpu_device(1)),
        model_(*device_, config.model, trainer::step::bert_options(config, *device_)) {
    device_->copy_to_device(0, model_.parameters(), weights.data());
    model_.renew_compute_copy();
  }

  // Mean over masked positions and over samples, with the masks of dropout that `step` has for
  // these ordinals.
  [[nodiscard]] Gradient operator()(const std::vector<trainer::samples::Sample>& samples,
                                    const std::vector<std::int32_t>& ordinals, std::int32_t step) {
    const trainer::samples::PackedBatch batch = trainer::samples::collate(samples, ordinals);
    model_.zero_gradients();
    model_.upload(batch, step, {batch.masked(), batch.samples(), 1});
    model_.forward(trainer::model::Mode::Training);
    model_.backward();
    std::vector<float> read(static_cast<std::size_t>(model_.gradients().size));
    device_->copy_to_host(0, read.data(), model_.gradients());
    device_->synchronize();
    return {read.begin(), read.end()};
  }
  [[nodiscard]] const trainer::contract::TensorTable& table() const { return model_.table(); }

 private:
  std::unique_ptr<trainer::device::Device> device_;
  trainer::model::Bert model_;
};

// 1/(√v̂ + ε) of each element, after `updates` updates; zero between tensors. With `squares` after
// one more update, by gradients with these.
inline Gradient preconditioner(const trainer::contract::RunConfig& config,
                               const trainer::contract::TensorTable& table,
                               const std::vector<float>& second_moment, std::int64_t updates,
                               const Gradient& squares = {}) {
  Gradient inverse(second_moment.size(), 0.0);
  const double beta2 = config.optimizer.beta2;
  const double correction =
      1 - std::pow(beta2, static_cast<double>(updates + (squares.empty() ? 0 : 1)));
  for (const trainer::contract::TensorEntry& tensor : table.tensors) {
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      auto v = static_cast<double>(second_moment[at]);
      if (!squares.empty()) v = beta2 * v + (1 - beta2) * squares[at];
      inverse[at] = 1 / (std::sqrt(v / correction) + config.optimizer.epsilon);
    }
  }
  return inverse;
}

inline double squared(const Gradient& x, const Gradient& scale = {}) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = scale.empty() ? x[i] : x[i] * scale[i];
    sum += value * value;
  }
  return sum;
}

// φ of a frozen model by Monte-Carlo: independent batches drawn from many passes over the dataset.
struct NoiseTruth {
  double samples = 0, error = 0;  // φ, and its standard error (jackknife)
};

// Each gradient's elements times `scale` (empty: as they are). The batches have `batch` samples.
inline NoiseTruth truth_of(const std::vector<std::vector<float>>& gradients, int batch,
                           const Gradient& scale) {
  const auto k = static_cast<double>(gradients.size());
  Gradient mean(gradients[0].size(), 0.0);
  std::vector<double> norms, products;  // ‖g‖², g · mean
  const auto value = [&scale](const std::vector<float>& g, std::size_t i) {
    return static_cast<double>(g[i]) * (scale.empty() ? 1 : scale[i]);
  };
  double all = 0;
  for (const std::vector<float>& g : gradients) {
    double norm = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      mean[i] += value(g, i) / k;
      norm += value(g, i) * value(g, i);
    }
    norms.push_back(norm);
    all += norm;
  }
  for (const std::vector<float>& g : gradients) {
    products.push_back(0);
    for (std::size_t i = 0; i < g.size(); ++i) products.back() += value(g, i) * mean[i];
  }
  // Of n batches with the mean of squared norms q and the squared norm m of their mean.
  const auto phi = [batch](double n, double q, double m) {
    const double noise = (q - m) * n / (n - 1);
    return batch * noise / (m - noise / n);
  };
  const double m = squared(mean);
  NoiseTruth truth;
  truth.samples = phi(k, all / k, m);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {  // without batch i
    const double rest = (k * k * m - 2 * k * products[i] + norms[i]) / ((k - 1) * (k - 1));
    const double without = phi(k - 1, (all - norms[i]) / (k - 1), rest);
    sum += without;
    squares += without * without;
  }
  truth.error = std::sqrt((k - 1) * std::max(0.0, squares / k - sum / k * sum / k));
  return truth;
}

}  // namespace regatta::tests
