// The backward attention kernel made of warpgroup products (attention_backward_wgmma.cu): heads of
// 64, of samples of which one block can have all of a head. Two warpgroups; warpgroup w has keys
// 64·w …
// + 63 of a tile of 128 in the key phase and queries 64·w … + 63 in the query phase.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "trainer/cuda/attention/attention_resident.cuh"
#include "trainer/cuda/kernels/wgmma.cuh"

namespace regatta::trainer::cuda::gradient {

#if defined(REGATTA_HAS_WGMMA)

using Sums = float[1][8][4];  // of a lane, of 64 rows × 64 columns (wgmma.cuh: D)
constexpr int kSide = wgmma::kSide;
constexpr int kSquareBytes = kSide * kSide * 2;

// Which of a lane's 32 elements of a square are kept; rows are keys, columns queries, both counted
// from `key` and `query`. Element [j][c] is bit 8·(2·(j / 4) + c / 2) + 2·(j mod 4) + c mod 2: that
// of is_kept(keep, j / 4, j mod 4, c). Lane l draws for queries l and 32 + l and the warp's 16
// keys; then lane (g, q) needs bit g of every eight keys: eight shuffles.
__device__ inline std::uint32_t keep_of_square(const AttentionDropout& dropout,
                                               const SampleDraws& draws, int head, int query,
                                               int key) {
  if (dropout.bar == 0) return kAllLanes;
  const int lane = lane_index();
  std::uint32_t mine = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t block =
        attention_draws_block(head, query + 32 * (i / 2) + lane, key + 8 * (i % 2));
    mine |= kept_of_eight(draws(dropout, block), dropout.bar) << 8 * i;
  }
  std::uint32_t keep = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) {
    const int source = 8 * (w / 2) + 2 * (lane % 4) + w % 2;
    keep |= (__shfl_sync(kAllLanes, mine, source) >> lane / 4 & 0x01010101U) << w;
  }
  return keep;
}

// Sums, rounded, as the left side of four products of 16 columns; 0 where they are not kept.
template <typename T>
__device__ inline void pack(const Sums& c, std::uint32_t keep, std::uint32_t (&a)[4][4]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int j = i / 2;
    const int first = i % 2 * 2;
    a[i / 4][i % 4] =
        ptx::pack<T>(is_kept(keep, j / 4, j % 4, first) ? c[0][j][first] : 0.0F,
                     is_kept(keep, j / 4, j % 4, first + 1) ? c[0][j][first + 1] : 0.0F);
  }
}

template <typename T>
struct Warpgroups : Resident<T, kSide, kSide> {
  using Base = Resident<T, kSide, kSide>;
  using Layout = typename Base::Layout;
  using Major = wgmma::Major;
  using Base::at, Base::length, Base::rows_of, Base::shared, Base::tiles, Base::work;

  int group;  // the warpgroup, told by lane 0 so that the compiler knows it to be a warp's
  int warp;   // in the warpgroup

