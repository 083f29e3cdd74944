#include "trainer/cuda/attention/attention_tiles.h"

#include <algorithm>

#include "base/error.h"
#include "trainer/cuda/kernels/kernels.h"

namespace regatta::trainer::cuda {

bool attention_is_fused(device::Dtype dtype, std::int64_t head_size) {
  const bool sixteen_bit = dtype == device::Dtype::BFloat16 || dtype == device::Dtype::Float16;
  return sixteen_bit && (head_size == 32 || head_size == 64 || head_size == 128);
}

std::int64_t tile_bound(std::int64_t tokens, std::int64_t samples, std::int64_t rows,
                        const LengthClass& which) {
  base::check(tokens >= 0 && samples >= 0 && rows > 0, "a tile has rows, a batch has sizes");
  // A sample of the class has more than longer_than tokens, which bounds how many there are.
  const std::int64_t most = std::min(samples, tokens / (which.longer_than + 1));
  // Pieces that fill their tiles but for one tile each: a sample, and the padding.
  const std::int64_t pieces = most + (which.padding ? 1 : 0);
  const std::int64_t by_tokens = tokens / rows + pieces;
  // Each sample has at most so many tiles of its own.
  const std::int64_t by_samples =
      most * ((which.up_to + rows - 1) / rows) + (which.padding ? (tokens + rows - 1) / rows : 0);
  return std::min({by_tokens, by_samples, tokens});
}

std::int64_t tile_list_bytes(std::int64_t tiles) {
  const auto bytes = (tiles + 1) * static_cast<std::int64_t>(sizeof(AttentionTile));
  return (bytes + 255) / 256 * 256;
}

AttentionForwardPlan forward_plan(std::int64_t head_size, std::int64_t max_length,
                                  std::int64_t shared_bytes) {
  base::check(head_size == 32 || head_size == 64 || head_size == 128,
              "the fused attention has kernels for head sizes 32, 64 and 128");
  AttentionForwardPlan plan;
  plan.rows_per_warp = head_size == 128 ? kForwardRowsPerWarp<128> : kForwardRowsPerWarp<64>;
  const std::int64_t length = std::max<std::int64_t>(1, max_length);
  // Short batches: no more warps than have rows, no more stages than have keys.
  plan.warps = static_cast<int>(std::min<std::int64_t>(
      kForwardWarps, (length + plan.rows_per_warp - 1) / plan.rows_per_warp));
  plan.keys = kForwardKeys;
  plan.stages = length <= plan.keys ? 1 : 2;
  const std::int64_t row_bytes = head_size * 2;
  plan.shared_bytes = (plan.rows() + plan.stages * 2 * plan.keys) * row_bytes;
  base::check(plan.shared_bytes <= shared_bytes, "a block may have the shared memory it needs");
  return plan;
}

namespace {

AttentionForwardPlan resident_plan_of(std::int64_t head_size, std::int64_t max_length, int warps) {
  AttentionForwardPlan plan;
  plan.rows_per_warp = kForwardRowsPerWarp<64>;
  const std::int64_t length = std::max<std::int64_t>(1, max_length);
  // No more warps than have rows.
  plan.warps = static_cast<int>(
      std::min<std::int64_t>(warps, (length + plan.rows_per_warp - 1) / plan.rows_per_warp));
  plan.keys = kForwardKeys;
  plan.stages = static_cast<int>((length + plan.keys - 1) / plan.keys);
  plan.shared_bytes = (plan.rows() + plan.stages * 2 * plan.keys) * head_size * 2;
  return plan;
}

}  // namespace

std::int64_t resident_forward_limit(std::int64_t head_size, std::int64_t shared_bytes) {
  if (head_size > 64) return 0;
  std::int64_t limit = kResidentForwardTokens;
  while (limit > 0 &&
         resident_plan_of(head_size, limit, kResidentForwardWarps).shared_bytes > shared_bytes) {
    limit -= kForwardKeys;
  }
  return limit;
}

AttentionForwardPlan resident_forward_plan(std::int64_t head_size, std::int64_t max_length,
                                           std::int64_t shared_bytes) {
  base::check(max_length <= resident_forward_limit(head_size, shared_bytes),
              "a block may have the shared memory for all keys and values of a sample");
  // A block reserves 1 KiB for itself, and a multiprocessor has 1 KiB more than a block may ask
  // for.
  constexpr std::int64_t kReserved = 1024;
  const AttentionForwardPlan small =
      resident_plan_of(head_size, max_length, kResidentForwardWarps / 2);
  if (2 * (small.shared_bytes + kReserved) <= shared_bytes + kReserved) return small;
  return resident_plan_of(head_size, max_length, kResidentForwardWarps);
}

}  // namespace regatta::trainer::cuda
