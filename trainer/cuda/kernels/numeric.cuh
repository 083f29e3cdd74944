// Element types, 16-byte accesses, and sums over warps and blocks in a fixed order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "base/error.h"
#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }
__device__ inline float to_float(fp16 x) { return __half2float(x); }
template <typename T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline fp16 from_float<fp16>(float x) {
  return __float2half_rn(x);
}

// Calls body(T{}) with the C++ type of an activation type.
template <typename Body>
void with_type(device::Dtype dtype, Body body) {
  switch (dtype) {
    case device::Dtype::Float32:
      body(float{});
      return;
    case device::Dtype::BFloat16:
      body(bf16{});
      return;
    case device::Dtype::Float16:
      body(fp16{});
      return;
    default:
      base::check(false, "activations are float32, bfloat16 or float16");
  }
}
template <typename T>
T* data_of(const device::View& view) {
  return static_cast<T*>(view.data);
}

// Eight neighbouring elements, as floats in registers. `from` and `to` are aligned to 8·sizeof(T)
// or 16 bytes, whichever is less.
struct Eight {
  float v[8];
};
__device__ inline Eight load8(const float* from) {
  const float4 a = reinterpret_cast<const float4*>(from)[0];
  const float4 b = reinterpret_cast<const float4*>(from)[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
template <typename T>
__device__ inline Eight load8(const T* from) {
  union {
    uint4 bits;
    T v[8];
  } raw = {*reinterpret_cast<const uint4*>(from)};
  Eight result;
#pragma unroll
  for (int i = 0; i < 8; ++i) result.v[i] = to_float(raw.v[i]);
  return result;
}
__device__ inline void store8(float* to, const Eight& x) {
  reinterpret_cast<float4*>(to)[0] = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
}
template <typename T>
__device__ inline void store8(T* to, const Eight& x) {
  union {
    uint4 bits;
    T v[8];
  } raw;
#pragma unroll
  for (int i = 0; i < 8; ++i) raw.v[i] = from_float<T>(x.v[i]);
  *reinterpret_cast<uint4*>(to) = raw.bits;
}

constexpr unsigned kAllLanes = 0xFFFFFFFFU;
// Every lane gets the sum (the largest) of the warp's 32 values.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}
// Every thread gets the sum over the block; `partial` is 32 floats of shared memory, used again
// only after a __syncthreads().
__device__ inline float block_sum(float x, float* partial) {
  const int warps = (static_cast<int>(blockDim.x) + 31) / 32;
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < warps; ++i) sum += partial[i];
  return sum;
}

}  // namespace regatta::trainer::cuda
