// Softmax cross-entropy of rows: loss = log Σ_j e^x_j − x_label; in place
// dx_j = (e^x_j / Σ − [j = label])·scale. A row of V floats (16 KB at 4 000 classes, 122 KB at 30
// 522) stays in the second-level cache over its three passes: largest, e^(x − largest) with its
// sum, scaled. A row without a label becomes zeros. Traffic 8·M·V bytes, evaluation 4·M·V.
//
// With labels smoothed by e, [j = label] becomes q_j = (1 − e)·[j = label] + e/V, and x_label
// becomes Σ_j q_j·x_j: one more pass, over logits that are still in the cache.
//
// Answers: the same softmax over the tokens of a sample, once a column. A column of [T, 2] is
// copied to a row of scratch (2 KB at 512 tokens) and back. Traffic 16·T bytes.
//
// Squared error: loss = (x − value)²; in place dx = 2·(x − value)·scale, 0 where the value is NaN.
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

// Σ (x − most), in the same four sums.
float sum_above(const float* x, int64_t n, float most) {
  Vec sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int v = 0; v < 4; ++v) sums[v] += load(x + i + v * kLanes) - most;
  }
  float rest = 0;
  for (; i < n; ++i) rest += x[i] - most;
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

struct RowLoss {
  float smoothing = 0;
  float scale = 0;
  bool evaluate = false;
};

// x holds the exponentials, whose sum is `total`, and becomes the gradient.
void gradient_of_row(const RowLoss& by, float* x, int64_t n, int64_t label, float total) {
  const float factor = by.scale / total;
  if (by.smoothing == 0) {
    for_lanes(
        n, [&](int64_t i) { store(x + i, load(x + i) * factor); },
        [&](int64_t i, int64_t rest) { store_part(x + i, load_part(x + i, rest) * factor, rest); });
    x[label] -= by.scale;
    return;
  }
  const float each = by.smoothing / static_cast<float>(n) * by.scale;
  for_lanes(
      n, [&](int64_t i) { store(x + i, load(x + i) * factor - each); },
      [&](int64_t i, int64_t rest) {
        store_part(x + i, load_part(x + i, rest) * factor - each, rest);
      });
  x[label] -= (1.0F - by.smoothing) * by.scale;
}

// The row becomes its gradient, unless `by` evaluates.
float loss_of_row(const RowLoss& by, float* x, int64_t n, int64_t label, float* correct) {
  const float most = largest_of(x, n);
  float expected = x[label] - most;
  *correct = is_first(x, label, most) ? 1.0F : 0.0F;
  if (by.smoothing != 0) {
    expected = (1.0F - by.smoothing) * expected +
               by.smoothing / static_cast<float>(n) * sum_above(x, n, most);
  }
  const float total =
      by.evaluate ? exponentials<true>(x, n, most) : exponentials<false>(x, n, most);
  if (!by.evaluate) gradient_of_row(by, x, n, label, total);
  return logarithm(total) - expected;
}

void clear_row(float* x, int64_t n) {
  __builtin_memset(x, 0, sizeof(float) * static_cast<size_t>(n));
}

}  // namespace

void cross_entropy(const device::CrossEntropy& op, int64_t begin, int64_t end, float* losses,
                   float* correct) {
  const int64_t n = op.classes;
  const int64_t stride = op.row_stride();
  const RowLoss loss{op.label_smoothing, op.evaluate ? 0.0F : op.scale.floats()[0], op.evaluate};
  for (int64_t r = begin; r < end; ++r) {
    float* x = op.logits.floats() + r * stride;
    clear_row(x + n, stride - n);
    const int64_t label = op.labels.ints()[r];
    if (label < 0) {
      losses[r] = 0;
      correct[r] = 0;
      clear_row(x, n);
      continue;
    }
    losses[r] = loss_of_row(loss, x, n, label, correct + r);
  }
}

void span_cross_entropy(const device::SpanCrossEntropy& op, int64_t begin, int64_t end,
                        float* losses, float* correct, float* scratch) {
  const RowLoss loss{op.label_smoothing, op.evaluate ? 0.0F : 0.5F * op.scale.floats()[0],
                     op.evaluate};
  for (int64_t s = begin; s < end; ++s) {
    const int64_t first = op.cumulative.ints()[s];
    const int64_t n = op.cumulative.ints()[s + 1] - first;
    float* x = op.logits.floats() + 2 * first;
    const int32_t* answers = op.answers.ints() + 2 * s;
    losses[s] = 0;
    correct[s] = 0;
    if (answers[0] < 0 || answers[1] < 0) {
      clear_row(x, 2 * n);
      continue;
    }
    float right[2];
    for (int64_t c = 0; c < 2; ++c) {
      for (int64_t i = 0; i < n; ++i) scratch[i] = x[2 * i + c];
      losses[s] += 0.5F * loss_of_row(loss, scratch, n, answers[c], right + c);
      for (int64_t i = 0; i < n && !op.evaluate; ++i) x[2 * i + c] = scratch[i];
    }
    correct[s] = right[0] * right[1];
  }
}

void squared_error(const device::SquaredError& op, int64_t begin, int64_t end, float* losses) {
  const float twice = op.evaluate ? 0.0F : 2.0F * op.scale.floats()[0];
  for (int64_t s = begin; s < end; ++s) {
    float* x = op.logits.floats() + s;
    const float value = op.values.floats()[s];
    const float error = value == value ? *x - value : 0.0F;
    losses[s] = error * error;
    if (!op.evaluate) *x = value == value ? error * twice : 0.0F;
  }
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
