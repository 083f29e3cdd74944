#include "trainer/contract/noise_scale.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace regatta::trainer {
namespace {

constexpr double kDecay = 0.99;
constexpr double kLeastNoise = 1e-30;
// A mean gradient this far below the noise is as good as none: φ stays finite.
constexpr double kLeastSignalOfNoise = 1e-9;

}  // namespace

NoiseScale::NoiseScale(std::int64_t batch, std::int64_t base_batch)
    : batch_(static_cast<double>(batch)), base_batch_(static_cast<double>(base_batch)) {
  base::check(batch > 0 && base_batch > 0, "a step has samples");
}

// Let G be the true gradient and Σ the covariance of what one counted item adds to it, M = Σ m_r.
// Rank r's own mean gradient is h_r = (M/m_r)·g_r, with
//     E ‖h_r‖² = ‖G‖² + tr Σ / m_r,
// and the step's gradient is ḡ = Σ g_r = Σ (m_r/M)·h_r, with
//     E ‖ḡ‖² = ‖G‖² + tr Σ / M.
// Weighted by what each rank counted, q = Σ (m_r/M)·‖h_r‖² = Σ (M/m_r)·‖g_r‖² has
//     E q = ‖G‖² + Σ (m_r/M)·tr Σ / m_r = ‖G‖² + R·tr Σ / M,
// whatever the m_r are. The two solved, without bias:
//     noise  = tr Σ / M = (q − ‖ḡ‖²) / (R − 1)
//     signal = ‖G‖²     = (R·‖ḡ‖² − q) / (R − 1).
// φ = tr Σ / ‖G‖² = M · noise / signal items; M items are the `batch` samples of a step.
void NoiseScale::observe(const GradientNorms& step) {
  base::check(step.squared_local.size() == step.counts.size(), "every rank has norm and count");
  double items = 0, ranks = 0, weighted = 0;
  for (const double count : step.counts) {
    items += count;
    ranks += count > 0 ? 1 : 0;
  }
  for (std::size_t r = 0; r < step.counts.size(); ++r) {
    if (step.counts[r] > 0) weighted += items / step.counts[r] * step.squared_local[r];
  }
  if (ranks < 2 || !std::isfinite(weighted) || !std::isfinite(step.squared_global)) return;
  const double noise = (weighted - step.squared_global) / (ranks - 1);
  const double signal = (ranks * step.squared_global - weighted) / (ranks - 1);
  if (!std::isfinite(noise) || !std::isfinite(signal)) return;
  noise_ = kDecay * noise_ + (1 - kDecay) * noise;
  signal_ = kDecay * signal_ + (1 - kDecay) * signal;
  weight_ = kDecay * weight_ + (1 - kDecay);
  ++steps_;
}

std::optional<double> NoiseScale::samples() const {
  if (steps_ < kLeastSteps) return std::nullopt;
  // Each estimate may come out below 0.
  const double noise = std::max(noise_ / weight_, kLeastNoise);
  const double signal = std::max(signal_ / weight_, kLeastSignalOfNoise * noise);
  return batch_ * noise / signal;
}

std::optional<double> NoiseScale::efficiency() const {
  const std::optional<double> scale = samples();
  if (!scale) return std::nullopt;
  return (*scale + base_batch_) / (*scale + batch_);
}

std::optional<double> NoiseScale::goodput(double samples_per_second) const {
  const std::optional<double> share = efficiency();
  if (!share) return std::nullopt;
  return samples_per_second * *share;
}

}  // namespace regatta::trainer
