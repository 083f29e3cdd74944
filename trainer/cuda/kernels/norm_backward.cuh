// LayerNorm backward of rows, with the dropout mask before it (embedding.cu) or behind it
// (layernorm.cu), and the sums over rows that become gradients:
//
//   d = dy (· mask), g = d·gamma, x̂ = (z − mean)·rstd
//   dz = rstd·(g − mean(g) − x̂·mean(g·x̂)),  dx = dz (· mask)
//   dgamma += Σ_r d·x̂,  dbeta += Σ_r d,  dbias += Σ_r dx
//
// A lane owns eight features and a team of ⌈hidden/256⌉ warps owns a row, so the three sums take 24
// registers a lane, whatever the row's length. A block has as many teams as fit into 384 threads,
// two blocks to a multiprocessor, and strides over the rows; while one row is computed, the 32
// bytes a lane of the next one are on their way (768 threads · 32 bytes = 24 KB in flight on each
// multiprocessor, about what 4.0 TB/s asks for). Two numbers a row cross the team's warps through
// shared memory, in two buffers taken in turn, which leaves one barrier a row. In the end teams are
// joined in shared memory, one partial row a block goes to scratch, and column_sums.cuh adds these.
// All orders are fixed by the sizes and the number of multiprocessors.
//
// Rows beyond 3,072 features take the long form: a block a row, gamma and partial sums in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/cuda/kernels/column_sums.cuh"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/norm_row.cuh"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::trainer::cuda {
namespace {

enum class MaskPlace : std::uint8_t { None, OnInput, OnOutput };

template <typename T>
struct NormBackward {
  const T* dy = nullptr;
  const T* z = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* gamma = nullptr;
  TokenMask mask;
  int hidden = 0;
  std::int64_t rows = 0;
  T* dz = nullptr;           // may be dy
  T* dx = nullptr;           // null where dz is all that is wanted
  float one_part = 0;        // 1 / hidden
  int sums = 0;              // of the three, how many are wanted
  float* partial = nullptr;  // [blocks, sums, hidden]
};

struct RowGradient {
  Eight d, normal;
};
template <typename T>
__device__ inline RowGradient row_gradient(const Eight& d, const Eight& z, float mean, float rstd) {
  RowGradient row = {d, {}};
#pragma unroll
  for (int i = 0; i < 8; ++i) row.normal.v[i] = (z.v[i] - mean) * rstd;
  return row;
}

// Σ g and Σ g·x̂ of eight features.
__device__ inline float2 products(const RowGradient& row, const Eight& gamma) {
  Eight g, both;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    g.v[i] = row.d.v[i] * gamma.v[i];
    both.v[i] = g.v[i] * row.normal.v[i];
  }
  return make_float2(sum_of(g), sum_of(both));
}

// dz from the sums of g and g·x̂ over the row.
__device__ inline Eight input_gradient(const RowGradient& row, const Eight& gamma, float2 sums,
                                       float one_part, float rstd) {
  const float mean = sums.x * one_part;
  const float slope = sums.y * one_part;
  Eight dz;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    dz.v[i] = (row.d.v[i] * gamma.v[i] - mean - row.normal.v[i] * slope) * rstd;
  }
  return dz;
}

__device__ inline void accumulate(Eight* sum, const Eight& x) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum->v[i] += x.v[i];
}
__device__ inline void accumulate_product(Eight* sum, const Eight& x, const Eight& y) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum->v[i] += x.v[i] * y.v[i];
}

constexpr int kBackwardThreads = 384;
constexpr int kBackwardWarps = kBackwardThreads / 32;

// Sums over the team's `warps` neighbouring warps; every thread of the block calls it. `exchange`
// has a float2 for each warp and is written again two calls later at the earliest.
__device__ inline float2 team_sum(float2 x, int warps, float2* exchange) {
  x.x = warp_sum(x.x);
  x.y = warp_sum(x.y);
  if (warps == 1) return x;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) exchange[warp] = x;
  __syncthreads();
  const float2* team = exchange + warp / warps * warps;
  float2 sum = make_float2(0.0F, 0.0F);
