// Attention, backward, with Hopper's warpgroup products (wgmma.cuh): bfloat16 and float16, heads of
// d = 64, samples of which one block has room for the float32 dq of all queries (512 tokens).
// Formula and roundings are those of attention_backward.cu, and so is the walk of resident_kernel:
// tiles of 128 keys, for each all tiles of 128 queries. Two warpgroups of 128 threads, one barrier
// behind each of two phases:
//   keys     warpgroup w has 64 keys of the tile and takes the queries 64 at a time.
//            sᵀ = k·qᵀ and dpᵀ = v·doutᵀ, both sides from shared memory (Major::K); masks are drawn
//            meanwhile. Rows of sᵀ are keys, so p and ds, packed, are left sides in registers:
//            dv += p·dout, dk += ds·q, with dout and q read where their rows are k (Major::Outer).
//            dsᵀ goes to shared memory by stmatrix, 64 queries to a 128-byte row.
//   queries  warpgroup w has 64 queries of the tile: dq += ds·k, both sides Major::Outer; the next
//            q and dout arrive meanwhile. The sums wait in shared memory as 16-byte pieces of the
//            thread that made them, as there.
// One kind of tile serves all seven operands: nothing is stored transposed or twice. A warpgroup
// has its keys for itself, so that dk and dv are added up in its registers alone.
//
// Shared memory at L tokens, rounded up to 128: k, v, q, dout 64 KiB, dsᵀ 32 KiB, lse 512 bytes, D
// 4·L, dq 256·L (none for one tile): 226.5 KiB at 512. Registers: sums s, dp, dk, dv 128, p and ds
// packed 32, the rest draws and addresses; 218 of 255 on sm_90a for both types, no spills, and
// ptxas serialises no product (it says so with C7510). One block of 8 warps a multiprocessor, as
// there.
//
// Cycles of a multiprocessor for 64 × 64 scores, d = 64, on an H200: products 20 · 32 = 640 (2,048
// multiply-adds a cycle). Shared memory at 128 bytes a cycle, KiB: s and dp 16 each, dv and dk 8
// each, dsᵀ stored 8, dq 16, its sums at most 16: 88, 704 cycles, for 160 KiB and 1,280 cycles of
// resident_kernel; lse, D and arriving tiles, which neither count has, are 16 more. It assumes that
// hardware reads each operand once per product. Issue, by the count in README.md without products
// and fragments: 16 a score and lane with dropout, 512 cycles. The three overlap in part: 1,000 to
// 1,400 cycles, 400 to 600 TFLOP/s, are hoped for. Not measured.
//
// Next to try: k and v as left sides in registers, loaded once a tile of keys: 16 KiB a pair less
// (72, 576 cycles), 242 registers and no spills when compiled so. Rejected: 128 queries a product
// (s and dp alone are then 128 registers); a warpgroup that only copies (bulk copies take boxes of
// 64 rows, samples begin anywhere; cp.async is not what limits); dq beside the next tile's scores
// (32 KiB more, which 512 tokens do not have).
//
// What only hardware can tell: whether the descriptors' fields are as the PTX ISA is read here
// (above all Major::Outer, whose leading offset we take for unused); whether proxy fence, barrier,
// product is enough between stmatrix or cp.async and wgmma; speed.
#include "trainer/cuda/attention/attention_backward_wgmma.cuh"
#include "trainer/cuda/attention/attention_wgmma.h"
#include "trainer/cuda/kernels/launch.cuh"

namespace regatta::trainer::cuda {
namespace {

using namespace gradient;  // NOLINT(google-build-using-namespace): the kernels' own

template <typename T>
void launch_wgmma(const KernelLaunch& at, const device::AttentionBackward& op,
                  const LengthClass& which) {
  Work<T> work = work_of<T>(op);
  const TileList list =
      build_tiles(at, op.tokens.cumulative, work.tokens, static_cast<int>(kLengthLimit), which);
  work.count = list.count;
  work.tiles = list.tiles;
  const auto longest = static_cast<int>(which.longest(op.tokens.max_length));
  const int rows = (longest + kTile - 1) / kTile * kTile;
  launch(wgmma_kernel<T>, dim3(static_cast<unsigned>(list.bound * op.heads)), dim3(kThreads),
         static_cast<std::size_t>(ResidentLayout<wgmma::kSide>::bytes(rows)), at.stream, work);
}

}  // namespace

bool attention_backward_has_wgmma(const DeviceFacts& facts, device::Dtype dtype,
                                  std::int64_t head_size) {
  return facts.architecture == 90 && head_size == wgmma::kSide &&
         (dtype == device::Dtype::BFloat16 || dtype == device::Dtype::Float16) &&
         attention_backward_wgmma_limit(facts) > 0;
}

std::int64_t attention_backward_wgmma_limit(const DeviceFacts& facts) {
  return resident_limit<wgmma::kSide>(facts.shared_bytes);
}

void attention_backward_wgmma(const KernelLaunch& at, const device::AttentionBackward& op,
                              const LengthClass& which) {
  base::check(attention_backward_has_wgmma(at.facts, op.out.dtype, op.out.size / op.lse.size),
              "wgmma kernels are for compute capability 9.0, 16-bit types and heads of 64");
  base::check(which.longest(op.tokens.max_length) <= attention_backward_wgmma_limit(at.facts),
              "a block has room for all of a head of the samples that the wgmma kernel gets");
  if (op.out.dtype == device::Dtype::BFloat16) {
    launch_wgmma<bf16>(at, op, which);
  } else {
    launch_wgmma<fp16>(at, op, which);
  }
}

void attention_backward_mostly_wgmma(const KernelLaunch& at, const device::AttentionBackward& op) {
  const std::int64_t limit = attention_backward_wgmma_limit(at.facts);
  attention_backward_wgmma(at, op, {0, limit, true});
  if (op.tokens.max_length > limit) {
    attention_backward_class(at, op, {limit, kLengthLimit - 1, false});
  }
}

}  // namespace regatta::trainer::cuda
