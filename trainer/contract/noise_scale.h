// Gradient noise scale, statistical efficiency and goodput.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace regatta::trainer {

// One step, seen from R ranks.
struct GradientNorms {
  // Σ g_r² of each rank's gradient before the reduction, where g_r is already divided by the
  // global count, so that the step's gradient is Σ g_r; and what rank r counted of that count.
  std::vector<double> squared_local, counts;
  double squared_global = 0;  // Σ (Σ_r g_r)²
};

// The estimator of McCandlish et al. (arXiv 1812.06162, appendix A) in the form that Pollux (Qiao
// et al., OSDI 2021) uses for data parallel training: ranks' gradients are R small batches, their
// sum is the large one. Ranks are weighted by their counts, so that unequal shares of tokens do not
// pass for noise.
class NoiseScale {
 public:
  // Of samples: of a step, and M₀ of the efficiency.
  NoiseScale(std::int64_t batch, std::int64_t base_batch);
  // Steps whose norms are not finite, or with fewer than two ranks that counted something, are
  // passed over.
  void observe(const GradientNorms& step);

  // φ in samples: the batch at which half of a step is noise. Nothing before kLeastSteps steps.
  [[nodiscard]] std::optional<double> samples() const;
  // (φ + M₀) / (φ + M): progress per sample against training with batches of M₀; in (0, 1] for
  // M ≥ M₀.
  [[nodiscard]] std::optional<double> efficiency() const;
  // Samples per second that count: throughput times efficiency.
  [[nodiscard]] std::optional<double> goodput(double samples_per_second) const;
  static constexpr int kLeastSteps = 10;

 private:
  double batch_, base_batch_;
  double signal_ = 0, noise_ = 0, weight_ = 0;  // running averages and their common divisor
  int steps_ = 0;
};

}  // namespace regatta::trainer
