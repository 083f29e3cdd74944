// Attention, backward, on tensor cores: bfloat16 and float16, heads of d = 32, 64 or 128, samples
// of any length. Of one head of one sample of length L (trainer/device.h has the layouts):
//   p = e^(q·kᵀ/√d − lse);  D_i = dout_i·out_i;  ds = p∘((dout·vᵀ)∘mask − D)
//   dv = (p∘mask)ᵀ·dout;  dq = ds·k/√d;  dk = dsᵀ·q/√d
// p and ds are rounded to 16 bits before they are multiplied again, all sums are float32 in a fixed
// order without atomics, masks are drawn again. Factors common to a sum (dropout's scale in dv,
// 1/√d in dq and dk) are applied to the sum.
//
// Which way a sample goes depends on its own length and the architecture only:
// * resident_kernel, d ≤ 64, while one block has room for the float32 dq of all its queries: L ≤
// 512
//   of 64 on Hopper's 227 KiB, 256 on A100's 163 KiB. A block takes one head of one sample and
//   walks over tiles of 128 keys, and for each over all tiles of 128 queries, whose q and dout it
//   copies in (from L2, after the first tile) while dq of the tile before is made. Eight warps:
//   warp (pair, half) makes scores of keys 32·pair … + 31 and of queries 32·half and 64 + 32·half …
//   + 31 of the tile. Rows of scores are keys, so p and ds leave the accumulators as left sides of
//   the products for dv and dk, which stay in 128 registers a lane; only dsᵀ goes through shared
//   memory, to the same warps in another order for dq: queries 32·pair, half of the columns. The
//   two halves' dk and dv are added at the end of the tile of keys.
// * query_kernel, then key_kernel: a block takes 128 (64 if d = 128) queries, or keys, and streams
//   the other side by, 64 rows at a time in two stages. Scores are made twice: 14·L²·d FLOP.
//
// 10·L²·d FLOP, 16·L·d bytes. A batch of 56 samples with Σ L = 14,200, Σ L² = 5.5e6, h = 1,024: 57
// GFLOP, 72 µs at 790 TFLOP/s; 233 MB, 58 µs at 4.0 TB/s. What a block of resident_kernel can reach
// is set by shared memory. For 64 × 64 scores of d = 64, in KiB through 128 bytes a cycle: q, k, v,
// dout as operands 96, dsᵀ stored 8 and loaded for dq with k 32, dq's float32 sums at most 16
// (16-byte pieces of one thread each, no conflicts, none if L ≤ 128), dk and dv of the halves 8:
// 160 KiB, 1,280 cycles. The 640 mma.sync take 640 at wgmma's rate and about 1,000 at the 0.6 of it
// that mma.sync is said to reach; about 900 go to each scheduler's instructions, a third of them
// philox. So 1,500 to 2,000 cycles, 300 TFLOP/s, are hoped for. Not measured. Alternatives, with
// what they are expected to cost: trainer/cuda/README.md.
#include <algorithm>
#include <cmath>

#include "trainer/cuda/attention_gradient.cuh"
#include "trainer/cuda/attention_work.h"
#include "trainer/cuda/kernels.h"
#include "trainer/cuda/launch.cuh"

namespace regatta::trainer::cuda {
namespace {

using namespace gradient;  // NOLINT: the pieces of these kernels

// What all kernels take. T is the activations' type.
template <typename T>
struct Work {
  int tokens = 0, heads = 0;
  float scale = 1;                      // 1/√d
  float factor = 1;                     // log₂e/√d
  const std::int32_t* count = nullptr;  // of tiles
  const AttentionTile* tiles = nullptr;
  const std::int32_t* ordinal = nullptr;  // read only with dropout on, like step
  const std::int32_t* step = nullptr;
  AttentionDropout dropout;
  const T* qkv = nullptr;
  const T* out = nullptr;
  const T* dout = nullptr;
  const float* lse = nullptr;
  T* dqkv = nullptr;
  float* inner = nullptr;  // D [H, T], from the dq kernel to the other
};

// One head of one sample (or of the padding) and where its rows are.
template <typename T, int kHead>
struct Head {
  const Work<T>& work;
  AttentionTile tile;
  int head = 0;
  bool exists = false;

