// GELU (Hendrycks & Gimpel, 2016) and its slope of one float32, for the element-wise kernels and
// the epilogues of products:
//
//   erf form   y = x·Φ(x)      slope Φ(x) + x·φ(x)
//   tanh form  y = x·σ(2u)     slope σ(2u) + x·σ(2u)·(1 − σ(2u))·2u',
//              u = √(2/π)·(x + 0.044715·x³), because (1 + tanh u) / 2 = σ(2u)
//
// Neither form cancels: Φ(−|x|) = e^(−x²/2)·t·P(t), t = 1 / (1 + 0.35·|x|), P of degree 8 (Remez,
// relative error 3e-8; trainer/cpu/activation.cc has the same), and σ(−|2u|) = e / (1 + e) with
// e = e^(−|2u|). So both are good to some 1e-7 of their own size with library exponentials
// (kExact), and to some 1e-6 with the hardware's (ex2.approx and rcp.approx), which is far below
// the rounding of bfloat16 (4e-3) and float16 (5e-4). NaN stays NaN.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

namespace regatta::trainer::cuda {

// kExact for results that stay float32.
template <typename T>
constexpr bool kExact = std::is_same_v<T, float>;

template <bool exact>
__device__ inline float exponential(float x) {
  if constexpr (exact) {
    return expf(x);
  } else {
    return __expf(x);
  }
}
// a / b for 0 ≤ a and 0 < b; from b = 2^126 on 0 will do.
template <bool exact>
__device__ inline float quotient(float a, float b) {
  if constexpr (exact) {
    return a / b;
  } else {
    return __fdividef(a, b);
  }
}

namespace gelu_parts {

// Far out slopes are 0 or 1 to the last bit; bounding keeps their squares finite. The values need
// no bound: infinite cubes end as e^−∞ = 0.
__device__ inline float bounded(float x) { return x > 30.0F ? 30.0F : (x < -30.0F ? -30.0F : x); }

struct Normal {
  float cumulative, bell;  // Φ(x), e^(−x²/2)
};
template <bool exact>
__device__ inline Normal normal(float x) {
  const float bell = exponential<exact>(x * x * -0.5F);
  const float t = quotient<exact>(1.0F, 1.0F + 0.35F * fabsf(x));
  float p = -2.91459169e-2F;
  p = p * t + 1.43971633e-1F;
  p = p * t - 2.55714121e-1F;
  p = p * t + 1.59174009e-1F;
  p = p * t - 2.31097331e-2F;
  p = p * t + 1.05507962e-1F;
  p = p * t + 1.19832878e-1F;
  p = p * t + 1.39861868e-1F;
  p = p * t + 1.39621404e-1F;
  const float tail = bell * t * p;
  return {x < 0.0F ? tail : 1.0F - tail, bell};
}

constexpr float kTwiceRoot = 1.59576912160573071F;  // 2·√(2/π)
constexpr float kCubic = 0.044715F;

struct Sigmoid {
  float value, rest;  // σ(2u), 1 − σ(2u)
};
template <bool exact>
__device__ inline Sigmoid sigmoid_of_twice_u(float x) {
  const float twice_u = kTwiceRoot * (x + kCubic * (x * x * x));
  const float e = exponential<exact>(-fabsf(twice_u));
  const float larger = quotient<exact>(1.0F, 1.0F + e);
  const float smaller = e * larger;
  return twice_u < 0.0F ? Sigmoid{smaller, larger} : Sigmoid{larger, smaller};
}

}  // namespace gelu_parts

template <bool tanh_form, bool exact>
__device__ inline float gelu(float x) {
  if constexpr (tanh_form) {
    return x * gelu_parts::sigmoid_of_twice_u<exact>(x).value;
  } else {
    return x * gelu_parts::normal<exact>(x).cumulative;
  }
}

template <bool tanh_form, bool exact>
__device__ inline float gelu_slope(float x) {
  using namespace gelu_parts;
  const float near = bounded(x);
  if constexpr (tanh_form) {
    const Sigmoid s = sigmoid_of_twice_u<exact>(near);
    const float twice_slope_of_u = kTwiceRoot * (1.0F + 3.0F * kCubic * (near * near));
    return s.value + near * s.value * s.rest * twice_slope_of_u;
  } else {
    const Normal n = normal<exact>(near);
    return n.cumulative + near * n.bell * 0.398942280401432678F;
  }
}

}  // namespace regatta::trainer::cuda
