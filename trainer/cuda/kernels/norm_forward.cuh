// LayerNorm forward of rows that a Source makes: what layernorm.cu and embedding.cu share.
//
//   z[r] = round(source(r)), y[r] = (z[r] − mean)·rstd·gamma + beta, maybe dropped out
//
// A warp has one row and keeps it in registers: lane l holds features 8·(32·g + l) … + 7 of group
// g < groups, so that every access of a 16-bit type is 16 bytes a lane and 512 bytes a warp, and
// one philox call serves one access. Mean and variance are two passes over the registers, joined by
// shuffles; nothing needs shared memory or a barrier. They are those of z as stored, after rounding
// to the activation type, because backward knows no other z.
//
// Rows beyond 2,048 features take groups = 0: the same passes, but over z in memory (each lane
// reads back only what it wrote), which costs reads of the caches and is right for any multiple
// of 8.
#pragma once

#include <cstdint>

#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/norm_row.cuh"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::trainer::cuda {
namespace {

template <typename T>
struct NormForward {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 0;
  int hidden = 0;
  std::int64_t rows = 0;
  T* z = nullptr;
  bool keeps_z = true;  // false where z already holds what the source gives
  float* mean = nullptr;
  float* rstd = nullptr;
  T* y = nullptr;
};

// Source: `Row row(r)`. Row: `Fetched fetch(feature)` only loads, `Eight make(fetched, feature)`
// gives z in float32, `void finish(Eight* y, feature)` is the last thing that happens to y.
template <typename T>
__device__ inline Eight normalised(const NormForward<T>& op, const Eight& z, float mean, float rstd,
                                   int feature) {
  const Eight gamma = load8(op.gamma + feature);
  const Eight beta = load8(op.beta + feature);
  Eight y;
#pragma unroll
  for (int i = 0; i < 8; ++i) y.v[i] = (z.v[i] - mean) * rstd * gamma.v[i] + beta.v[i];
  return y;
}
__device__ inline float squares_around(const Eight& z, float mean) {
  Eight squares;
#pragma unroll
  for (int i = 0; i < 8; ++i) squares.v[i] = (z.v[i] - mean) * (z.v[i] - mean);
  return sum_of(squares);
}

constexpr int kNormWarps = 4;

template <typename T, int groups, typename Source>
__global__ void __launch_bounds__(32 * kNormWarps)
    norm_forward_kernel(Source source, NormForward<T> op) {
  const std::int64_t r = std::int64_t{blockIdx.x} * kNormWarps + threadIdx.x / 32;
  if (r >= op.rows) return;  // the whole warp
  const int first = static_cast<int>(threadIdx.x) % 32 * 8;
  const auto row = source.row(r);
  T* z_row = op.z + r * op.hidden;
  T* y_row = op.y + r * op.hidden;
  typename Source::Row::Fetched fetched[groups] = {};
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const int feature = first + 256 * g;
    if (feature < op.hidden) fetched[g] = row.fetch(feature);
  }
  Eight z[groups];
  float total = 0;
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const int feature = first + 256 * g;
    z[g] = {};
    if (feature < op.hidden) z[g] = rounded<T>(row.make(fetched[g], feature));
    total += sum_of(z[g]);
  }
  const float mean = warp_sum(total) / static_cast<float>(op.hidden);
  float squares = 0;
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const int feature = first + 256 * g;
    if (feature >= op.hidden) continue;
    if (op.keeps_z) store8(z_row + feature, z[g]);
    squares += squares_around(z[g], mean);
  }
  const float variance = warp_sum(squares) / static_cast<float>(op.hidden);
  const float rstd = 1.0F / sqrtf(variance + op.epsilon);
  if (first == 0) {
    op.mean[r] = mean;
    op.rstd[r] = rstd;
  }
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const int feature = first + 256 * g;
    if (feature >= op.hidden) continue;
    Eight y = normalised(op, z[g], mean, rstd, feature);
    row.finish(&y, feature);
    store8(y_row + feature, y);
  }
}

// Any length. Each lane reads from z only what it stored there itself.
template <typename T, typename Source>
__global__ void __launch_bounds__(32 * kNormWarps)
    long_norm_forward_kernel(Source source, NormForward<T> op) {
  const std::int64_t r = std::int64_t{blockIdx.x} * kNormWarps + threadIdx.x / 32;
  if (r >= op.rows) return;  // the whole warp
  const int first = static_cast<int>(threadIdx.x) % 32 * 8;
  const auto row = source.row(r);
  T* z_row = op.z + r * op.hidden;
  T* y_row = op.y + r * op.hidden;
  float total = 0;
  for (int feature = first; feature < op.hidden; feature += 256) {
    const Eight z = rounded<T>(row.make(row.fetch(feature), feature));
    store8(z_row + feature, z);
    total += sum_of(z);
  }
  const float mean = warp_sum(total) / static_cast<float>(op.hidden);
  float squares = 0;
  for (int feature = first; feature < op.hidden; feature += 256) {
    squares += squares_around(load8(z_row + feature), mean);
  }
  const float variance = warp_sum(squares) / static_cast<float>(op.hidden);
  const float rstd = 1.0F / sqrtf(variance + op.epsilon);
  if (first == 0) {
    op.mean[r] = mean;
    op.rstd[r] = rstd;
  }
  for (int feature = first; feature < op.hidden; feature += 256) {
    Eight y = normalised(op, load8(z_row + feature), mean, rstd, feature);
    row.finish(&y, feature);
    store8(y_row + feature, y);
  }
}

template <typename T, typename Source>
void norm_forward(const KernelLaunch& at, const Source& source, const NormForward<T>& op) {
  const dim3 grid(static_cast<unsigned>((op.rows + kNormWarps - 1) / kNormWarps));
  auto kernel = norm_forward_kernel<T, 1, Source>;
  if (op.hidden > 256) kernel = norm_forward_kernel<T, 2, Source>;
  if (op.hidden > 512) kernel = norm_forward_kernel<T, 3, Source>;
  if (op.hidden > 768) kernel = norm_forward_kernel<T, 4, Source>;
  if (op.hidden > 1024) kernel = norm_forward_kernel<T, 8, Source>;
  if (op.hidden > 2048) kernel = long_norm_forward_kernel<T, Source>;
  launch(kernel, grid, dim3(32 * kNormWarps), 0, at.stream, source, op);
}

}  // namespace
}  // namespace regatta::trainer::cuda
