// Pieces of the backward attention kernels (attention_backward.cu). One warp works on 16·kBlocks
// rows × 32 columns of scores at a time, in accumulators of mma.sync (ptx.cuh): rows are keys and
// columns queries where dk and dv are made ("by key"), and the other way round for dq alone ("by
// query"). Element c of accumulator [m][n] is row 16·m + 8·(c / 2) + g, column 8·n + 2·q + c mod 2,
// with g = lane / 4, q = lane mod 4. Tiles in shared memory are swizzled (shared_tile.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "trainer/cuda/attention/attention_dropout.cuh"
#include "trainer/cuda/attention/attention_tiles.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/kernels/ptx.cuh"
#include "trainer/cuda/kernels/shared_tile.cuh"

namespace regatta::trainer::cuda::gradient {

constexpr int kStep = 32;  // columns of scores at a time
constexpr float kLog2E = 1.4426950408889634F;

// Tiles of 16 rows of scores per warp: what accumulators of kHead columns leave registers for.
template <int kHead>
constexpr int kBlocks = kHead <= 64 ? 2 : 1;
// Bytes of 16 rows of a tile.
template <int kColumns>
constexpr int kBand = 16 * kColumns * 2;

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % 32; }

// Where a lane points for an ldmatrix of four 8×8 matrices in the first 16 rows and 16 columns of a
// tile; those 16·j columns further are at `place ^ 32·j`, 16·i rows further at `place + i·kBand`.
template <int kColumns>
struct Places {
  int tall;  // matrices 0, 1 below each other, 2, 3 to their right
  int wide;  // 0, 1 beside each other, 2, 3 below them
  __device__ explicit Places(int lane)
      : tall(tile_offset<kColumns>(lane % 16, lane / 16)),
        wide(tile_offset<kColumns>(lane / 16 * 8 + lane % 8, lane / 8 % 2)) {}
};

template <int kRows, int kCount>
__device__ inline void clear(float (&c)[kRows][kCount][4]) {
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) c[m][n][i] = 0;
    }
  }
}

// c += a·bᵀ where a's 16×16 blocks are fragments and b is 32 rows of a tile.
template <typename T, int kHead, int kRows>
__device__ inline void multiply_columns(const std::uint32_t (&a)[kRows][4], int k,
                                        ptx::SharedAddress b, const Places<kHead>& places,
                                        float (&c)[kRows][4][4]) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    std::uint32_t right[4];
    ptx::load_matrix(right, ptx::flip(b + places.wide, 32 * k) + n * kBand<kHead>);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      ptx::mma<T>(c[m][2 * n], a[m], right[0], right[1]);
      ptx::mma<T>(c[m][2 * n + 1], a[m], right[2], right[3]);
    }
  }
}
// c = a·bᵀ over kHead columns, a and b in shared memory.
template <typename T, int kHead, int kRows>
__device__ inline void multiply(ptx::SharedAddress a, ptx::SharedAddress b,
                                const Places<kHead>& places, float (&c)[kRows][4][4]) {
  clear(c);
#pragma unroll
  for (int k = 0; k < kHead / 16; ++k) {
    std::uint32_t left[kRows][4];
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      ptx::load_matrix(left[m], a + m * kBand<kHead> + (places.tall ^ 32 * k));
    }
    multiply_columns<T, kHead>(left, k, b, places, c);
  }
}

// c += a·b, a [16·kRows, 32] in fragments, b 32 rows of a tile.
template <typename T, int kHead, int kRows>
__device__ inline void add_product(const std::uint32_t (&a)[kRows][2][4], ptx::SharedAddress b,
                                   const Places<kHead>& places, float (&c)[kRows][kHead / 8][4]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int n = 0; n < kHead / 16; ++n) {
      std::uint32_t right[4];
      ptx::load_matrix_transposed(right, b + j * kBand<kHead> + (places.tall ^ 32 * n));
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        ptx::mma<T>(c[m][2 * n], a[m][j], right[0], right[1]);
        ptx::mma<T>(c[m][2 * n + 1], a[m][j], right[2], right[3]);
      }
    }
  }
}

// Accumulators, rounded, as the left side of a product.
template <typename T, int kRows>
__device__ inline void pack(const float (&c)[kRows][4][4], std::uint32_t (&a)[kRows][2][4]) {
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &c[m][2 * j + i / 2][i % 2 * 2];
        a[m][j][i] = ptx::pack<T>(pair[0], pair[1]);
      }
    }
  }
}

// --- Dropout: which elements of a warp's scores are kept, bit 8·(2·m + c / 2) + 2·n + c mod 2.

