#include "trainer/contract/noise_scale.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace regatta::trainer::contract {
namespace {

constexpr double kDecay = 0.98;  // a step's weight, from one observed step to the next
// A mean gradient this far below the noise is as good as none: ends of intervals stay finite.
constexpr double kLeastSignalOfNoise = 1e-9;

// The 97.5 % point of Student's distribution: the expansion in 1/ν around the normal's z
// (Abramowitz and Stegun, 26.7.5); from 9 degrees of freedom on within 10⁻³.
double student_quantile(double nu) {
  constexpr double z = 1.959963984540054;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * nu) + (5 * z5 + 16 * z3 + 3 * z) / (96 * nu * nu) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * nu * nu * nu);
}

}  // namespace

NoiseScale::NoiseScale(std::int64_t batch, std::int64_t base_batch)
    : batch_(static_cast<double>(batch)), base_batch_(static_cast<double>(base_batch)) {
  base::check(batch > 0 && base_batch > 0, "a step has samples");
}

// Let G be the true gradient and Σ the covariance of what one counted item adds to it. A random
// half of the step counts m of its M items, the rest n = M − m. Their mean gradients h and h' are
// independent, whichever ranks made them, and ḡ = (m·h + n·h')/M. So ḡ − h = (n/M)·(h' − h), with
//     E ‖h' − h‖² = tr Σ·(1/m + 1/n) = tr Σ·M/(m·n), hence E ‖ḡ − h‖² = tr Σ·n/(M·m),
//     E ‖ḡ‖² = ‖G‖² + tr Σ/M.
// Without bias:
//     noise  = tr Σ/M = ‖ḡ − h‖²·m/n
//     signal = ‖G‖²   = ‖ḡ‖² − noise.
// φ = tr Σ/‖G‖² = M·noise/signal items; M items are the `batch` samples of a step. Averages are of
// noise and of signal, since the mean of a ratio is none of its own.
void NoiseScale::observe(const HalfNorms& step) {
  if (!(step.half_items > 0) || !(step.rest > 0)) return;
  const double noise = step.difference * step.half_items / step.rest;
  const double signal = step.whole - noise;
  if (!std::isfinite(noise) || !std::isfinite(signal)) return;
  Sums& s = sums_;
  const auto add = [](double* sum, double decay, double x) { *sum = decay * *sum + x; };
  s.steps += 1;
  add(&s.weight, kDecay, 1);
  add(&s.noise, kDecay, noise);
  add(&s.signal, kDecay, signal);
  constexpr double kDecay2 = kDecay * kDecay;
  add(&s.weight2, kDecay2, 1);
  add(&s.noise2, kDecay2, noise);
  add(&s.signal2, kDecay2, signal);
  add(&s.noise_noise, kDecay2, noise * noise);
  add(&s.noise_signal, kDecay2, noise * signal);
  add(&s.signal_signal, kDecay2, signal * signal);
}

// A step of M samples adds tr Σ/M to the noise and ‖G‖² to the signal, both without bias whatever
// M. So the sums become those of steps of the new batch when each noise is multiplied by old/new.
void NoiseScale::set_batch(std::int64_t batch) {
  base::check(batch > 0, "a step has samples");
  const double changed = static_cast<double>(batch);
  if (changed == batch_) return;
  const double factor = batch_ / changed;
  sums_.noise *= factor;
  sums_.noise2 *= factor;
  sums_.noise_signal *= factor;
  sums_.noise_noise *= factor * factor;
  batch_ = changed;
}

std::optional<double> NoiseScale::samples() const {
  if (sums_.steps < kLeastSteps || !(sums_.signal > 0)) return std::nullopt;
  return batch_ * sums_.noise / sums_.signal;
}

// Of the weighted means x of the noise and y of the signal, r = x/y is within the interval iff
// (x − r·y)² ≤ t²·Var(x − r·y), that is a·r² − 2·b·r + c ≤ 0.
std::optional<NoiseInterval> NoiseScale::interval() const {
  if (sums_.steps < kLeastSteps) return std::nullopt;
  const Sums& s = sums_;
  const double x = s.noise / s.weight, y = s.signal / s.weight;
  const double steps = s.weight * s.weight / s.weight2;  // of one weight, that say as much
  const double scale = steps / (steps - 1) / (s.weight * s.weight);
  const double xx = scale * (s.noise_noise - 2 * x * s.noise2 + x * x * s.weight2);
  const double yy = scale * (s.signal_signal - 2 * y * s.signal2 + y * y * s.weight2);
  const double xy = scale * (s.noise_signal - x * s.signal2 - y * s.noise2 + x * y * s.weight2);
  const double t = student_quantile(steps - 1);
  const double a = y * y - t * t * yy, b = x * y - t * t * xy, c = x * x - t * t * xx;
  const double root = std::sqrt(std::max(0.0, b * b - a * c));
  NoiseInterval interval;
  if (a > 0 && y > 0) {
    interval.low = batch_ * std::max(0.0, (b - root) / a);
    interval.high = batch_ * std::max(0.0, (b + root) / a);
  } else if (a > 0) {  // as far below 0 as no gradient is: it is less than could be told from 0
    interval.low = batch_ * x / std::max(t * std::sqrt(std::max(0.0, yy)), kLeastSignalOfNoise * x);
  } else if (c > 0 && a < 0) {  // noise there is; the signal may be nothing
    interval.low = batch_ * std::max(0.0, (b - root) / a);
  }
  return interval;
}

std::optional<double> NoiseScale::efficiency() const {
  const std::optional<NoiseInterval> allowed = interval();
  if (!allowed) return std::nullopt;
  const double scale = samples().value_or(allowed->low);
  return (scale + base_batch_) / (scale + batch_);
}

NoiseScale::State NoiseScale::state() const {
  const Sums& s = sums_;
  return {s.steps,  s.weight,  s.noise,       s.signal,       s.weight2,
          s.noise2, s.signal2, s.noise_noise, s.noise_signal, s.signal_signal};
}

void NoiseScale::restore(const State& state) {
  sums_ = {};
  if (!std::all_of(state.begin(), state.end(), [](double x) { return std::isfinite(x); })) return;
  sums_ = {state[0], state[1], state[2], state[3], state[4],
           state[5], state[6], state[7], state[8], state[9]};
}

}  // namespace regatta::trainer::contract
