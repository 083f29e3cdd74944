// The arithmetic of one warp of forward attention (attention_forward.cu): its queries in registers,
// and the keys and values that it takes from shared memory, however these came there.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/cuda/attention/attention_dropout.cuh"
#include "trainer/cuda/attention/attention_tiles.h"
#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/kernels/ptx.cuh"
#include "trainer/cuda/kernels/shared_tile.cuh"

namespace regatta::trainer::cuda {

// How far above its reference a score may be, in units of log 2, before the row is scaled.
constexpr float kSlack = 8.0F;
constexpr float kLog2OfE = 1.4426950408889634F;
constexpr float kLogOf2 = 0.6931471805599453F;

struct ForwardWork {
  const void* qkv;
  void* out;
  float* lse;
  const std::int32_t* ordinal;
  const std::int32_t* step;
  const std::int32_t* count;
  const AttentionTile* tiles;
  std::int64_t tokens, hidden;
  int heads;
  int stages;
  float scale;  // log2(e)/√d
  AttentionDropout dropout;
};

// The queries of one warp, and what it has gathered for them. All members are registers.
template <typename T, int kHead, bool kDrop>
class WarpQueries {
  static constexpr int kRowTiles = kForwardRowsPerWarp<kHead> / 16;
  static constexpr int kStep = kHead == 128 ? 64 : 32;
  static constexpr int kRowBytes = kHead * 2;

 public:
  // `rows`: the warp's first query in shared memory.
  __device__ explicit WarpQueries(ptx::SharedAddress rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        reference_[r][h] = -INFINITY;
        sum_[r][h] = 0;
      }
#pragma unroll
      for (int c = 0; c < kHead / 8; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out_[r][c][e] = 0;
      }
#pragma unroll
      for (int k = 0; k < kHead / 16; ++k) {
        ptx::load_matrix(query_[r][k], rows + r * 16 * kRowBytes +
                                           tile_offset<kHead>(lane % 16, 2 * k + lane / 16));
      }
    }
  }

  // Takes `count` keys, at most a stage; K and V rows behind them are zeros. `block`, for the
  // masks: attention_draws_block of the lane's row g at the first key, plus its place in the quad.
  __device__ void take(ptx::SharedAddress keys, int count, std::uint32_t block,
                       const SampleDraws& draws, const ForwardWork& work) {
#pragma unroll 1
    for (; count > 0; count -= kStep) {
      float scores[kRowTiles][kStep / 8][4];
      multiply(keys, scores);
      if (count < kStep) mask(count, scores);
      raise_references(work.scale, scores);
      std::uint32_t weights[kRowTiles][kStep / 16][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        exponentiate(work.scale, r, scores[r]);
        if constexpr (kDrop) {
          drop(work.dropout, draws, block + static_cast<std::uint32_t>(r * 16 * 512), scores[r]);
        }
        round(scores[r], weights[r]);
      }
      accumulate(keys + kForwardKeys * kRowBytes, weights);
      keys += kStep * kRowBytes;
      block += kStep / 8;
    }
  }

  // Writes the sample's rows of a head; `row` is the warp's first.
  __device__ void finish(const ForwardWork& work, const AttentionTile& tile, int head,
                         int row) const {
    T* out = static_cast<T*>(work.out) + tile.begin * work.hidden + head * kHead;
    float* lse = work.lse + head * work.tokens + tile.begin;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float total = sum_[r][h];
        total += __shfl_xor_sync(kAllLanes, total, 1);
        total += __shfl_xor_sync(kAllLanes, total, 2);
        const int mine = row + r * 16 + h * 8 + lane / 4;
        const bool inside = mine < tile.length;
        if (inside && lane % 4 == 0) lse[mine] = reference_[r][h] * kLogOf2 + logf(total);
        const float factor = work.dropout.scale / total;
#pragma unroll
        for (int c = 0; c < kHead / 32; ++c) {
          std::uint32_t word[4];
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float(&pair)[4] = out_[r][4 * c + j];
            word[j] = ptx::pack<T>(pair[2 * h] * factor, pair[2 * h + 1] * factor);
          }
          // Two columns of four tiles become eight columns of one: 16 bytes a lane.
          transpose_quad(word);
          if (inside) {
            *reinterpret_cast<uint4*>(out + mine * work.hidden + c * 32 + lane % 4 * 8) =
                make_uint4(word[0], word[1], word[2], word[3]);
          }
        }
      }
    }
  }

 private:
  __device__ void multiply(ptx::SharedAddress keys, float (&scores)[kRowTiles][kStep / 8][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int j = 0; j < kStep / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[r][j][e] = 0;
      }
    }
    const ptx::SharedAddress first = keys + tile_offset<kHead>(lane % 8, lane / 8);