__device__ inline std::uint32_t kept_of_eight(const Draws& draws, std::uint32_t bar) {
  std::uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bits |= keeps_low(draws.word[i], bar) ? 1U << 2 * i : 0U;
    bits |= keeps_high(draws.word[i], bar) ? 2U << 2 * i : 0U;
  }
  return bits;
}

// Rows are keys. Lane l draws for column (query) l and all keys; then lane (g, q) needs bit g of
// every eight keys, of eight queries: eight shuffles for up to 32 elements.
template <int kRows>
__device__ inline std::uint32_t keep_by_key(const AttentionDropout& dropout,
                                            const SampleDraws& draws, int head, int query,
                                            int key) {
  if (dropout.bar == 0) return kAllLanes;
  const int lane = lane_index();
  std::uint32_t mine = 0;
#pragma unroll
  for (int i = 0; i < 2 * kRows; ++i) {
    const std::uint32_t block = attention_draws_block(head, query + lane, key + 8 * i);
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

// Rows are queries. Lane q of a quad draws for the keys of accumulator n = q and all of the quad's
// rows; then it needs two bits of each of the quad's draws: four shuffles.
template <int kRows>
__device__ inline std::uint32_t keep_by_query(const AttentionDropout& dropout,
                                              const SampleDraws& draws, int head, int query,
                                              int key) {
  if (dropout.bar == 0) return kAllLanes;
  const int lane = lane_index();
  std::uint32_t mine = 0;
#pragma unroll
  for (int i = 0; i < 2 * kRows; ++i) {
    const std::uint32_t block =
        attention_draws_block(head, query + 8 * i + lane / 4, key + 8 * (lane % 4));
    mine |= kept_of_eight(draws(dropout, block), dropout.bar) << 8 * i;
  }
  std::uint32_t keep = 0;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const std::uint32_t bits = __shfl_sync(kAllLanes, mine, lane / 4 * 4 + n);
    keep |= (bits >> 2 * (lane % 4) & 0x03030303U) << 2 * n;
  }
  return keep;
}

// s = q·k becomes p∘kept, and dp becomes ds·√d. lse is that of p's base 2 (lse·log₂e, +∞ for a
// query that does not exist, whose p so is 0); `factor` is log₂e/√d.
__device__ inline void differentiate(float& s, float& dp, bool kept, float factor, float lse,
                                     float inner, float scale) {
  const float p = ptx::exp2_fast(s * factor - lse);
  s = kept ? p : 0.0F;
  dp = p * ((kept ? dp : 0.0F) * scale - inner);
}
__device__ constexpr bool is_kept(std::uint32_t keep, int m, int n, int c) {
  return (keep & 1U << (8 * (2 * m + c / 2) + 2 * n + c % 2)) != 0;
}

// --- One step by key: dvalue += (p∘kept)ᵀ·dout, dkey += dsᵀ·q·√d of 16·kRows keys and 32 queries.

// Where a step's rows lie in shared memory; the last four are bytes from its start.
struct KeyStep {
  ptx::SharedAddress key, value;   // of the warp
  ptx::SharedAddress query, dout;  // of the step
  int lse = 0;                     // of its queries, base 2
  int inner = 0;                   // D
  int scores = -1;       // the warp's rows of the tile [keys][128 queries] for dsᵀ; −1: none
  int score_column = 0;  // of the step in that tile
  int keys = 0;          // of the warp's that exist
};

template <int kHead>
struct KeyGradients {
  float key[kBlocks<kHead>][kHead / 8][4];
  float value[kBlocks<kHead>][kHead / 8][4];
};

template <int kRows>
__device__ inline void store_scores(const KeyStep& step, const std::uint32_t (&ds)[kRows][2][4]) {
  const int lane = lane_index();
  // Of the lane's row among eight and its words in piece 0; others differ in the bits of a piece.
  const int place = (tile_offset<128>(lane / 4, 0) + lane % 4 * 4) ^ step.score_column * 2;
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      unsigned char* to = dynamic_shared() + step.scores + (place ^ i / 2 * 16);
      *reinterpret_cast<std::uint32_t*>(to + m * kBand<128> + i % 2 * (kBand<128> / 2)) =
          ds[m][i / 4][i % 4];
    }
  }
}

