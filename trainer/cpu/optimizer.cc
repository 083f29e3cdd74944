// AdamW (Loshchilov & Hutter, 2019) and LAMB (You et al., 2020; bias correction and ε after the
// root as in MLPerf's reference), element by element:
//   g' = g·factor;  m = β1·m + (1 − β1)·g';  v = β2·v + (1 − β2)·g'²
//   u = (m / c1) / (√(v / c2) + ε) + decay·w;  w −= rate·u
// LAMB first stores m and v and sums ‖w‖², ‖u‖² in float64, then computes u again: 8 bytes more to
// read an element, but no array for u. Traffic: AdamW 28 bytes an element, LAMB 24 + 16, the sums
// of the noise scale 12.
#include "trainer/cpu/families.h"
#include "trainer/cpu/vector.h"

namespace regatta::trainer::cpu::REGATTA_ISA {
namespace {

inline float update_of(const AdamConstants& c, float m, float v, float w) {
  return (m / c.correction1) / (__builtin_sqrtf(v / c.correction2) + c.epsilon) +
         c.weight_decay * w;
}

}  // namespace

void adamw(const AdamConstants& constants, const AdamRange& range, float rate) {
  const AdamConstants c = constants;
  float* __restrict w = range.parameters;
  const float* __restrict g = range.gradients;
  float* __restrict m = range.first;
  float* __restrict v = range.second;
  for (int64_t i = 0; i < range.size; ++i) {
    const float gradient = g[i] * c.factor;
    const float first = c.beta1 * m[i] + (1.0F - c.beta1) * gradient;
    const float second = c.beta2 * v[i] + (1.0F - c.beta2) * (gradient * gradient);
    m[i] = first;
    v[i] = second;
    w[i] -= rate * update_of(c, first, second, w[i]);
  }
}

SquaredNorms lamb_moments(const AdamConstants& constants, const AdamRange& range) {
  constexpr int kSums = 16;
  const AdamConstants c = constants;
  const float* __restrict w = range.parameters;
  const float* __restrict g = range.gradients;
  float* __restrict m = range.first;
  float* __restrict v = range.second;
  double parameters[kSums] = {};
  double updates[kSums] = {};
  for (int64_t start = 0; start < range.size; start += kSums) {
    const int64_t count = range.size - start < kSums ? range.size - start : kSums;
    float u[kSums] = {};
    for (int64_t j = 0; j < count; ++j) {
      const int64_t i = start + j;
      const float gradient = g[i] * c.factor;
      m[i] = c.beta1 * m[i] + (1.0F - c.beta1) * gradient;
      v[i] = c.beta2 * v[i] + (1.0F - c.beta2) * (gradient * gradient);
      u[j] = update_of(c, m[i], v[i], w[i]);
    }
    for (int64_t j = 0; j < count; ++j) {
      const auto weight = static_cast<double>(w[start + j]);
      const auto update = static_cast<double>(u[j]);
      parameters[j] += weight * weight;
      updates[j] += update * update;
    }
  }
  SquaredNorms norms;
  for (int j = 0; j < kSums; ++j) {
    norms.parameters += parameters[j];
    norms.update += updates[j];
  }
  return norms;
}

void lamb_step(const AdamConstants& constants, const AdamRange& range, float rate) {
  const AdamConstants c = constants;
  float* __restrict w = range.parameters;
  const float* __restrict m = range.first;
  const float* __restrict v = range.second;
  for (int64_t i = 0; i < range.size; ++i) w[i] -= rate * update_of(c, m[i], v[i], w[i]);
}

FourSums noise_sums(const NoiseConstants& constants, const device::NoiseSums& op, int64_t begin,
                    int64_t end) {
  constexpr int kSums = 16;
  const float* __restrict difference = op.difference.floats();
  const float* __restrict mean = op.mean.floats();
  const float* __restrict v = op.second_moment.floats();
  const NoiseConstants c = constants;
  double sums[4][kSums] = {};
  for (int64_t start = begin; start < end; start += kSums) {
    const int64_t count = end - start < kSums ? end - start : kSums;
    float x[4][kSums] = {};
    for (int64_t j = 0; j < count; ++j) {
      const float d = difference[start + j] * c.scale;
      const float g = mean[start + j] * c.scale;
      const float square = g * g + c.part_to_rest * (d * d);
      const float second = c.decay * v[start + j] + c.weight * square;
      const float inverse = 1.0F / (__builtin_sqrtf(second) + c.epsilon);
      x[0][j] = d;
      x[1][j] = g;
      x[2][j] = d * inverse;
      x[3][j] = g * inverse;
    }
    for (int k = 0; k < 4; ++k) {
      for (int64_t j = 0; j < kSums; ++j) {
        const auto value = static_cast<double>(x[k][j]);
        sums[k][j] += value * value;
      }
    }
  }
  FourSums totals{};
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < kSums; ++j) totals[static_cast<unsigned>(k)] += sums[k][j];
  }
  return totals;
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