#pragma unroll 1
  for (int i = 0; i < warps; ++i) {
    sum.x += team[i].x;
    sum.y += team[i].y;
  }
  return sum;
}

// Joins the teams' sums and writes the block's partial row. Every thread of the block calls it.
__device__ inline void write_partials(const Eight* sums, int count, int hidden, int team_threads,
                                      float* partial) {
  __shared__ float shared[kBackwardThreads * 8];
  const int teams = static_cast<int>(blockDim.x) / team_threads;
  const auto thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int s = 0; s < 3; ++s) {
    if (s == count) return;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) shared[8 * thread + i] = sums[s].v[i];
    __syncthreads();
    for (int f = thread; f < hidden; f += static_cast<int>(blockDim.x)) {
      float total = 0;
      for (int team = 0; team < teams; ++team) total += shared[8 * team * team_threads + f];
      partial[(std::int64_t{blockIdx.x} * count + s) * hidden + f] = total;
    }
  }
}

template <typename T, MaskPlace place>
__global__ void __launch_bounds__(kBackwardThreads, 2)
    norm_backward_kernel(NormBackward<T> op, int team_threads) {
  __shared__ float2 exchange[2 * kBackwardWarps];
  const int team = static_cast<int>(threadIdx.x) / team_threads;
  const int teams = static_cast<int>(blockDim.x) / team_threads;
  const int feature = (static_cast<int>(threadIdx.x) - team * team_threads) * 8;
  const auto rows = static_cast<int>(op.rows);
  const int stride = static_cast<int>(gridDim.x) * teams;
  int r = static_cast<int>(blockIdx.x) * teams + team;
  Eight gamma = {};
  if (feature < op.hidden) gamma = load8(op.gamma + feature);
  Eight sums[3] = {};
  Raw8<T> next_dy = {};
  Raw8<T> next_z = {};
  float next_mean = 0, next_rstd = 0;
  const auto fetch = [&](int row) {
    const std::int64_t start = std::int64_t{row} * op.hidden + feature;
    next_dy = load_raw(op.dy + start);
    next_z = load_raw(op.z + start);
    next_mean = op.mean[row];
    next_rstd = op.rstd[row];
  };
  if (feature < op.hidden && r < rows) fetch(r);
  int turn = 0;
  // The block's teams go round together, some of them past the last row.
  for (; r - team < rows; r += stride) {
    const bool works = feature < op.hidden && r < rows;
    const float rstd = next_rstd;
    RowGradient row = {};
    if (works) {
      row = row_gradient<T>(unpack<T>(next_dy), unpack<T>(next_z), next_mean, rstd);
      if (r + stride < rows) fetch(r + stride);
      if constexpr (place == MaskPlace::OnInput) {
        op.mask.row(r, op.hidden).apply(&row.d, feature);
      }
      accumulate_product(&sums[0], row.d, row.normal);
      accumulate(&sums[1], row.d);
    }
    const float2 over_row =
        team_sum(products(row, gamma), team_threads / 32, exchange + turn * kBackwardWarps);
    turn ^= 1;
    if (!works) continue;
    Eight dz = input_gradient(row, gamma, over_row, op.one_part, rstd);
    const std::int64_t start = std::int64_t{r} * op.hidden + feature;
    store8(op.dz + start, dz);
    if constexpr (place == MaskPlace::OnOutput) op.mask.row(r, op.hidden).apply(&dz, feature);
    if (op.dx != nullptr) store8(op.dx + start, dz);
    accumulate(&sums[2], dz);
  }
  write_partials(sums, op.sums, op.hidden, team_threads, op.partial);
}

