// Backward attention of samples of which one block can have all of a head (attention_backward.cu).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "trainer/cuda/attention/attention_gradient.cuh"
#include "trainer/cuda/attention/attention_head.cuh"
#include "trainer/cuda/kernels/launch.cuh"

namespace regatta::trainer::cuda::gradient {

constexpr int kTile = 128;  // keys and queries at a time

// Shared memory, in bytes from its start; rows: the sample's, rounded up to kTile.
template <int kHead>
struct ResidentLayout {
  static constexpr int kTileBytes = kTile * kHead * 2;
  static constexpr int kKey = 0, kValue = kTileBytes, kQuery = 2 * kTileBytes,
                       kDout = 3 * kTileBytes, kScores = 4 * kTileBytes,
                       kLse = kScores + kTile * kTile * 2, kInner = kLse + kTile * 4;
  __host__ __device__ static constexpr int dquery(int rows) { return kInner + rows * 4; }
  // One tile of keys needs no room for dq.
  __host__ __device__ static constexpr int bytes(int rows) {
    return dquery(rows) + (rows > kTile ? rows * kHead * 4 : 0);
  }
};

// The longest sample of which one block can have all of a head: 0 for none.
template <int kHead>
std::int64_t resident_limit(std::int64_t shared_bytes) {
  std::int64_t limit = 0;
  if constexpr (kHead <= 64) {
    while (limit + kTile < kLengthLimit &&
           ResidentLayout<kHead>::bytes(static_cast<int>(limit) + kTile) <= shared_bytes) {
      limit += kTile;
    }
  }
  return limit;
}

// Rows that are copied in are filled up with zeros to a multiple of kGrain.
template <typename T, int kHead, int kGrain = kStep>
struct Resident {
  using Layout = ResidentLayout<kHead>;
  static constexpr int kColumns = kHead / 2;  // of dq, per warp

  const Work<T>& work;
  const Head<T, kHead>& at;
  ptx::SharedAddress shared;
  int length, tiles;
  int pair;  // 0…3: keys 32·pair of the tile; in the dq phase, queries 32·pair
  int half;  // queries 32·half and 64 + 32·half; in the dq phase, columns kColumns·half

  __device__ explicit Resident(const Head<T, kHead>& at_in)
      : work(at_in.work),
        at(at_in),
        shared(ptx::shared_address(dynamic_shared())),
        length(at_in.tile.length),
        tiles((length + kTile - 1) / kTile),
        pair(static_cast<int>(threadIdx.x) / 64),
        half(static_cast<int>(threadIdx.x) / 32 % 2) {}
  __device__ int rows_of(int tile) const { return min(kTile, length - tile * kTile); }
  __device__ void copy_qkv(int which, int offset, int tile) const {
    const int rows = rows_of(tile);
    copy_tile<kHead>(shared + offset, at.qkv(work.qkv, which, tile * kTile), at.qkv_stride(),
                     (rows + kGrain - 1) / kGrain * kGrain, rows);
  }
  __device__ void copy_queries(int tile) const {
    copy_qkv(0, Layout::kQuery, tile);
    const int rows = rows_of(tile);
    copy_tile<kHead>(shared + Layout::kDout, at.out(work.dout, tile * kTile), at.hidden(),
                     (rows + kGrain - 1) / kGrain * kGrain, rows);
  }
  // lse of the thread's query in the tile.
  __device__ float lse_of(int tile) const {
    const int i = static_cast<int>(threadIdx.x);
    return i < kTile ? at.lse(tile * kTile + i) : 0.0F;
  }
  __device__ void keep_lse(float lse) const {
    const int i = static_cast<int>(threadIdx.x);
    if (i < kTile) reinterpret_cast<float*>(dynamic_shared() + Layout::kLse)[i] = lse;
  }

