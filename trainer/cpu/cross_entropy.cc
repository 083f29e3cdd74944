// Softmax cross-entropy of rows: loss = log Σ_j e^x_j − x_label; in place
// dx_j = (e^x_j / Σ − [j = label])·scale. A row of V floats (16 KB at 4 000 classes, 122 KB at 30
// 522) stays in the second-level cache over its three passes: largest, e^(x − largest) with its
// sum, scaled. A row without a label becomes zeros. Traffic 8·M·V bytes, evaluation 4·M·V.
#include <math.h>

#include "trainer/cpu/families.h"
#include "trainer/cpu/vector.h"

namespace regatta::trainer::cpu::REGATTA_ISA {
namespace {

float largest_of(const float* x, int64_t n) {
  Vec most = splat(-INFINITY);
  for_lanes(
      n, [&](int64_t i) { most = larger(load(x + i), most); },
      [&](int64_t i, int64_t rest) {
        for (int64_t j = i; j < i + rest; ++j) most = larger(splat(x[j]), most);
      });
  return largest(most);
}

bool is_first(const float* x, int64_t label, float most) {
  if (x[label] != most) return false;
  for (int64_t j = 0; j < label; ++j) {
    if (x[j] == most) return false;
  }
  return true;
}

// Σ e^(x − most), left in place unless `keep`. Four sums side by side, so that a sum has V /
// (4·lanes) terms.
template <bool keep>
float exponentials(float* x, int64_t n, float most) {
  Vec sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int v = 0; v < 4; ++v) {
      const Vec e = exponential(load(x + i + v * kLanes) - most);
      if (!keep) store(x + i + v * kLanes, e);
      sums[v] += e;
    }
  }
  for (; i < n; i += kLanes) {
    const int64_t rest = n - i < kLanes ? n - i : kLanes;
    Vec e = exponential(load_part(x + i, rest) - most);
    float lanes[kLanes];
    store(lanes, e);
    for (int64_t lane = rest; lane < kLanes; ++lane) lanes[lane] = 0;
    e = load(lanes);
    if (!keep) store_part(x + i, e, rest);
    sums[0] += e;
  }
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace

void cross_entropy(const device::CrossEntropy& op, int64_t begin, int64_t end, float* losses,
                   float* correct) {
  const int64_t n = op.classes;
  const int64_t stride = op.row_stride();
  for (int64_t r = begin; r < end; ++r) {
    float* x = op.logits.floats() + r * stride;
    __builtin_memset(x + n, 0, sizeof(float) * static_cast<size_t>(stride - n));
    const int64_t label = op.labels.ints()[r];
    if (label < 0) {
      losses[r] = 0;
      correct[r] = 0;
      __builtin_memset(x, 0, sizeof(float) * static_cast<size_t>(n));
      continue;
    }
    const float most = largest_of(x, n);
    const float above = x[label] - most;
    correct[r] = is_first(x, label, most) ? 1.0F : 0.0F;
    const float total =
        op.evaluate ? exponentials<true>(x, n, most) : exponentials<false>(x, n, most);
    losses[r] = logf(total) - above;
    if (op.evaluate) continue;
    const float scale = op.scale.floats()[0];
    const float factor = scale / total;
    for_lanes(
        n, [&](int64_t i) { store(x + i, load(x + i) * factor); },
        [&](int64_t i, int64_t rest) { store_part(x + i, load_part(x + i, rest) * factor, rest); });
    x[label] -= scale;
  }
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
