// Fused attention, forward, 16-bit types. For each head of each sample of length L, head size d:
//   s = q·kᵀ/√d;  lse = log Σ e^s;  out = (e^(s − lse) ∘ mask)·v
// qkv [T, 3h] → out [T, h], lse [H, T].
//
// Mapping: a block is (tile of queries, head); a warp holds 32 queries (16 for d = 128) in
// registers, as A fragments, and loops over the sample's keys in steps of 32 (64): scores by
// mma.sync with rows of K as B, exponentials, P rounded to 16 bits and used in place as the A
// fragment of P·V. K and V come in stages of 64 rows by cp.async, shared by the block's warps,
// swizzled (shared_tile.cuh); one barrier a stage, behind which the stage that all warps are done
// with is refilled.
// Softmax is online but scales lazily: exponentials are taken relative to a reference of the row,
// and only when a score exceeds it by more than 8 in units of log 2 (after the first step: almost
// never) are reference, sum and outputs moved. The warp votes on it, so it depends on the sample
// alone. Relative to the reference exponentials stay below 2⁸: 16-bit P keeps its relative
// precision, and nothing overflows. The sum is over probabilities before dropout, in float32.
// Dropout: attention_dropout.cuh.
//
// Cost: 4·L²·d FLOP a head. Wikipedia's lengths (mean L² 98,826), d = 64, 16 heads: 405 MFLOP a
// sample and layer, 0.51 µs at 790 TFLOP/s. The floor is higher. Clocks of a multiprocessor for one
// score, d = 64: 0.125 of issue with dropout (16 instructions, an eighth of a philox call among
// them; without, 7), 0.06 for e^x (16 a clock), 0.06 for fragments from shared memory (two row
// tiles share them), and of tensor cores 0.06 at their peak, more with mma.sync, which Hopper does
// not run at its peak. Were all of it overlapped, 0.125 clocks a score would be 470 TFLOP/s, 0.85
// µs a sample and layer. Bytes: 8·T·h, 0.5 µs a sample at 4 TB/s, hidden; K and V are read again by
// each tile of a sample, from the second-level cache. Not measured. d = 64 takes 196 to 217
// registers, nothing spilled: two blocks a multiprocessor. Variants and why not: README.md,
// "Attention forward: ladder".
#include <cmath>
#include <cstdint>

#include "trainer/cuda/attention_dropout.cuh"
#include "trainer/cuda/attention_work.h"
#include "trainer/cuda/launch.cuh"
#include "trainer/cuda/numeric.cuh"
#include "trainer/cuda/ptx.cuh"
#include "trainer/cuda/shared_tile.cuh"

namespace regatta::trainer::cuda {
namespace {

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