  __device__ void start() const {
    copy_qkv(1, Layout::kKey, 0);
    copy_qkv(2, Layout::kValue, 0);
    copy_queries(0);
    ptx::copy_commit();
    row_products<kHead>(at.out(work.out, 0), at.out(work.dout, 0), at.hidden(), tiles * kTile,
                        length, reinterpret_cast<float*>(dynamic_shared() + Layout::kInner));
    keep_lse(lse_of(0));
    ptx::copy_wait<0>();
    __syncthreads();
  }
  // dk and dv of this tile of keys from this tile of queries, and dsᵀ into shared memory.
  __device__ void key_phase(int key_tile, int query_tile, const Places<kHead>& places,
                            KeyGradients<kHead>& sum) const {
    KeyStep step;
    step.keys = rows_of(key_tile) - kStep * pair;
    if (step.keys <= 0) return;
    step.key = shared + Layout::kKey + 2 * pair * kBand<kHead>;
    step.value = shared + Layout::kValue + 2 * pair * kBand<kHead>;
    step.scores = Layout::kScores + 2 * pair * kBand<kTile>;
#pragma unroll 1
    for (int row = kStep * half; row < rows_of(query_tile); row += 2 * kStep) {
      const int query = query_tile * kTile + row;
      step.query = shared + Layout::kQuery + row / 16 * kBand<kHead>;
      step.dout = shared + Layout::kDout + row / 16 * kBand<kHead>;
      step.lse = Layout::kLse + 4 * row;
      step.inner = Layout::kInner + 4 * query;
      step.score_column = row;
      const std::uint32_t keep =
          keep_by_key<2>(work.dropout, at.draws(), at.head, query, key_tile * kTile + kStep * pair);
      key_step<T, kHead>(step, places, keep, work.factor, work.dropout.scale, sum);
    }
  }
  // dq of this tile of queries += ds·k of this tile of keys. Between tiles of keys the sums wait in
  // shared memory, as the thread's own 16-byte pieces; the last tile sends them out.
  __device__ void query_phase(int key_tile, int query_tile, const Places<kHead>& places) const {
    const int rows = rows_of(query_tile) - kStep * pair;
    if (rows <= 0) return;
    constexpr int kCount = kColumns / 8;
    float sum[2][kCount][4];
    auto* kept = reinterpret_cast<float4*>(dynamic_shared() + Layout::dquery(tiles * kTile)) +
                 (query_tile * 8 + 2 * pair + half) * 2 * kCount * 32 + lane_index();
    clear(sum);
    if (key_tile > 0) {
#pragma unroll
      for (int i = 0; i < 2 * kCount; ++i) {
        const float4 x = kept[32 * i];
        sum[i / kCount][i % kCount][0] = x.x;
        sum[i / kCount][i % kCount][1] = x.y;
        sum[i / kCount][i % kCount][2] = x.z;
        sum[i / kCount][i % kCount][3] = x.w;
      }
    }
    const Places<kTile> score_places(lane_index());
    const int bands = (rows_of(key_tile) + 15) / 16;
    for (int k = 0; k < bands; ++k) {
      std::uint32_t left[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        ptx::load_matrix_transposed(left[m], shared + Layout::kScores + k * kBand<kTile> +
                                                 (score_places.wide ^ 32 * (2 * pair + m)));
      }
#pragma unroll
      for (int n = 0; n < kColumns / 16; ++n) {
        std::uint32_t right[4];
        ptx::load_matrix_transposed(right, shared + Layout::kKey + k * kBand<kHead> +
                                               (places.tall ^ 32 * (kColumns / 16 * half + n)));
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          ptx::mma<T>(sum[m][2 * n], left[m], right[0], right[1]);
          ptx::mma<T>(sum[m][2 * n + 1], left[m], right[2], right[3]);
        }
      }
    }
    if (key_tile + 1 == tiles) {
      T* to = at.qkv(work.dqkv, 0, query_tile * kTile + kStep * pair) + kColumns * half;
      store_rows<T>(sum, work.scale, to, at.qkv_stride(), rows);
    } else {
#pragma unroll
      for (int i = 0; i < 2 * kCount; ++i) {
        const float(&x)[4] = sum[i / kCount][i % kCount];
        kept[32 * i] = make_float4(x[0], x[1], x[2], x[3]);
      }
    }
  }
  // dk is finished by the warps of half 0, dv by those of half 1.
  __device__ void finish_keys(int key_tile, KeyGradients<kHead>& sum) const {
    const int row = key_tile * kTile + kStep * pair;
    const int rows = length - row;
    merge(sum.key, pair, half == 0, dynamic_shared() + Layout::kScores);
    if (half == 0) {
      store_rows<T>(sum.key, work.scale, at.qkv(work.dqkv, 1, row), at.qkv_stride(), rows);
    }
    __syncthreads();
    merge(sum.value, pair, half == 1, dynamic_shared() + Layout::kScores);
    if (half == 1) {
      store_rows<T>(sum.value, work.dropout.scale, at.qkv(work.dqkv, 2, row), at.qkv_stride(),
                    rows);
    }
  }
};

template <typename T, int kHead>
__global__ void __launch_bounds__(kThreads, 1) resident_kernel(Work<T> work) {
  const Head<T, kHead> at(work);
  if (!at.exists) return;
  if (at.tile.sample < 0) {
    zero_rows(work, at, static_cast<int>(kLengthLimit));
    return;
  }
  const Resident<T, kHead> block(at);
  using Layout = ResidentLayout<kHead>;
  const Places<kHead> places(lane_index());
  block.start();
  for (int key_tile = 0; key_tile < block.tiles; ++key_tile) {
    const bool last_keys = key_tile + 1 == block.tiles;
    KeyGradients<kHead> sum;
    clear(sum.key);
    clear(sum.value);
    for (int query_tile = 0; query_tile < block.tiles; ++query_tile) {
      block.key_phase(key_tile, query_tile, places, sum);
      __syncthreads();  // ds is complete; queries, dout and values have been read
      const bool last_queries = query_tile + 1 == block.tiles;
      const bool more = block.tiles > 1 && !(last_queries && last_keys);
      const int next = last_queries ? 0 : query_tile + 1;
      float lse = 0;
      if (more) {
        block.copy_queries(next);
        if (last_queries) block.copy_qkv(2, Layout::kValue, key_tile + 1);
        lse = block.lse_of(next);
      }
      ptx::copy_commit();
      block.query_phase(key_tile, query_tile, places);
      if (more) block.keep_lse(lse);
      ptx::copy_wait<0>();
      __syncthreads();  // ds and keys have been read; the next tiles are there
    }
    if (!last_keys) block.copy_qkv(1, Layout::kKey, key_tile + 1);
    ptx::copy_commit();
    block.finish_keys(key_tile, sum);
    ptx::copy_wait<0>();
    __syncthreads();
  }
}

}  // namespace regatta::trainer::cuda::gradient