  __device__ explicit Warpgroups(const Head<T, kSide>& at_in)
      : Base(at_in),
        group(__shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / wgmma::kThreads, 0)),
        warp(static_cast<int>(threadIdx.x) % wgmma::kThreads / 32) {}

  [[nodiscard]] __device__ wgmma::Descriptor square(int offset, int index) const {
    return wgmma::descriptor(this->shared + offset + index * kSquareBytes);
  }
  // dsᵀ of a tile of keys lies as two tiles [128 keys][64 queries].
  [[nodiscard]] __device__ static constexpr int scores(int half) {
    return Layout::kScores + half * 2 * kSquareBytes;
  }
  // What this thread copied is there for everybody's products behind the next barrier.
  __device__ void arrive() const {
    ptx::copy_wait<0>();
    wgmma::share_writes();
    __syncthreads();
  }

  // s becomes p of a square, 0 for keys that do not exist: not by −∞ or a product, since e^−lse may
  // overflow. Bit 0 of keys_that_exist is of the lane's first row, bit 1 of its second.
  __device__ void exponentiate(Sums& s, std::uint32_t keys_that_exist, int lse_offset) const {
    const int q = lane_index() % 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 lse =
          *reinterpret_cast<const float2*>(dynamic_shared() + lse_offset + 32 * j + 8 * q);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float p = ptx::exp2_fast(s[0][j][c] * work.factor - (c % 2 == 0 ? lse.x : lse.y));
        s[0][j][c] = (keys_that_exist >> c / 2 & 1U) != 0 ? p : 0.0F;
      }
    }
  }
  // dp becomes ds·√d.
  __device__ void differentiate(const Sums& p, Sums& dp, std::uint32_t keep,
                                int inner_offset) const {
    const int q = lane_index() % 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 inner =
          *reinterpret_cast<const float2*>(dynamic_shared() + inner_offset + 32 * j + 8 * q);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const bool kept = is_kept(keep, j / 4, j % 4, c);
        dp[0][j][c] = p[0][j][c] * ((kept ? dp[0][j][c] : 0.0F) * work.dropout.scale -
                                    (c % 2 == 0 ? inner.x : inner.y));
      }
    }
  }
  // dk and dv of the warpgroup's keys from this tile of queries, and dsᵀ into shared memory. The
  // tensor cores have work while the masks are drawn (s, dp, and dk of the square before) and while
  // ds is made (dv).
  __device__ void key_phase(int key_tile, int query_tile, Sums& dkey, Sums& dvalue) const {
    const int keys = rows_of(key_tile) - kSide * group - 16 * warp;  // from the warp's first on
    if (rows_of(key_tile) <= kSide * group) return;
    const int lane = lane_index();
    const std::uint32_t exist = (lane / 4 < keys ? 1U : 0U) | (8 + lane / 4 < keys ? 2U : 0U);
    const int key = key_tile * kTile + kSide * group + 16 * warp;
    const int squares = rows_of(query_tile) > kSide ? 2 : 1;
    const int row = kSide * group + 16 * warp + lane % 16;
    const ptx::SharedAddress place = shared + tile_offset<kSide>(row, lane / 16);
    std::uint32_t left[4][4];   // p
    std::uint32_t right[4][4];  // ds
    Sums s;
    Sums dp;
#pragma unroll 1
    for (int half = 0; half < squares; ++half) {
      const int query = query_tile * kTile + kSide * half;
      wgmma::fence(s[0], dp[0]);
      wgmma::multiply_64<T, Major::K, Major::K>(s[0], square(Layout::kKey, group),
                                                square(Layout::kQuery, half), false);
      wgmma::commit();
      wgmma::multiply_64<T, Major::K, Major::K>(dp[0], square(Layout::kValue, group),
                                                square(Layout::kDout, half), false);
      wgmma::commit();
      const std::uint32_t keep = keep_of_square(work.dropout, at.draws(), at.head, query, key);
      wgmma::wait<1>(s[0], dkey[0], dvalue[0]);
      exponentiate(s, exist, Layout::kLse + 4 * kSide * half);
      pack<T>(s, keep, left);
      wgmma::fence(left, dvalue[0]);
      wgmma::multiply_64<T, Major::Outer>(dvalue[0], left, square(Layout::kDout, half), true);
      wgmma::commit();
      wgmma::wait<1>(dp[0]);
      differentiate(s, dp, keep, Layout::kInner + 4 * query);
      pack<T>(dp, kAllLanes, right);
#pragma unroll
      for (int k = 0; k < 4; ++k) {  // before the product, in which `right` may not be read
        wgmma::store_matrix(ptx::flip(place + scores(half), 32 * k), right[k]);
      }
      wgmma::fence(right, dkey[0]);
      wgmma::multiply_64<T, Major::Outer>(dkey[0], right, square(Layout::kQuery, half), true);
      wgmma::commit();
    }
    wgmma::wait<0>(dkey[0], dvalue[0]);
    wgmma::share_writes();
  }

  // dq of this tile of queries += ds·k of this tile of keys; the sums as in Resident.
  __device__ void query_phase(int key_tile, int query_tile) const {
    const int rows = rows_of(query_tile) - kSide * group;
    if (rows <= 0) return;
    auto* kept = reinterpret_cast<float4*>(dynamic_shared() + Layout::dquery(tiles * kTile)) +
                 (query_tile * 8 + 4 * group + warp) * 8 * 32 + lane_index();
    Sums sum;
    clear(sum);
    if (key_tile > 0) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float4 x = kept[32 * j];
        sum[0][j][0] = x.x;
        sum[0][j][1] = x.y;
        sum[0][j][2] = x.z;
        sum[0][j][3] = x.w;
      }
    }
    const int squares = rows_of(key_tile) > kSide ? 2 : 1;