  // Writes rows below `length`; `row` is the warp's first, out and lse belong to the sample's
  // first.
  __device__ void finish(int row, int length, float scale, T* out, std::int64_t hidden,
                         float* lse) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float total = sum_[r][h];
        total += __shfl_xor_sync(kAllLanes, total, 1);
        total += __shfl_xor_sync(kAllLanes, total, 2);
        const int mine = row + r * 16 + h * 8 + lane / 4;
        const bool inside = mine < length;
        if (inside && lane % 4 == 0) lse[mine] = reference_[r][h] * kLogOf2 + logf(total);
        const float factor = scale / total;
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
            *reinterpret_cast<uint4*>(out + mine * hidden + c * 32 + lane % 4 * 8) =
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

// Zeros for the tile's tokens, which belong to no sample.
template <typename T, int kHead>
__device__ void write_zeros(const ForwardWork& work, const AttentionTile& tile, int head,
                            int rows) {
  const int last = min(rows, tile.length - tile.row);
  const std::int64_t first = tile.begin + tile.row;
  T* out = static_cast<T*>(work.out) + first * work.hidden + head * kHead;
  for (int i = static_cast<int>(threadIdx.x); i < last * (kHead / 8);
       i += static_cast<int>(blockDim.x)) {
    *reinterpret_cast<uint4*>(out + i / (kHead / 8) * work.hidden + i % (kHead / 8) * 8) =
        make_uint4(0, 0, 0, 0);
  }
  for (int i = static_cast<int>(threadIdx.x); i < last; i += static_cast<int>(blockDim.x)) {
    work.lse[head * work.tokens + first + i] = 0;
  }
}

template <typename T, int kHead, bool kDrop>
__global__ void __launch_bounds__(kForwardWarps * 32, 2)
    attention_forward_kernel(ForwardWork work) {
  constexpr int kWarpRows = kForwardRowsPerWarp<kHead>;
  constexpr int kTileBytes = kForwardKeys * kHead * 2;  // K of a stage; V's lies behind it
  const int head = static_cast<int>(blockIdx.x) % work.heads;
  const int index = static_cast<int>(blockIdx.x) / work.heads;
  if (index >= *work.count) return;
  const AttentionTile tile = work.tiles[index];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int rows = static_cast<int>(blockDim.x) / 32 * kWarpRows;
  if (tile.sample < 0) {
    write_zeros<T, kHead>(work, tile, head, rows);
    return;
  }
  const std::int64_t stride = 3 * work.hidden;
  const T* first = static_cast<const T*>(work.qkv) + tile.begin * stride + head * kHead;
  const ptx::SharedAddress queries = ptx::shared_address(dynamic_shared());
  ptx::SharedAddress buffer = queries + rows * kHead * 2;
  // Keys and values from `key` on; zeros behind the sample's end.
  const auto fetch = [&](ptx::SharedAddress to, int key) {
    const T* keys = first + key * stride + work.hidden;
    copy_tile<kHead>(to, keys, stride, kForwardKeys, tile.length - key);
    copy_tile<kHead>(to + kTileBytes, keys + work.hidden, stride, kForwardKeys, tile.length - key);
  };
  // Groups of copies: the queries; the first stage; the second, if with it all keys are here.
  const bool resident = tile.length <= work.stages * kForwardKeys;
  copy_tile<kHead>(queries, first + tile.row * stride, stride, rows, tile.length - tile.row);
  ptx::copy_commit();
  fetch(buffer, 0);
  ptx::copy_commit();
  if (resident && tile.length > kForwardKeys) fetch(buffer + 2 * kTileBytes, kForwardKeys);
  ptx::copy_commit();

  const int row = tile.row + warp * kWarpRows;  // the warp's first, in its sample
  const bool active = row < tile.length;
  const SampleDraws draws(work.dropout,
                          kDrop ? static_cast<std::uint32_t>(work.ordinal[tile.begin]) : 0,
                          kDrop ? static_cast<std::uint32_t>(*work.step) : 0);
  std::uint32_t block =
      attention_draws_block(head, row + lane / 4, 0) + static_cast<std::uint32_t>(lane % 4);
  ptx::copy_wait<2>();
  __syncthreads();
  WarpQueries<T, kHead, kDrop> mine(queries + warp * kWarpRows * kHead * 2);
  int to_other = 2 * kTileBytes;  // from `buffer` to the other stage's
#pragma unroll 1
  for (int key = 0; key < tile.length; key += kForwardKeys) {
    const bool more = key + kForwardKeys < tile.length;
    if (resident && more) {
      ptx::copy_wait<1>();
    } else {
      ptx::copy_wait<0>();
    }
    // Every thread's copies are there, and no warp reads the other buffer any more.
    __syncthreads();
    if (!resident && more) {
      fetch(buffer + to_other, key + kForwardKeys);
      ptx::copy_commit();
    }
    if (active) mine.take(buffer, min(kForwardKeys, tile.length - key), block, draws, work);
    block += kForwardKeys / 8;
    buffer += to_other;
    to_other = -to_other;
  }
  if (active) {
    mine.finish(row, tile.length, work.dropout.scale,
                static_cast<T*>(work.out) + tile.begin * work.hidden + head * kHead, work.hidden,
                work.lse + head * work.tokens + tile.begin);
  }
}

template <typename T, int kHead>
void launch_forward(const Launch& at, const AttentionForward& op, const LengthClass& which) {
  const std::int64_t tokens = op.lse.size / op.heads;
  const AttentionForwardPlan plan =
      forward_plan(kHead, which.longest(op.tokens.max_length), at.facts.shared_bytes);
  const TileList list = build_tiles(at, op.tokens.cumulative, tokens, plan.rows(), which);
  ForwardWork work{};
  work.qkv = op.qkv.data;
  work.out = op.out.data;
  work.lse = op.lse.floats();
  work.ordinal = op.tokens.ordinal.ints();
  work.step = op.tokens.step.ints();
  work.count = list.count;
  work.tiles = list.tiles;
  work.tokens = tokens;
  work.hidden = static_cast<std::int64_t>(op.heads) * kHead;
  work.heads = op.heads;
  work.stages = plan.stages;
  work.scale = kLog2OfE / std::sqrt(static_cast<float>(kHead));
  work.dropout = attention_dropout_of(op.dropout);
  launch(op.dropout.threshold == 0 ? attention_forward_kernel<T, kHead, false>
                                   : attention_forward_kernel<T, kHead, true>,
         dim3(static_cast<unsigned>(list.bound * op.heads)),
         dim3(static_cast<unsigned>(plan.warps) * 32), static_cast<std::size_t>(plan.shared_bytes),
         at.stream, work);
}

template <typename T>
void launch_forward(const Launch& at, const AttentionForward& op, const LengthClass& which) {
  switch (op.out.size / (op.lse.size / op.heads) / op.heads) {
    case 32:
      launch_forward<T, 32>(at, op, which);
      return;
    case 64:
      launch_forward<T, 64>(at, op, which);
      return;
    case 128:
      launch_forward<T, 128>(at, op, which);
      return;
    default:
      base::check(false, "fused attention has head sizes 32, 64 and 128");
  }
}

}  // namespace

void attention_forward_class(const Launch& at, const AttentionForward& op,
                             const LengthClass& which) {
  if (op.qkv.dtype == Dtype::BFloat16) {
    launch_forward<bf16>(at, op, which);
  } else {
    base::check(op.qkv.dtype == Dtype::Float16, "fused attention computes in 16 bits");
    launch_forward<fp16>(at, op, which);
  }
}

void attention_forward_fused(const Launch& at, const AttentionForward& op) {
  attention_forward_class(at, op, LengthClass{});
}

}  // namespace regatta::trainer::cuda
