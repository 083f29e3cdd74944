// The list of attention tiles of a batch, made on the device because a captured graph is replayed
// for batches of other lengths.
//
// One block. Keys (limit − length, index) are sorted in shared memory by a bitonic network, so that
// longest samples come first: blocks are started in list order, and scheduling the longest work
// first keeps the last wave short (longest-processing-time rule, at most 4/3 of the optimum). Then
// a prefix sum of tiles per sample says where each writes. B·log²(B)/4 compare-exchanges: 28
// passes, some microseconds, for 128 samples; B ≤ 8192. Not measured. Rejected: a sort on the host
// (the graph would need another input per batch) and a global atomic queue (its order varies).
#include <cstdint>

#include "trainer/cuda/attention/attention_work.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::trainer::cuda {
namespace {

constexpr int kThreads = 512;
constexpr std::uint32_t kIndexBits = 16;
static_assert(kSortedSamples <= 1 << kIndexBits);

struct BuildTiles {
  const std::int32_t* cumulative;
  std::int32_t samples;
  std::int32_t tokens;
  std::int32_t rows;
  std::int32_t longer_than, up_to;
  std::int32_t sorted;  // entries of the network: a power of two ≥ samples; 0: no sorting
  bool padding;
  std::int32_t* count;
  AttentionTile* tiles;
};

__device__ void sort_ascending(std::uint32_t* keys, int count) {
  for (int size = 2; size <= count; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < count / 2; pair += kThreads) {
        // The lower index of the pair-th couple that is `distance` apart.
        const int low = pair / distance * 2 * distance + pair % distance;
        const bool ascending = (low & size) == 0;
        const std::uint32_t a = keys[low];
        const std::uint32_t b = keys[low + distance];
        if ((a > b) == ascending) {
          keys[low] = b;
          keys[low + distance] = a;
        }
      }
    }
  }
  __syncthreads();
}

// Sum over the threads before this one; *total is that over all.
__device__ int exclusive_sum(int x, int* partial, int* total) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int inclusive = x;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(kAllLanes, inclusive, static_cast<unsigned>(step));
    if (lane >= step) inclusive += before;
  }
  if (lane == 31) partial[warp] = inclusive;
  __syncthreads();
  int sum = 0;
  int all = 0;
  for (int i = 0; i < kThreads / 32; ++i) {
    if (i < warp) sum += partial[i];
    all += partial[i];
  }
  *total = all;
  return sum + inclusive - x;
}

__global__ void __launch_bounds__(kThreads) build_tiles_kernel(BuildTiles work) {
  __shared__ int partial[kThreads / 32];
  auto* keys = reinterpret_cast<std::uint32_t*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < work.sorted; i += kThreads) {
    std::uint32_t key = 0xFFFFFFFFU;
    if (i < work.samples) {
      const int length = work.cumulative[i + 1] - work.cumulative[i];
      key = static_cast<std::uint32_t>(static_cast<int>(kLengthLimit) - length) << kIndexBits |
            static_cast<std::uint32_t>(i);
    }
    keys[i] = key;
  }
  if (work.sorted > 0) sort_ascending(keys, work.sorted);

  const auto sample_at = [&](int place) {
    return work.sorted > 0 ? static_cast<int>(keys[place] & ((1U << kIndexBits) - 1)) : place;
  };
  const auto tiles_of = [&](int sample) {
    const int length = work.cumulative[sample + 1] - work.cumulative[sample];
    if (length <= work.longer_than || length > work.up_to) return 0;
    return (length + work.rows - 1) / work.rows;
  };
  const int share = (work.samples + kThreads - 1) / kThreads;
  const int first = min(thread * share, work.samples);
  const int last = min(first + share, work.samples);
  int mine = 0;
  for (int place = first; place < last; ++place) mine += tiles_of(sample_at(place));
  int total = 0;
  int at = exclusive_sum(mine, partial, &total);
  for (int place = first; place < last; ++place) {
    const int sample = sample_at(place);
    const int begin = work.cumulative[sample];
    const int length = work.cumulative[sample + 1] - begin;
    const int count = tiles_of(sample);
    for (int i = 0; i < count; ++i) work.tiles[at + i] = {begin, length, i * work.rows, sample};
    at += count;
  }
  const int end = work.cumulative[work.samples];
  const int loose = work.padding ? work.tokens - end : 0;
  const int loose_tiles = (loose + work.rows - 1) / work.rows;
  for (int i = thread; i < loose_tiles; i += kThreads) {
    work.tiles[total + i] = {end, loose, i * work.rows, -1};
  }
  if (thread == 0) *work.count = total + loose_tiles;
}

}  // namespace

TileList build_tiles(const KernelLaunch& at, const device::View& cumulative, std::int64_t tokens,
                     int rows, const LengthClass& which) {
  TileList list;
  const std::int64_t samples = cumulative.size - 1;
  list.bound = tile_bound(tokens, samples, rows, which);
  list.bytes = tile_list_bytes(list.bound);
  base::check(list.bytes <= at.scratch_bytes, "the list of attention tiles fits into the scratch");
  auto* tiles = static_cast<AttentionTile*>(at.scratch);
  auto* count = reinterpret_cast<std::int32_t*>(tiles + list.bound);
  list.tiles = tiles;
  list.count = count;
  if (list.bound == 0) return list;
  int sorted = 2;
  while (sorted < samples && sorted <= kSortedSamples) sorted *= 2;
  if (sorted > kSortedSamples) sorted = 0;
  const BuildTiles work{cumulative.ints(),
                        static_cast<std::int32_t>(samples),
                        static_cast<std::int32_t>(tokens),
                        static_cast<std::int32_t>(rows),
                        static_cast<std::int32_t>(which.longer_than),
                        static_cast<std::int32_t>(which.up_to),
                        sorted,
                        which.padding,
                        count,
                        tiles};
  launch(build_tiles_kernel, dim3(1), dim3(kThreads),
         static_cast<std::size_t>(sorted) * sizeof(std::uint32_t), at.stream, work);
  return list;
}

}  // namespace regatta::trainer::cuda