template <typename T, int kHead>
__device__ inline void key_step(const KeyStep& step, const Places<kHead>& places,
                                std::uint32_t keep, float factor, float scale,
                                KeyGradients<kHead>& sum) {
  constexpr int kRows = kBlocks<kHead>;
  const int lane = lane_index();
  float s[kRows][4][4];
  float dp[kRows][4][4];
  multiply<T, kHead>(step.key, step.query, places, s);
  multiply<T, kHead>(step.value, step.dout, places, dp);
  if (step.keys < 16 * kRows) {  // rows of zeros: not products, but e^−lse may overflow
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        if (16 * m + i % 4 / 2 * 8 + lane / 4 >= step.keys) s[m][i / 4][i % 4] = -INFINITY;
      }
    }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const float2 lse =
        *reinterpret_cast<const float2*>(dynamic_shared() + step.lse + 32 * n + 8 * (lane % 4));
    const float2 inner =
        *reinterpret_cast<const float2*>(dynamic_shared() + step.inner + 32 * n + 8 * (lane % 4));
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        differentiate(s[m][n][c], dp[m][n][c], is_kept(keep, m, n, c), factor,
                      c % 2 == 0 ? lse.x : lse.y, c % 2 == 0 ? inner.x : inner.y, scale);
      }
    }
  }
  std::uint32_t p[kRows][2][4];
  std::uint32_t ds[kRows][2][4];
  pack<T>(s, p);
  pack<T>(dp, ds);
  if (step.scores >= 0) store_scores(step, ds);
  add_product<T, kHead>(p, step.dout, places, sum.value);
  add_product<T, kHead>(ds, step.query, places, sum.key);
}

// --- Rows of a head in global memory.

// inner[i] = out_i·dout_i of rows i < valid, 0 of those up to `rows`. The whole block; a thread has
// four rows' loads in flight.
template <int kHead, typename T>
__device__ inline void row_products(const T* out, const T* dout, std::int64_t stride, int rows,
                                    int valid, float* inner) {
  constexpr int kLanes = kHead / 8;  // per row
  constexpr int kBatch = 4;
  const int piece = static_cast<int>(threadIdx.x) % kLanes;
  const int step = static_cast<int>(blockDim.x) / kLanes;
#pragma unroll 1
  for (int begin = 0; begin < rows; begin += kBatch * step) {
    const int first = begin + static_cast<int>(threadIdx.x) / kLanes;
    Eight a[kBatch];
    Eight b[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const int i = first + n * step;
      a[n] = b[n] = Eight{};
      if (i < valid) {
        a[n] = load8(out + i * stride + 8 * piece);
        b[n] = load8(dout + i * stride + 8 * piece);
      }
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += a[n].v[e] * b[n].v[e];
#pragma unroll
      for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, lanes);
      }
      const int i = first + n * step;
      if (piece == 0 && i < rows) inner[i] = sum;
    }
  }
}

// Writes accumulators times `factor` as rows of 16-bit elements, the first `valid` of them. Lanes
// of a pair exchange words, so that a quad writes 32 neighbouring bytes at once.
template <typename T, int kRows, int kCount>
__device__ inline void store_rows(const float (&c)[kRows][kCount][4], float factor, T* to,
                                  std::int64_t stride, int valid) {
  const int lane = lane_index();
  const int q = lane % 4;
  const bool odd = q % 2 != 0;
  const int column = odd ? 6 + 2 * q : 2 * q;
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int n = 0; n < kCount; n += 2) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const std::uint32_t left = ptx::pack<T>(c[m][n][i] * factor, c[m][n][i + 1] * factor);
        const std::uint32_t right =
            ptx::pack<T>(c[m][n + 1][i] * factor, c[m][n + 1][i + 1] * factor);
        const std::uint32_t got = __shfl_xor_sync(kAllLanes, odd ? left : right, 1);
        const int row = 16 * m + 4 * i + lane / 4;
        if (row < valid) {
          *reinterpret_cast<uint2*>(to + row * stride + 8 * n + column) =
              odd ? make_uint2(got, right) : make_uint2(left, got);
        }
      }
    }
  }
}

// Adds to the accumulators of the warps with `takes` those of their partner warp. The warps of a
// pair have the same `slot` (0…3), and one of them takes. All threads of the block; `memory` holds
// 4·16·kRows·kCount·8·4 bytes and is free when this returns and the block has met again.
template <int kRows, int kCount>
__device__ inline void merge(float (&c)[kRows][kCount][4], int slot, bool takes,
                             unsigned char* memory) {
  auto* mine = reinterpret_cast<float4*>(memory) + slot * kRows * kCount * 32 + lane_index();
  if (!takes) {
#pragma unroll
    for (int i = 0; i < kRows * kCount; ++i) {
      const float(&x)[4] = c[i / kCount][i % kCount];
      mine[32 * i] = make_float4(x[0], x[1], x[2], x[3]);
    }
  }
  __syncthreads();
  if (takes) {
#pragma unroll
    for (int i = 0; i < kRows * kCount; ++i) {
      float(&x)[4] = c[i / kCount][i % kCount];
      const float4 other = mine[32 * i];
      x[0] += other.x;
      x[1] += other.y;
      x[2] += other.z;
      x[3] += other.w;
    }
  }
}

}  // namespace regatta::trainer::cuda::gradient
