// Backward attention tile by tile: dq, then dk and dv, each with a block for every tile of rows
// (attention_backward.cu).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "trainer/cuda/attention/attention_gradient.cuh"
#include "trainer/cuda/attention/attention_head.cuh"
#include "trainer/cuda/kernels/launch.cuh"

namespace regatta::trainer::cuda::gradient {

constexpr int kQueryThreads = 128;
constexpr int kStreamed = 64;  // rows at a time of what a block streams
template <int kHead>
constexpr int kOwned = 64 * kBlocks<kHead>;  // rows that a block owns

template <int kHead>
struct LongLayout {
  static constexpr int kStage = 2 * kStreamed * kHead * 2;  // two tiles
  static constexpr int kFirst = 0, kSecond = kOwned<kHead> * kHead * 2, kStages = 2 * kSecond,
                       kStatistics = kStages + 2 * kStage,
                       kBytes = kStatistics + 2 * 2 * kStreamed * 4;
};

// dq of kOwned queries, and D of them for the other kernel. A warp has 16·kBlocks queries: q, dout
// and dq stay in registers, keys and values stream by.
template <typename T, int kHead>
struct QuerySide {
  static constexpr int kRows = kBlocks<kHead>;
  using Layout = LongLayout<kHead>;
  const Work<T>& work;
  const Head<T, kHead>& at;
  ptx::SharedAddress shared;
  int row;  // the warp's first query

  __device__ void copy_keys(int stage, int key) const {
    const int valid = min(kStreamed, at.tile.length - key);
    const ptx::SharedAddress to = shared + Layout::kStages + stage * Layout::kStage;
    copy_tile<kHead>(to, at.qkv(work.qkv, 1, key), at.qkv_stride(), up_to_step(valid), valid);
    copy_tile<kHead>(to + Layout::kStage / 2, at.qkv(work.qkv, 2, key), at.qkv_stride(),
                     up_to_step(valid), valid);
  }
  __device__ void load_fragments(int offset, const Places<kHead>& places,
                                 std::uint32_t (&a)[kHead / 16][kRows][4]) const {
    const int band = (row - at.tile.row) / 16;
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k) {
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        ptx::load_matrix(a[k][m],
                         shared + offset + (band + m) * kBand<kHead> + (places.tall ^ 32 * k));
      }
    }
  }
};

template <typename T, int kHead>
__device__ void query_step(const std::uint32_t (&query)[kHead / 16][kBlocks<kHead>][4],
                           const std::uint32_t (&dout)[kHead / 16][kBlocks<kHead>][4],
                           ptx::SharedAddress key, ptx::SharedAddress value, int keys,
                           const Places<kHead>& places, std::uint32_t keep,
                           const float (&lse)[kBlocks<kHead>][2],
                           const float (&inner)[kBlocks<kHead>][2], float factor, float scale,
                           float (&sum)[kBlocks<kHead>][kHead / 8][4]) {
  constexpr int kRows = kBlocks<kHead>;
  float s[kRows][4][4];
  float dp[kRows][4][4];
  clear(s);
  clear(dp);
#pragma unroll
  for (int k = 0; k < kHead / 16; ++k) {
    multiply_columns<T, kHead>(query[k], k, key, places, s);
    multiply_columns<T, kHead>(dout[k], k, value, places, dp);
  }
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int n = i / 4;
      const int c = i % 4;
      // Keys that do not exist are rows of zeros, but e^−lse may overflow.
      if (8 * n + 2 * (lane_index() % 4) + c % 2 >= keys) s[m][n][c] = -INFINITY;
      differentiate(s[m][n][c], dp[m][n][c], is_kept(keep, m, n, c), factor, lse[m][c / 2],
                    inner[m][c / 2], scale);
    }
  }
  std::uint32_t ds[kRows][2][4];
  pack<T>(dp, ds);
  add_product<T, kHead>(ds, key, places, sum);
}

