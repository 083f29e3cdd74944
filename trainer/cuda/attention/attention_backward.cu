// Attention, backward, on tensor cores: bfloat16 and float16, heads of d = 32, 64 or 128, samples
// of any length. Of one head of one sample of length L (trainer/device/device.h has the layouts):
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
// what they are expected to cost: trainer/cuda/attention/README.md.
#include <algorithm>

#include "trainer/cuda/attention/attention_resident.cuh"
#include "trainer/cuda/attention/attention_streamed.cuh"
#include "trainer/cuda/attention/attention_work.h"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/kernels/launch.cuh"

namespace regatta::trainer::cuda {
namespace {

using namespace gradient;  // NOLINT(google-build-using-namespace): the kernels' own

template <typename T, int kHead>
void launch_resident(const KernelLaunch& at, const device::AttentionBackward& op,
                     const LengthClass& which) {
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
void launch_long(const KernelLaunch& at, const device::AttentionBackward& op,
                 const LengthClass& which) {
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
void launch_both(const KernelLaunch& at, const device::AttentionBackward& op,
                 const LengthClass& which) {
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

void attention_backward_class(const KernelLaunch& at, const device::AttentionBackward& op,
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
  if (op.out.dtype == device::Dtype::BFloat16) {
    with_head(bf16{});
  } else {
    with_head(fp16{});
  }
}

void attention_backward_fused(const KernelLaunch& at, const device::AttentionBackward& op) {
  attention_backward_class(at, op, LengthClass{});
}

}  // namespace regatta::trainer::cuda
