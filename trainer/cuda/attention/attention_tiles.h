// How attention is cut into pieces: tile sizes, shared memory, and bounds of what a packed batch
// can need, so that grids depend on host-known sizes alone. Pure functions; the tile list itself is
// made on the device (attention_work.h), from cumulative.
#pragma once

#include <cstdint>

namespace regatta::trainer::cuda {

// Samples are shorter than this (trainer/contract/random_site.h leaves 12 bits to a position).
constexpr std::int64_t kLengthLimit = 4096;

// Rows [row, min(row + tile rows, length)) of a sample whose first token is `begin`. A tile of
// sample −1 is of the tokens behind the last sample, [begin, begin + length), which get zeros.
struct AttentionTile {
  std::int32_t begin = 0, length = 0, row = 0, sample = 0;
};

// Samples of length in (longer_than, up_to]; `padding`: and the tokens of no sample.
struct LengthClass {
  std::int64_t longer_than = 0;
  std::int64_t up_to = kLengthLimit - 1;
  bool padding = true;

  // Of the samples in this class, when none of the batch is longer than max_length.
  [[nodiscard]] std::int64_t longest(std::int64_t max_length) const {
    return max_length < up_to ? max_length : up_to;
  }
};

// Upper bound of the number of tiles of `rows` rows that `samples` samples of the class and the
// padding have when together they are `tokens` tokens: 0 where there can be none.
[[nodiscard]] std::int64_t tile_bound(std::int64_t tokens, std::int64_t samples, std::int64_t rows,
                                      const LengthClass& which);
// Device memory of a list of so many tiles and its count, a multiple of 256.
[[nodiscard]] std::int64_t tile_list_bytes(std::int64_t tiles);

// The forward kernel: a block takes `warps`·`rows_per_warp` queries of one head and streams its
// sample's keys and values through `stages` buffers of `keys` rows each. With as many stages as the
// longest sample needs (one or two) nothing is ever overwritten: K and V are resident.
struct AttentionForwardPlan {
  int warps = 0;
  int rows_per_warp = 0;
  int keys = 0;
  int stages = 0;
  std::int64_t shared_bytes = 0;

  [[nodiscard]] int rows() const { return warps * rows_per_warp; }
};
constexpr int kForwardKeys = 64;
constexpr int kForwardWarps = 4;
// Queries a warp holds in registers: two 16-row tiles, one for the largest head.
template <int kHead>
constexpr int kForwardRowsPerWarp = kHead <= 64 ? 32 : 16;
// For 16-bit types, head sizes 32, 64 and 128. Aborts when a block may not have the shared memory
// (every architecture from sm_80 on gives 99 KiB; the most that is asked for is 80 KiB).
[[nodiscard]] AttentionForwardPlan forward_plan(std::int64_t head_size, std::int64_t max_length,
                                                std::int64_t shared_bytes);

// The forward kernel that keeps all keys and values of a (sample, head): `stages` of them are the
// longest sample's, and the block's warps take its queries among themselves, tile by tile. Four
// warps where a multiprocessor has room for two such blocks, else eight (registers allow no more):
// for d = 64, 512 tokens and 227 KiB one block of eight, 160 KiB.
constexpr int kResidentForwardWarps = 8;
constexpr std::int64_t kResidentForwardTokens = 512;
// The longest sample that goes this way, a multiple of kForwardKeys; 0 for head size 128.
[[nodiscard]] std::int64_t resident_forward_limit(std::int64_t head_size,
                                                  std::int64_t shared_bytes);
// Aborts where max_length is above that.
[[nodiscard]] AttentionForwardPlan resident_forward_plan(std::int64_t head_size,
                                                         std::int64_t max_length,
                                                         std::int64_t shared_bytes);

}  // namespace regatta::trainer::cuda