template <typename T, int kHead>
__global__ void __launch_bounds__(kQueryThreads) query_kernel(Work<T> work) {
  const Head<T, kHead> at(work);
  if (!at.exists) return;
  if (at.tile.sample < 0) {
    zero_rows(work, at, kOwned<kHead>);
    return;
  }
  using Layout = LongLayout<kHead>;
  constexpr int kRows = kBlocks<kHead>;
  unsigned char* memory = dynamic_shared();
  const QuerySide<T, kHead> block{work, at, ptx::shared_address(memory),
                                  at.tile.row + 16 * kRows * (static_cast<int>(threadIdx.x) / 32)};
  const Places<kHead> places(lane_index());
  const SampleDraws draws = at.draws();
  const int valid = min(kOwned<kHead>, at.tile.length - at.tile.row);
  copy_tile<kHead>(block.shared + Layout::kFirst, at.qkv(work.qkv, 0, at.tile.row), at.qkv_stride(),
                   kOwned<kHead>, valid);
  copy_tile<kHead>(block.shared + Layout::kSecond, at.out(work.dout, at.tile.row), at.hidden(),
                   kOwned<kHead>, valid);
  block.copy_keys(0, 0);
  ptx::copy_commit();
  auto* all_inner = reinterpret_cast<float*>(memory + Layout::kStatistics);
  row_products<kHead>(at.out(work.out, at.tile.row), at.out(work.dout, at.tile.row), at.hidden(),
                      kOwned<kHead>, valid, all_inner);
  ptx::copy_wait<0>();
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < valid) {
    work.inner[at.statistic(at.tile.row + static_cast<int>(threadIdx.x))] = all_inner[threadIdx.x];
  }
  float lse[kRows][2];
  float inner[kRows][2];
#pragma unroll
  for (int i = 0; i < 2 * kRows; ++i) {
    const int row = block.row + 8 * i + lane_index() / 4;
    lse[i / 2][i % 2] = at.lse(row);
    inner[i / 2][i % 2] = all_inner[row - at.tile.row];
  }
  std::uint32_t query[kHead / 16][kRows][4];
  std::uint32_t dout[kHead / 16][kRows][4];
  block.load_fragments(Layout::kFirst, places, query);
  block.load_fragments(Layout::kSecond, places, dout);
  float sum[kRows][kHead / 8][4];
  clear(sum);
  for (int begin = 0, stage = 0; begin < at.tile.length; begin += kStreamed, stage ^= 1) {
    if (begin + kStreamed < at.tile.length) block.copy_keys(stage ^ 1, begin + kStreamed);
    ptx::copy_commit();
    ptx::copy_wait<1>();
    __syncthreads();  // this stage is there
    if (block.row < at.tile.length) {
#pragma unroll 1
      for (int i = 0; i < kStreamed && begin + i < at.tile.length; i += kStep) {
        const int key = begin + i;
        const ptx::SharedAddress keys =
            block.shared + Layout::kStages + stage * Layout::kStage + i / 16 * kBand<kHead>;
        const std::uint32_t keep =
            keep_by_query<kRows>(work.dropout, draws, at.head, block.row, key);
        query_step<T, kHead>(query, dout, keys, keys + Layout::kStage / 2, at.tile.length - key,
                             places, keep, lse, inner, work.factor, work.dropout.scale, sum);
      }
    }
    __syncthreads();  // and has been read
  }
  store_rows<T>(sum, work.scale, at.qkv(work.dqkv, 0, block.row), at.qkv_stride(),
                at.tile.length - block.row);
}

// dk and dv of kOwned keys; queries and dout stream by, 32 of a tile to each half of the warps.
template <typename T, int kHead>
struct KeySide {
  using Layout = LongLayout<kHead>;
  const Work<T>& work;
  const Head<T, kHead>& at;
  unsigned char* memory;
  ptx::SharedAddress shared;

