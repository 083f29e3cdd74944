// Sums over rows in two stages and a fixed order, without atomics: every block of the first stage
// leaves one partial row in scratch, the second adds the partial rows to the gradient.
//
// Stage 1 (column_partials_kernel), partial[chunk, c] = Σ x[r, c] over the rows of a chunk: a warp
// reads `width` neighbouring columns a lane (8, so 16 bytes of a 16-bit type, or 1 where rows are
// not aligned), warps take rows in turn, and shared memory joins the eight warps. Stage 2
// (add_partials_kernel), to[c] += Σ_p partial[p, c]: 32 columns a block, sixteen warps taking
// partial rows in turn. Bytes: x once, and 8·chunks·columns that stay in the second-level cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/norm_row.cuh"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::trainer::cuda {
namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Where a partial row of `count`·width elements is added: piece i to targets[i].
constexpr int kMaxTargets = 3;
struct PartialTargets {
  float* to[kMaxTargets] = {};
  std::int64_t width = 0;
  int count = 0;
};

constexpr int kAddWarps = 16;
__global__ void __launch_bounds__(32 * kAddWarps)
    add_partials_kernel(const float* partial, std::int64_t rows, PartialTargets targets) {
  __shared__ float sums[kAddWarps * 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t columns = targets.width * targets.count;
  const std::int64_t c = std::int64_t{blockIdx.x} * 32 + lane;
  float sum = 0;
  if (c < columns) {
#pragma unroll 8
    for (std::int64_t r = warp; r < rows; r += kAddWarps) sum += partial[r * columns + c];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp == 0 && c < columns) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kAddWarps; ++w) total += sums[32 * w + lane];
    const auto target = static_cast<int>(c / targets.width);
    float* to = targets.to[0];
#pragma unroll
    for (int i = 1; i < kMaxTargets; ++i) to = target == i ? targets.to[i] : to;
    to[c % targets.width] += total;
  }
}

inline void add_partials(const KernelLaunch& at, const float* partial, std::int64_t rows,
                         const PartialTargets& targets) {
  const auto blocks = static_cast<unsigned>(ceil_div(targets.width * targets.count, 32));
  launch(add_partials_kernel, dim3(blocks), dim3(32 * kAddWarps), 0, at.stream, partial, rows,
         targets);
}

// Rows of one class only, where `classes` names the class of every row: class blockIdx.z.
constexpr int kPartialWarps = 8;
template <typename T, int width>
__global__ void __launch_bounds__(32 * kPartialWarps)
    column_partials_kernel(const T* x, std::int64_t rows, std::int64_t columns,
                           std::int64_t rows_per_chunk, const std::int32_t* classes,
                           float* partial) {
  __shared__ float shared[kPartialWarps * 32 * width];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * (32 * width);
  const std::int64_t c = first + lane * width;
  const std::int64_t begin = std::int64_t{blockIdx.y} * rows_per_chunk;
  const std::int64_t end = begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;
  float sums[width] = {};
  if (c < columns) {
#pragma unroll 4
    for (std::int64_t r = begin + warp; r < end; r += kPartialWarps) {
      if (classes != nullptr && classes[r] != static_cast<std::int32_t>(blockIdx.z)) continue;
      if constexpr (width == 8) {
        const Eight v = load8(x + r * columns + c);
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[i] += v.v[i];
      } else {
        sums[0] += to_float(x[r * columns + c]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < width; ++i) shared[(warp * 32 + lane) * width + i] = sums[i];
  __syncthreads();
  const auto i = static_cast<int>(threadIdx.x);
  if (i < 32 * width && first + i < columns) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kPartialWarps; ++w) total += shared[w * 32 * width + i];
    const std::int64_t chunk = std::int64_t{blockIdx.y} * gridDim.z + blockIdx.z;
    partial[chunk * columns + first + i] = total;
  }
}

// sum[k, c] += Σ x[r, c] over the rows r with classes[r] = k; one class where `classes` is null.
template <typename T>
void add_class_sums(const KernelLaunch& at, const T* x, std::int64_t rows, std::int64_t columns,
                    const std::int32_t* classes, std::int64_t class_count, float* sum) {
  if (rows == 0) return;
  const bool wide = columns % 8 == 0 && is_aligned(x);
  const std::int64_t tiles = ceil_div(columns, wide ? 256 : 32);
  const std::int64_t row_bytes = class_count * columns * std::int64_t{sizeof(float)};
  std::int64_t chunks = ceil_div(8 * at.facts.multiprocessors, tiles);
  chunks = std::min({chunks, ceil_div(rows, 4 * kPartialWarps), at.scratch_bytes / row_bytes});
  base::check(chunks > 0, "scratch holds one row of partial sums");
  const std::int64_t per_chunk = ceil_div(rows, chunks);
  chunks = ceil_div(rows, per_chunk);
  float* partial = static_cast<float*>(at.scratch);
  launch(wide ? column_partials_kernel<T, 8> : column_partials_kernel<T, 1>,
         dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(chunks),
              static_cast<unsigned>(class_count)),
         dim3(32 * kPartialWarps), 0, at.stream, x, rows, columns, per_chunk, classes, partial);
  PartialTargets targets;
  targets.to[0] = sum;
  targets.width = class_count * columns;
  targets.count = 1;
  add_partials(at, partial, chunks, targets);
}

}  // namespace
}  // namespace regatta::trainer::cuda
