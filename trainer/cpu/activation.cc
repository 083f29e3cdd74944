// GELU (Hendrycks & Gimpel, 2016) and tanh, element by element. Traffic: 8 bytes an element
// forward, 12 backward.
//
//   erf form   y = x·Φ(x)           dx = dy·(Φ(x) + x·φ(x))
//   tanh form  y = x·σ(2u)          dx = dy·(σ(2u) + x·σ(2u)·(1 − σ(2u))·2u'),
//              u = √(2/π)·(x + 0.044715·x³), because (1 + tanh u) / 2 = σ(2u)
//
// Φ is computed as Φ(−|x|) = e^(−x²/2)·t·P(t), t = 1 / (1 + 0.35·|x|), P of degree 8 (Remez,
// relative error 3e-8), which keeps its relative accuracy where x is negative and 1 + erf would
// cancel.
#include "trainer/cpu/families.h"
#include "trainer/cpu/vector.h"

namespace regatta::trainer::cpu::REGATTA_ISA {
namespace {

// Φ(x) and e^(−x²/2).
struct Normal {
  Vec cumulative, bell;
};

inline __attribute__((always_inline)) Normal normal(Vec x) {
  const Vec bell = exponential(x * x * -0.5F);
  const Vec t = 1.0F / (absolute(x) * 0.35F + 1.0F);
  Vec p = splat(-2.91459169e-2F);
  p = p * t + 1.43971633e-1F;
  p = p * t - 2.55714121e-1F;
  p = p * t + 1.59174009e-1F;
  p = p * t - 2.31097331e-2F;
  p = p * t + 1.05507962e-1F;
  p = p * t + 1.19832878e-1F;
  p = p * t + 1.39861868e-1F;
  p = p * t + 1.39621404e-1F;
  const Vec tail = bell * t * p;
  return {x < Vec{} ? tail : 1.0F - tail, bell};
}

constexpr float kTwiceRoot = 1.59576912160573071F;  // 2·√(2/π)
constexpr float kCubic = 0.044715F;

struct Sigmoid {
  Vec value, rest;  // σ(2u) and 1 − σ(2u), neither by cancellation
};

// |x| ≤ 30; from 2u = −88 down σ is 0.
inline __attribute__((always_inline)) Sigmoid sigmoid_of_twice_u(Vec x) {
  const Vec minus_twice_u = -kTwiceRoot * (x + kCubic * (x * x * x));
  const Vec e = exponential(minus_twice_u);
  const Vec value = minus_twice_u > splat(88.0F) ? Vec{} : 1.0F / (e + 1.0F);
  return {value, e * value};
}

// Where σ(2u) is 0 or 1 to the last bit, further out changes nothing but could overflow.
Vec bounded(Vec x) {
  const Vec limit = splat(30.0F);
  return x > limit ? limit : (x < -limit ? -limit : x);
}

struct GeluErf {
  static Vec value(Vec x) { return x * normal(x).cumulative; }
  static Vec slope(Vec x) {
    const Normal n = normal(x);
    return n.cumulative + x * n.bell * 0.398942280401432678F;
  }
};
struct GeluTanh {
  static Vec value(Vec x) { return x * sigmoid_of_twice_u(bounded(x)).value; }
  static Vec slope(Vec x) {
    const Vec near = bounded(x);
    const Sigmoid s = sigmoid_of_twice_u(near);
    const Vec twice_slope_of_u = kTwiceRoot * (1.0F + 3.0F * kCubic * (near * near));
    return s.value + near * s.value * s.rest * twice_slope_of_u;
  }
};

// Odd polynomial where 1 − 2 / (e^2|x| + 1) would cancel (Remez, relative error 4e-9).
Vec hyperbolic_tangent(Vec x) {
  const Vec size = absolute(x);
  const Vec far = 1.0F - 2.0F / (exponential(bounded(size) * 2.0F) + 1.0F);
  const Vec u = x * x;
  Vec p = splat(-5.67242586e-3F);
  p = p * u + 2.06031512e-2F;
  p = p * u - 5.37252330e-2F;
  p = p * u + 1.33311858e-1F;
  p = p * u - 3.33332634e-1F;
  const Vec near = x + x * u * p;
  return size < splat(0.625F) ? near : (x < Vec{} ? -far : far);
}

template <typename Function>
void map(const float* x, float* y, int64_t n, Function function) {
  for_lanes(
      n, [&](int64_t i) { store(y + i, function(load(x + i))); },
      [&](int64_t i, int64_t rest) { store_part(y + i, function(load_part(x + i, rest)), rest); });
}

template <typename Function>
void map(const float* x, const float* dy, float* dx, int64_t n, Function function) {
  for_lanes(
      n, [&](int64_t i) { store(dx + i, function(load(x + i), load(dy + i))); },
      [&](int64_t i, int64_t rest) {
        store_part(dx + i, function(load_part(x + i, rest), load_part(dy + i, rest)), rest);
      });
}

}  // namespace

void gelu_forward(const float* x, float* y, int64_t n, bool tanh_form) {
  if (tanh_form) {
    map(x, y, n, [](Vec v) { return GeluTanh::value(v); });
  } else {
    map(x, y, n, [](Vec v) { return GeluErf::value(v); });
  }
}

void gelu_backward(const float* x, const float* dy, float* dx, int64_t n, bool tanh_form) {
  if (tanh_form) {
    map(x, dy, dx, n, [](Vec v, Vec d) { return d * GeluTanh::slope(v); });
  } else {
    map(x, dy, dx, n, [](Vec v, Vec d) { return d * GeluErf::slope(v); });
  }
}

void tanh_forward(const float* x, float* y, int64_t n) {
  map(x, y, n, [](Vec v) { return hyperbolic_tangent(v); });
}

void tanh_backward(const float* y, const float* dy, float* dx, int64_t n) {
  map(y, dy, dx, n, [](Vec v, Vec d) { return d * (1.0F - v * v); });
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