  __device__ void copy_owned(int which, int offset) const {
    const int valid = min(kOwned<kHead>, at.tile.length - at.tile.row);
    copy_tile<kHead>(shared + offset, at.qkv(work.qkv, which, at.tile.row), at.qkv_stride(),
                     kOwned<kHead>, valid);
  }
  // lse, then D, of a stage.
  __device__ float* statistics(int stage) const {
    return reinterpret_cast<float*>(memory + Layout::kStatistics) + stage * 2 * kStreamed;
  }
  __device__ void copy_queries(int stage, int query) const {
    const int valid = min(kStreamed, at.tile.length - query);
    const ptx::SharedAddress to = shared + Layout::kStages + stage * Layout::kStage;
    copy_tile<kHead>(to, at.qkv(work.qkv, 0, query), at.qkv_stride(), up_to_step(valid), valid);
    copy_tile<kHead>(to + Layout::kStage / 2, at.out(work.dout, query), at.hidden(),
                     up_to_step(valid), valid);
    const int i = static_cast<int>(threadIdx.x);
    const int row = query + i % kStreamed;
    if (i < kStreamed) {
      statistics(stage)[i] = at.lse(row);
    } else if (i < 2 * kStreamed) {
      statistics(stage)[i] = row < at.tile.length ? work.inner[at.statistic(row)] : 0.0F;
    }
  }
};

template <typename T, int kHead>
__global__ void __launch_bounds__(kThreads, 1) key_kernel(Work<T> work) {
  const Head<T, kHead> at(work);
  if (!at.exists || at.tile.sample < 0) return;
  using Layout = LongLayout<kHead>;
  constexpr int kRows = kBlocks<kHead>;
  unsigned char* memory = dynamic_shared();
  const KeySide<T, kHead> block{work, at, memory, ptx::shared_address(memory)};
  const Places<kHead> places(lane_index());
  const int pair = static_cast<int>(threadIdx.x) / 64;
  const int half = static_cast<int>(threadIdx.x) / 32 % 2;
  const int row = at.tile.row + 16 * kRows * pair;  // the warp's first key
  block.copy_owned(1, Layout::kFirst);
  block.copy_owned(2, Layout::kSecond);
  block.copy_queries(0, 0);
  ptx::copy_commit();
  KeyStep step;
  step.keys = at.tile.length - row;
  step.key = block.shared + Layout::kFirst + kRows * pair * kBand<kHead>;
  step.value = block.shared + Layout::kSecond + kRows * pair * kBand<kHead>;
  KeyGradients<kHead> sum;
  clear(sum.key);
  clear(sum.value);
  for (int begin = 0, stage = 0; begin < at.tile.length; begin += kStreamed, stage ^= 1) {
    if (begin + kStreamed < at.tile.length) block.copy_queries(stage ^ 1, begin + kStreamed);
    ptx::copy_commit();
    ptx::copy_wait<1>();
    __syncthreads();  // this stage is there
    const int query = begin + kStep * half;
    if (step.keys > 0 && query < at.tile.length) {
      step.query = block.shared + Layout::kStages + stage * Layout::kStage +
                   kStep / 16 * half * kBand<kHead>;
      step.dout = step.query + Layout::kStage / 2;
      step.lse = Layout::kStatistics + (2 * kStreamed * stage + kStep * half) * 4;
      step.inner = step.lse + kStreamed * 4;
      const std::uint32_t keep = keep_by_key<kRows>(work.dropout, at.draws(), at.head, query, row);
      key_step<T, kHead>(step, places, keep, work.factor, work.dropout.scale, sum);
    }
    __syncthreads();  // and has been read
  }
  merge(sum.key, pair, half == 0, memory + Layout::kStages);
  if (half == 0) {
    store_rows<T>(sum.key, work.scale, at.qkv(work.dqkv, 1, row), at.qkv_stride(), step.keys);
  }
  __syncthreads();
  merge(sum.value, pair, half == 1, memory + Layout::kStages);
  if (half == 1) {
    store_rows<T>(sum.value, work.dropout.scale, at.qkv(work.dqkv, 2, row), at.qkv_stride(),
                  step.keys);
  }
}

}  // namespace regatta::trainer::cuda::gradient
