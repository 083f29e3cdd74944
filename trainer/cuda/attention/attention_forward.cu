// Fused attention, forward, 16-bit types. For each head of each sample of length L, head size d:
//   s = q·kᵀ/√d;  lse = log Σ e^s;  out = (e^(s − lse) ∘ mask)·v
// qkv [T, 3h] → out [T, h], lse [H, T].
//
// Mapping: a warp holds 32 queries (16 for d = 128) in registers, as A fragments, and loops over
// the sample's keys in steps of 32 (64): scores by mma.sync with rows of K as B, exponentials, P
// rounded to 16 bits and used in place as the A fragment of P·V (attention_queries.cuh). K and V
// come in stages of 64 rows by cp.async, shared by the block's warps, swizzled (shared_tile.cuh).
// Two ways, which give the same bits since a warp does the same in both:
// * streamed: a block is (tile of queries, head); two stages, one barrier a stage, behind which the
//   stage that all warps are done with is refilled. Any length and head size.
// * resident: a block is (sample, head), d ≤ 64, L ≤ 512; there are as many stages as the sample
// has,
//   so K and V are read once. Warps meet at barriers while their first queries follow the stages
//   in, and then take one 32-row tile after the other, each at its own pace.
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
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "trainer/cuda/attention/attention_queries.cuh"
#include "trainer/cuda/attention/attention_work.h"
#include "trainer/cuda/kernels/launch.cuh"

namespace regatta::trainer::cuda {
namespace {

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

// A stage: kForwardKeys rows of K, and behind them those of V.
template <int kHead>
constexpr int kStageBytes = 2 * kForwardKeys* kHead * 2;
// The block copies keys and values from `key` on; zeros behind the sample's end. `keys`: of the
// sample's first token.
template <int kHead, typename T>
__device__ void fetch_stage(ptx::SharedAddress to, const T* keys, std::int64_t hidden, int key,
                            int length) {
  const T* from = keys + key * 3 * hidden;
  copy_tile<kHead>(to, from, 3 * hidden, kForwardKeys, length - key);
  copy_tile<kHead>(to + kStageBytes<kHead> / 2, from + hidden, 3 * hidden, kForwardKeys,
                   length - key);
}

template <typename T, int kHead, bool kDrop>
__global__ void __launch_bounds__(kForwardWarps * 32, 2)
    attention_forward_kernel(ForwardWork work) {
  constexpr int kWarpRows = kForwardRowsPerWarp<kHead>;
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
  const auto fetch = [&](ptx::SharedAddress to, int key) {
    fetch_stage<kHead>(to, first + work.hidden, work.hidden, key, tile.length);
  };
  // Groups of copies: the queries; the first stage; the second, if with it all keys are here.
  const bool resident = tile.length <= work.stages * kForwardKeys;
  copy_tile<kHead>(queries, first + tile.row * stride, stride, rows, tile.length - tile.row);
  ptx::copy_commit();
  fetch(buffer, 0);
  ptx::copy_commit();
  if (resident && tile.length > kForwardKeys) fetch(buffer + kStageBytes<kHead>, kForwardKeys);
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
  int to_other = kStageBytes<kHead>;  // from `buffer` to the other stage's
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
  if (active) mine.finish(work, tile, head, row);
}

// Waits until at most `open` groups of copies are open; waits for more than it must beyond kMost.
template <int kMost>
__device__ inline void wait_for_copies(int open) {
  if (open >= kMost) {
    ptx::copy_wait<kMost>();
  } else if constexpr (kMost > 0) {
    wait_for_copies<kMost - 1>(open);
  }
}

template <typename T, int kHead, bool kDrop>
__global__ void __launch_bounds__(kResidentForwardWarps * 32, 1)
    attention_forward_resident_kernel(ForwardWork work) {
  constexpr int kWarpRows = kForwardRowsPerWarp<kHead>;
  constexpr int kStages = static_cast<int>(kResidentForwardTokens) / kForwardKeys;
  const int head = static_cast<int>(blockIdx.x) % work.heads;
  const int index = static_cast<int>(blockIdx.x) / work.heads;
  if (index >= *work.count) return;
  const AttentionTile tile = work.tiles[index];
  if (tile.sample < 0) {
    write_zeros<T, kHead>(work, tile, head, static_cast<int>(kLengthLimit));
    return;
  }
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int stages = (tile.length + kForwardKeys - 1) / kForwardKeys;
  const std::int64_t stride = 3 * work.hidden;
  const T* first = static_cast<const T*>(work.qkv) + tile.begin * stride + head * kHead;
  const ptx::SharedAddress shared = ptx::shared_address(dynamic_shared());
  const ptx::SharedAddress queries = shared + warp * kWarpRows * kHead * 2;  // the warp's own
  const ptx::SharedAddress buffer = shared + warps * kWarpRows * kHead * 2;
  const auto fetch_queries = [&](int query) {
    copy_tile<kHead>(queries, first + query * stride, stride, kWarpRows, tile.length - query, lane,
                     32);
  };
  // Groups of copies: the warp's queries; a group a stage; the warp's next queries.
  int row = warp * kWarpRows;  // the warp's first, in its sample
  if (row < tile.length) fetch_queries(row);
  ptx::copy_commit();
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    fetch_stage<kHead>(buffer + stage * kStageBytes<kHead>, first + work.hidden, work.hidden,
                       stage * kForwardKeys, tile.length);
    ptx::copy_commit();
  }
  const SampleDraws draws(work.dropout,
                          kDrop ? static_cast<std::uint32_t>(work.ordinal[tile.begin]) : 0,
                          kDrop ? static_cast<std::uint32_t>(*work.step) : 0);
  wait_for_copies<kStages>(stages);
  bool arriving = true;  // keys and values, during the warp's first tile
#pragma unroll 1
  for (; arriving || row < tile.length; row += warps * kWarpRows) {
    const bool active = row < tile.length;
    __syncwarp();  // the queries are there for all lanes
    WarpQueries<T, kHead, kDrop> mine(queries);
    __syncwarp();  // and in registers
    const int next = row + warps * kWarpRows;
    if (next < tile.length) fetch_queries(next);
    ptx::copy_commit();
    std::uint32_t block =
        attention_draws_block(head, row + lane / 4, 0) + static_cast<std::uint32_t>(lane % 4);
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
      if (arriving) {
        wait_for_copies<kStages>(stages - stage);
        __syncthreads();
      }
      if (active) {
        mine.take(buffer + stage * kStageBytes<kHead>,
                  min(kForwardKeys, tile.length - stage * kForwardKeys), block, draws, work);
      }
      block += kForwardKeys / 8;
    }
    if (active) mine.finish(work, tile, head, row);
    ptx::copy_wait<0>();
    arriving = false;
  }
}