// A block a row. A thread adds to its own features of the block's partial row in memory, which the
// first row sets.
constexpr int kLongThreads = 256;
template <typename T, MaskPlace place>
__global__ void __launch_bounds__(kLongThreads) long_norm_backward_kernel(NormBackward<T> op) {
  __shared__ float2 exchange[2 * (kLongThreads / 32)];
  const int first = static_cast<int>(threadIdx.x) * 8;
  constexpr int kStep = kLongThreads * 8;
  float* partial = op.partial + std::int64_t{blockIdx.x} * op.sums * op.hidden;
  const auto add_to = [&](int s, int feature, Eight x, bool set) {
    if (s >= op.sums) return;
    float* to = partial + std::int64_t{s} * op.hidden + feature;
    if (!set) accumulate(&x, load8(to));
    store8(to, x);
  };
  int turn = 0;
  for (std::int64_t r = blockIdx.x; r < op.rows; r += gridDim.x) {
    const bool set = r == std::int64_t{blockIdx.x};
    const std::int64_t start = r * op.hidden;
    const float mean = op.mean[r];
    const float rstd = op.rstd[r];
    RowMask mask;
    if constexpr (place != MaskPlace::None) mask = op.mask.row(r, op.hidden);
    const auto gradient = [&](int feature) {
      Eight d = load8(op.dy + start + feature);
      if constexpr (place == MaskPlace::OnInput) mask.apply(&d, feature);
      return row_gradient<T>(d, load8(op.z + start + feature), mean, rstd);
    };
    float2 over_row = make_float2(0.0F, 0.0F);
    for (int feature = first; feature < op.hidden; feature += kStep) {
      const RowGradient row = gradient(feature);
      const float2 more = products(row, load8(op.gamma + feature));
      over_row.x += more.x;
      over_row.y += more.y;
      Eight scaled = {};
      accumulate_product(&scaled, row.d, row.normal);
      add_to(0, feature, scaled, set);
      add_to(1, feature, row.d, set);
    }
    over_row = team_sum(over_row, kLongThreads / 32, exchange + turn * (kLongThreads / 32));
    turn ^= 1;
    for (int feature = first; feature < op.hidden; feature += kStep) {
      Eight dz =
          input_gradient(gradient(feature), load8(op.gamma + feature), over_row, op.one_part, rstd);
      store8(op.dz + start + feature, dz);
      if constexpr (place == MaskPlace::OnOutput) mask.apply(&dz, feature);
      if (op.dx != nullptr) store8(op.dx + start + feature, dz);
      add_to(2, feature, dz, set);
    }
  }
}

// Enqueues the rows and the sums; op.sums of `targets` (width hidden) are added to.
template <typename T, MaskPlace place>
void norm_backward(const KernelLaunch& at, NormBackward<T> op, const PartialTargets& targets) {
  if (op.rows == 0) return;
  op.one_part = 1.0F / static_cast<float>(op.hidden);
  op.sums = targets.count;
  op.partial = static_cast<float*>(at.scratch);
  const std::int64_t row_bytes = std::int64_t{op.sums} * op.hidden * std::int64_t{sizeof(float)};
  std::int64_t blocks =
      std::min<std::int64_t>(2 * at.facts.multiprocessors, at.scratch_bytes / row_bytes);
  base::check(blocks > 0, "scratch holds one row of partial sums");
  const auto team_threads = static_cast<int>(32 * ceil_div(op.hidden, 256));
  if (team_threads <= kBackwardThreads) {
    const int teams = kBackwardThreads / team_threads;
    blocks = std::min(blocks, ceil_div(op.rows, teams));
    launch(norm_backward_kernel<T, place>, dim3(static_cast<unsigned>(blocks)),
           dim3(static_cast<unsigned>(teams * team_threads)), 0, at.stream, op, team_threads);
  } else {
    blocks = std::min(blocks, op.rows);
    launch(long_norm_backward_kernel<T, place>, dim3(static_cast<unsigned>(blocks)),
           dim3(kLongThreads), 0, at.stream, op);
  }
  add_partials(at, op.partial, blocks, targets);
}

}  // namespace
}  // namespace regatta::trainer::cuda