#pragma unroll
    for (int k = 0; k < kHead / 32; ++k) {
      // Piece 4·k + lane / 8: its swizzled place differs in the bits of 4·k alone.
      const ptx::SharedAddress column = ptx::flip(first, static_cast<std::uint32_t>(k) * 64);
#pragma unroll
      for (int j = 0; j < kStep / 8; j += 2) {
        // Two groups of eight keys at a time, so that neighbouring products are independent.
        std::uint32_t key[2][4];
        ptx::load_matrix(key[0], column + j * 8 * kRowBytes);
        ptx::load_matrix(key[1], column + (j + 1) * 8 * kRowBytes);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int r = 0; r < kRowTiles; ++r) {
              ptx::mma<T>(scores[r][j + i], query_[r][2 * k + half], key[i][2 * half],
                          key[i][2 * half + 1]);
            }
          }
        }
      }
    }
  }

  // Keys from `count` on belong to nobody.
  __device__ void mask(int count, float (&scores)[kRowTiles][kStep / 8][4]) const {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < kStep / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (j * 8 + column + e % 2 < count) continue;
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) scores[r][j][e] = -INFINITY;
      }
    }
  }

  // Moves the references of the warp's rows to their largest score if one is kSlack above its own.
  __device__ void raise_references(float scale, const float (&scores)[kRowTiles][kStep / 8][4]) {
    float most[kRowTiles][2];
    bool above = false;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        most[r][h] = -INFINITY;
#pragma unroll
        for (int j = 0; j < kStep / 8; ++j) {
          most[r][h] = fmaxf(most[r][h], fmaxf(scores[r][j][2 * h], scores[r][j][2 * h + 1]));
        }
        most[r][h] *= scale;
        above = above || most[r][h] > reference_[r][h] + kSlack;
      }
    }
    if (__any_sync(kAllLanes, static_cast<int>(above)) == 0) return;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float largest = most[r][h];
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
        // Finite from the first step on: key 0 is always there.
        const float next = fmaxf(reference_[r][h], largest);
        const float factor = ptx::exp2_fast(reference_[r][h] - next);
        reference_[r][h] = next;
        sum_[r][h] *= factor;
#pragma unroll
        for (int c = 0; c < kHead / 8; ++c) {
          out_[r][c][2 * h] *= factor;
          out_[r][c][2 * h + 1] *= factor;
        }
      }
    }
  }

  __device__ void exponentiate(float scale, int r, float (&scores)[kStep / 8][4]) {
#pragma unroll
    for (int j = 0; j < kStep / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[j][e] = ptx::exp2_fast(fmaf(scores[j][e], scale, -reference_[r][e / 2]));
        sum_[r][e / 2] += scores[j][e];
      }
    }
  }

  __device__ static void drop(const AttentionDropout& dropout, const SampleDraws& draws,
                              std::uint32_t block, float (&scores)[kStep / 8][4]) {
#pragma unroll
    for (int group = 0; group < kStep / 32; ++group) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        Draws mine = draws(dropout, block + static_cast<std::uint32_t>(h * 8 * 512 + group * 4));
        transpose_quad(mine.word);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float(&pair)[4] = scores[4 * group + j];
          if (!keeps_low(mine.word[j], dropout.bar)) pair[2 * h] = 0;
          if (!keeps_high(mine.word[j], dropout.bar)) pair[2 * h + 1] = 0;
        }
      }
    }
  }

  __device__ static void round(const float (&scores)[kStep / 8][4],
                               std::uint32_t (&weights)[kStep / 16][4]) {
#pragma unroll
    for (int i = 0; i < kStep / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float(&pair)[4] = scores[2 * i + j];
        weights[i][2 * j] = ptx::pack<T>(pair[0], pair[1]);
        weights[i][2 * j + 1] = ptx::pack<T>(pair[2], pair[3]);
      }
    }
  }

  __device__ void accumulate(ptx::SharedAddress values,
                             const std::uint32_t (&weights)[kRowTiles][kStep / 16][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const ptx::SharedAddress first = values + tile_offset<kHead>(lane % 16, lane / 16);
#pragma unroll
    for (int c = 0; c < kHead / 16; ++c) {
      const ptx::SharedAddress column = ptx::flip(first, static_cast<std::uint32_t>(c) * 32);
#pragma unroll
      for (int i = 0; i < kStep / 16; ++i) {
        std::uint32_t value[4];
        ptx::load_matrix_transposed(value, column + i * 16 * kRowBytes);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
            ptx::mma<T>(out_[r][2 * c + j], weights[r][i], value[2 * j], value[2 * j + 1]);
          }
        }
      }
    }
  }

  std::uint32_t query_[kRowTiles][kHead / 16][4];
  float out_[kRowTiles][kHead / 8][4];
  float reference_[kRowTiles][2];  // in units of log 2
  float sum_[kRowTiles][2];        // this lane's columns; the quad's at the end
};

}  // namespace regatta::trainer::cuda