#pragma unroll 1
    for (int half = 0; half < squares; ++half) {
      wgmma::fence(sum[0]);
      wgmma::multiply_64<T, Major::Outer, Major::Outer>(sum[0], square(scores(group), half),
                                                        square(Layout::kKey, half), true);
      wgmma::commit();
    }
    wgmma::wait<0>(sum[0]);
    if (key_tile + 1 == tiles) {
      T* to = at.qkv(work.dqkv, 0, query_tile * kTile + kSide * group + 16 * warp);
      store_rows<T>(sum, work.scale, to, at.qkv_stride(), rows - 16 * warp);
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float(&x)[4] = sum[0][j];
        kept[32 * j] = make_float4(x[0], x[1], x[2], x[3]);
      }
    }
  }
  __device__ void finish_keys(int key_tile, const Sums& dkey, const Sums& dvalue) const {
    const int row = key_tile * kTile + kSide * group + 16 * warp;
    store_rows<T>(dkey, work.scale, at.qkv(work.dqkv, 1, row), at.qkv_stride(), length - row);
    store_rows<T>(dvalue, work.dropout.scale, at.qkv(work.dqkv, 2, row), at.qkv_stride(),
                  length - row);
  }

  __device__ void run() const {
    this->start();
    arrive();
    for (int key_tile = 0; key_tile < tiles; ++key_tile) {
      const bool last_keys = key_tile + 1 == tiles;
      Sums dkey;
      Sums dvalue;
      clear(dkey);
      clear(dvalue);
      for (int query_tile = 0; query_tile < tiles; ++query_tile) {
        key_phase(key_tile, query_tile, dkey, dvalue);
        __syncthreads();  // ds is complete; queries, dout and values have been read
        const bool last_queries = query_tile + 1 == tiles;
        const bool more = tiles > 1 && !(last_queries && last_keys);
        const int next = last_queries ? 0 : query_tile + 1;
        float lse = 0;
        if (more) {
          this->copy_queries(next);
          if (last_queries) this->copy_qkv(2, Layout::kValue, key_tile + 1);
          lse = this->lse_of(next);
        }
        ptx::copy_commit();
        query_phase(key_tile, query_tile);
        if (more) this->keep_lse(lse);
        arrive();  // ds and keys have been read; the next tiles are there
      }
      if (!last_keys) this->copy_qkv(1, Layout::kKey, key_tile + 1);
      ptx::copy_commit();
      finish_keys(key_tile, dkey, dvalue);
      arrive();
    }
  }
};

#endif

template <typename T>
__global__ void __launch_bounds__(kThreads, 1) wgmma_kernel(Work<T> work) {
#if defined(REGATTA_HAS_WGMMA)
  const Head<T, wgmma::kSide> at(work);
  if (!at.exists) return;
  if (at.tile.sample < 0) {
    zero_rows(work, at, static_cast<int>(kLengthLimit));
    return;
  }
  Warpgroups<T>(at).run();
#else
  __trap();  // the host does not launch it here
#endif
}

}  // namespace regatta::trainer::cuda::gradient
