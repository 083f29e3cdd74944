// Attention, backward, with Hopper's warpgroup products (wgmma.cuh).
#include <algorithm>
#include <cmath>

#include "trainer/cuda/attention_wgmma.cuh"
#include "trainer/cuda/attention_wgmma.h"
#include "trainer/cuda/launch.cuh"

namespace regatta::trainer::cuda {
namespace {

using namespace gradient;  // NOLINT(google-build-using-namespace): the kernels' own

template <typename T>
void launch_wgmma(const Launch& at, const AttentionBackward& op, const LengthClass& which) {
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

bool attention_backward_has_wgmma(const DeviceFacts& facts, Dtype dtype, std::int64_t head_size) {
  return facts.architecture == 90 && head_size == wgmma::kSide &&
         (dtype == Dtype::BFloat16 || dtype == Dtype::Float16) &&
         attention_backward_wgmma_limit(facts) > 0;
}

std::int64_t attention_backward_wgmma_limit(const DeviceFacts& facts) {
  return resident_limit<wgmma::kSide>(facts.shared_bytes);
}

void attention_backward_wgmma(const Launch& at, const AttentionBackward& op,
                              const LengthClass& which) {
  base::check(attention_backward_has_wgmma(at.facts, op.out.dtype, op.out.size / op.lse.size),
              "wgmma kernels are for compute capability 9.0, 16-bit types and heads of 64");
  base::check(which.longest(op.tokens.max_length) <= attention_backward_wgmma_limit(at.facts),
              "a block has room for all of a head of the samples that the wgmma kernel gets");
  if (op.out.dtype == Dtype::BFloat16) {
    launch_wgmma<bf16>(at, op, which);
  } else {
    launch_wgmma<fp16>(at, op, which);
  }
}

}  // namespace regatta::trainer::cuda
