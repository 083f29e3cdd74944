// What the fused attention kernels of one batch share: the list of tiles, made on the device, and
// the launches restricted to a class of lengths that attention_grouped.cc puts side by side.
#pragma once

#include "trainer/cuda/attention/attention_tiles.h"
#include "trainer/cuda/kernels/kernels.h"

namespace regatta::trainer::cuda {

// Lies at the front of the scratch that build_tiles was given.
struct TileList {
  const std::int32_t* count = nullptr;  // on the device: tiles of this batch
  const AttentionTile* tiles = nullptr;
  std::int64_t bound = 0;  // the count is never larger: the size of a grid
  std::int64_t bytes = 0;  // used of the scratch; a multiple of 256
};

// Enqueues the making of the list of tiles of `rows` rows of the class's samples, longest samples
// first (a sample's tiles together, equal lengths in batch order), then the padding's tiles.
// `tokens` is T. With more than kSortedSamples samples the order is the batch's.
TileList build_tiles(const KernelLaunch& at, const device::View& cumulative, std::int64_t tokens,
                     int rows, const LengthClass& which);
constexpr int kSortedSamples = 8192;

// attention_forward.cu, attention_backward.cu: the same bits for a token whatever class it is
// launched with, and forward whichever way.
void attention_forward_class(const KernelLaunch& at, const device::AttentionForward& op,
                             const LengthClass& which, ForwardWay way);
void attention_backward_class(const KernelLaunch& at, const device::AttentionBackward& op,
                              const LengthClass& which);

}  // namespace regatta::trainer::cuda