template <int kHead>
ForwardWork work_of(const device::AttentionForward& op, const TileList& list) {
  ForwardWork work{};
  work.qkv = op.qkv.data;
  work.out = op.out.data;
  work.lse = op.lse.floats();
  work.ordinal = op.tokens.ordinal.ints();
  work.step = op.tokens.step.ints();
  work.count = list.count;
  work.tiles = list.tiles;
  work.tokens = op.lse.size / op.heads;
  work.hidden = static_cast<std::int64_t>(op.heads) * kHead;
  work.heads = op.heads;
  work.scale = kLog2OfE / std::sqrt(static_cast<float>(kHead));
  work.dropout = attention_dropout_of(op.dropout);
  return work;
}

template <typename Kernel>
void start(const KernelLaunch& at, Kernel kernel, const AttentionForwardPlan& plan,
           const TileList& list, const ForwardWork& work) {
  launch(kernel, dim3(static_cast<unsigned>(list.bound * work.heads)),
         dim3(static_cast<unsigned>(plan.warps) * 32), static_cast<std::size_t>(plan.shared_bytes),
         at.stream, work);
}

template <typename T, int kHead>
void launch_streamed(const KernelLaunch& at, const device::AttentionForward& op,
                     const LengthClass& which) {
  const AttentionForwardPlan plan =
      forward_plan(kHead, which.longest(op.tokens.max_length), at.facts.shared_bytes);
  const TileList list =
      build_tiles(at, op.tokens.cumulative, op.lse.size / op.heads, plan.rows(), which);
  ForwardWork work = work_of<kHead>(op, list);
  work.stages = plan.stages;
  start(at,
        op.dropout.threshold == 0 ? attention_forward_kernel<T, kHead, false>
                                  : attention_forward_kernel<T, kHead, true>,
        plan, list, work);
}

template <typename T, int kHead>
void launch_resident(const KernelLaunch& at, const device::AttentionForward& op,
                     const LengthClass& which) {
  const AttentionForwardPlan plan =
      resident_forward_plan(kHead, which.longest(op.tokens.max_length), at.facts.shared_bytes);
  const TileList list = build_tiles(at, op.tokens.cumulative, op.lse.size / op.heads,
                                    static_cast<int>(kLengthLimit), which);
  start(at,
        op.dropout.threshold == 0 ? attention_forward_resident_kernel<T, kHead, false>
                                  : attention_forward_resident_kernel<T, kHead, true>,
        plan, list, work_of<kHead>(op, list));
}

// A sample goes one way or the other by its own length. Here that changes no bit, but a launch for
// the long ones is one more.
template <typename T, int kHead>
void launch_forward(const KernelLaunch& at, const device::AttentionForward& op,
                    const LengthClass& which, ForwardWay way) {
  const std::int64_t limit =
      way == ForwardWay::Resident ? resident_forward_limit(kHead, at.facts.shared_bytes) : 0;
  const bool some_are_short = which.longer_than < limit;
  if constexpr (kHead <= 64) {
    if (some_are_short) {
      launch_resident<T, kHead>(at, op,
                                {which.longer_than, std::min(which.up_to, limit), which.padding});
    }
  }
  if (which.longest(op.tokens.max_length) > limit || !some_are_short) {
    launch_streamed<T, kHead>(
        at, op,
        {std::max(which.longer_than, limit), which.up_to, which.padding && !some_are_short});
  }
}

}  // namespace

void attention_forward_class(const KernelLaunch& at, const device::AttentionForward& op,
                             const LengthClass& which, ForwardWay way) {
  const std::int64_t head_size = op.out.size / op.lse.size;
  base::check(attention_is_fused(op.out.dtype, head_size),
              "the fused attention has kernels for 16-bit types and head sizes 32, 64 and 128");
  const auto with_head = [&](auto type) {
    using T = decltype(type);
    if (head_size == 32) launch_forward<T, 32>(at, op, which, way);
    if (head_size == 64) launch_forward<T, 64>(at, op, which, way);
    if (head_size == 128) launch_forward<T, 128>(at, op, which, way);
  };
  if (op.out.dtype == device::Dtype::BFloat16) {
    with_head(bf16{});
  } else {
    with_head(fp16{});
  }
}

void attention_forward_fused(const KernelLaunch& at, const device::AttentionForward& op,
                             ForwardWay way) {
  attention_forward_class(at, op, LengthClass{}, way);
}

}  // namespace regatta::trainer::cuda