  __device__ explicit Head(const Work<T>& work_in) : work(work_in) {
    const int index = static_cast<int>(blockIdx.x) / work.heads;
    head = static_cast<int>(blockIdx.x) % work.heads;
    exists = index < *work.count;
    if (exists) tile = work.tiles[index];
  }
  [[nodiscard]] __device__ std::int64_t hidden() const {
    return static_cast<std::int64_t>(work.heads) * kHead;
  }
  [[nodiscard]] __device__ std::int64_t qkv_stride() const { return 3 * hidden(); }
  // Row of query, key or value (0, 1, 2).
  template <typename U>
  [[nodiscard]] __device__ U* qkv(U* base, int which, int row) const {
    return base + (tile.begin + row) * qkv_stride() + which * hidden() + head * kHead;
  }
  // Row of out or dout; rows are hidden() apart.
  [[nodiscard]] __device__ const T* out(const T* base, int row) const {
    return base + (tile.begin + row) * hidden() + head * kHead;
  }
  // Index of a row's lse or D.
  [[nodiscard]] __device__ std::int64_t statistic(int row) const {
    return static_cast<std::int64_t>(head) * work.tokens + tile.begin + row;
  }
  // Of query `row`, base 2; +∞ behind the sample's end.
  [[nodiscard]] __device__ float lse(int row) const {
    return row < tile.length ? work.lse[statistic(row)] * kLog2E : INFINITY;
  }
  [[nodiscard]] __device__ SampleDraws draws() const {
    if (work.dropout.bar == 0) return SampleDraws(work.dropout, 0, 0);
    return SampleDraws(work.dropout, static_cast<std::uint32_t>(work.ordinal[tile.begin]),
                       static_cast<std::uint32_t>(*work.step));
  }
};

// Zeros for this head in `rows` rows of the padding.
template <typename T, int kHead>
__device__ void zero_rows(const Work<T>& work, const Head<T, kHead>& at, int rows) {
  constexpr int kPieces = 3 * kHead / 8;
  const int count = min(rows, at.tile.length - at.tile.row);
  for (int i = static_cast<int>(threadIdx.x); i < count * kPieces;
       i += static_cast<int>(blockDim.x)) {
    const int piece = i % kPieces;
    T* to = at.qkv(work.dqkv, piece / (kHead / 8), at.tile.row + i / kPieces);
    *reinterpret_cast<uint4*>(to + piece % (kHead / 8) * 8) = make_uint4(0, 0, 0, 0);
  }
}

__device__ constexpr int up_to_step(int rows) { return (rows + kStep - 1) / kStep * kStep; }

// --- Short samples: one block has all of one head.

constexpr int kThreads = 256;
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

template <typename T, int kHead>
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
                     up_to_step(rows), rows);
  }
  __device__ void copy_queries(int tile) const {
    copy_qkv(0, Layout::kQuery, tile);
    const int rows = rows_of(tile);
    copy_tile<kHead>(shared + Layout::kDout, at.out(work.dout, tile * kTile), at.hidden(),
                     up_to_step(rows), rows);
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

// --- Long samples: dq, then dk and dv, each with a block for every tile of rows.

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

// --- Host

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

template <typename T>
Work<T> work_of(const AttentionBackward& op) {
  Work<T> work;
  work.tokens = static_cast<int>(op.lse.size / op.heads);
  work.heads = op.heads;
  work.scale = 1.0F / std::sqrt(static_cast<float>(op.out.size / op.lse.size));
  work.factor = work.scale * kLog2E;
  work.ordinal = op.tokens.ordinal.ints();
  work.step = op.tokens.step.ints();
  work.dropout = attention_dropout_of(op.dropout);
  work.qkv = data_of<const T>(op.qkv);
  work.out = data_of<const T>(op.out);
  work.dout = data_of<const T>(op.dout);
  work.lse = op.lse.floats();
  work.dqkv = data_of<T>(op.dqkv);
  return work;
}

template <typename T, int kHead>
void launch_resident(const Launch& at, const AttentionBackward& op, const LengthClass& which) {
  Work<T> work = work_of<T>(op);
  const TileList list =
      build_tiles(at, op.tokens.cumulative, work.tokens, static_cast<int>(kLengthLimit), which);
  work.count = list.count;
  work.tiles = list.tiles;
  const auto longest = static_cast<int>(which.longest(op.tokens.max_length));
  const int rows = (longest + kTile - 1) / kTile * kTile;
  launch(resident_kernel<T, kHead>, dim3(static_cast<unsigned>(list.bound * op.heads)),
         dim3(kThreads), static_cast<std::size_t>(ResidentLayout<kHead>::bytes(rows)), at.stream,
         work);
}

template <typename T, int kHead>
void launch_long(const Launch& at, const AttentionBackward& op, const LengthClass& which) {
  Work<T> work = work_of<T>(op);
  const TileList list = build_tiles(at, op.tokens.cumulative, work.tokens, kOwned<kHead>, which);
  work.count = list.count;
  work.tiles = list.tiles;
  work.inner = reinterpret_cast<float*>(static_cast<unsigned char*>(at.scratch) + list.bytes);
  base::check(list.bytes + op.lse.size * 4 <= at.scratch_bytes,
              "attention's row products fit into the scratch");
  const dim3 grid(static_cast<unsigned>(list.bound * op.heads));
  constexpr auto kBytes = static_cast<std::size_t>(LongLayout<kHead>::kBytes);
  launch(query_kernel<T, kHead>, grid, dim3(kQueryThreads), kBytes, at.stream, work);
  launch(key_kernel<T, kHead>, grid, dim3(kThreads), kBytes, at.stream, work);
}

// A sample goes one way or the other by its own length, whatever it shares a batch with.
template <typename T, int kHead>
void launch_both(const Launch& at, const AttentionBackward& op, const LengthClass& which) {
  const std::int64_t limit = resident_limit<kHead>(at.facts.shared_bytes);
  const std::int64_t longest = which.longest(op.tokens.max_length);
  const bool some_are_short = which.longer_than < limit;
  if constexpr (kHead <= 64) {
    if (some_are_short) {
      launch_resident<T, kHead>(at, op,
                                {which.longer_than, std::min(which.up_to, limit), which.padding});
    }
  }
  if (longest > limit || !some_are_short) {
    launch_long<T, kHead>(
        at, op,
        {std::max(which.longer_than, limit), which.up_to, which.padding && !some_are_short});
  }
}

}  // namespace

void attention_backward_class(const Launch& at, const AttentionBackward& op,
                              const LengthClass& which) {
  const std::int64_t head_size = op.out.size / op.lse.size;
  base::check(attention_is_fused(op.out.dtype, head_size),
              "the fused attention has kernels for 16-bit types and head sizes 32, 64 and 128");
  const auto with_head = [&](auto type) {
    using T = decltype(type);
    if (head_size == 32) launch_both<T, 32>(at, op, which);
    if (head_size == 64) launch_both<T, 64>(at, op, which);
    if (head_size == 128) launch_both<T, 128>(at, op, which);
  };
  if (op.out.dtype == Dtype::BFloat16) {
    with_head(bf16{});
  } else {
    with_head(fp16{});
  }
}

void attention_backward_fused(const Launch& at, const AttentionBackward& op) {
  attention_backward_class(at, op, LengthClass{});
}

}  // namespace regatta::trainer::cuda
