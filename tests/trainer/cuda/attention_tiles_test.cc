// How attention is cut: bounds that hold for any batch, plans that fit, and a swizzle without bank
// conflicts.
#include "trainer/cuda/attention/attention_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "trainer/contract/random_site.h"
#include "trainer/cuda/attention/attention_dropout.cuh"
#include "trainer/cuda/kernels/shared_tile.cuh"

namespace regatta::tests {
namespace {

using trainer::cuda::forward_plan;
using trainer::cuda::LengthClass;
using trainer::cuda::tile_bound;
using trainer::cuda::tile_offset;

std::int64_t tiles_of(const std::vector<int>& lengths, std::int64_t padding, std::int64_t rows,
                      const LengthClass& which) {
  std::int64_t tiles = which.padding ? (padding + rows - 1) / rows : 0;
  for (const int length : lengths) {
    if (length > which.longer_than && length <= which.up_to) tiles += (length + rows - 1) / rows;
  }
  return tiles;
}

const LengthClass kClasses[] = {
    {}, {0, 128, true}, {128, 256, false}, {256, 4095, false}, {511, 512, true}, {0, 4095, false},
};

TEST(AttentionTileBound, HoldsForRandomBatches) {
  std::mt19937 generator(5);
  for (int round = 0; round < 300; ++round) {
    const int most = round % 3 == 0 ? 12 : round % 3 == 1 ? 512 : 4095;
    std::vector<int> lengths(generator() % 20);
    std::int64_t tokens = static_cast<std::int64_t>(generator() % 3 * (generator() % 700));
    const std::int64_t padding = tokens;
    for (int& length : lengths) {
      length = static_cast<int>(generator() % static_cast<unsigned>(most + 1));
      tokens += length;
    }
    for (const int rows : {16, 64, 128}) {
      for (const LengthClass& which : kClasses) {
        EXPECT_GE(tile_bound(tokens, static_cast<std::int64_t>(lengths.size()), rows, which),
                  tiles_of(lengths, padding, rows, which));
      }
    }
  }
}

TEST(AttentionTileBound, IsReachedByTheWorstBatches) {
  // One token more than full tiles in every sample.
  EXPECT_EQ(tile_bound(3 * 65, 3, 64, {0, 4095, false}), 6);
  EXPECT_EQ(tile_bound(512, 512, 128, {}), 512);  // one token each
  EXPECT_EQ(tile_bound(128 * 96, 96, 128, {0, 128, false}), 96);
  EXPECT_EQ(tile_bound(1000, 0, 64, {}), 16);  // nothing but padding
  EXPECT_EQ(tile_bound(1000, 0, 64, {0, 4095, false}), 0);
  EXPECT_EQ(tile_bound(128, 4, 64, {128, 256, false}), 0);  // too few tokens for the class
  EXPECT_EQ(tile_bound(0, 0, 64, {}), 0);
  EXPECT_EQ(trainer::cuda::tile_list_bytes(0), 256);
  EXPECT_EQ(trainer::cuda::tile_list_bytes(15), 256);
  EXPECT_EQ(trainer::cuda::tile_list_bytes(16), 512);
}

TEST(AttentionForwardPlan, FitsEveryArchitectureAndKeepsShortBatchesSmall) {
  for (const std::int64_t head_size : {32, 64, 128}) {
    for (std::int64_t length = 1; length < 4096; ++length) {
      const auto plan = forward_plan(head_size, length, 99 * 1024);
      EXPECT_LE(plan.shared_bytes, 80 * 1024);
      EXPECT_TRUE(plan.stages == 1 || plan.stages == 2);
      // With one stage there is nowhere to fetch into while another is read.
      EXPECT_EQ(plan.stages == 1, length <= plan.keys);
      EXPECT_GE(plan.warps, 1);
      EXPECT_LE(plan.warps, trainer::cuda::kForwardWarps);
      EXPECT_TRUE(plan.rows() >= length || plan.warps == trainer::cuda::kForwardWarps);
      EXPECT_LT(plan.rows() - plan.rows_per_warp, length) << "a warp without rows";
    }
  }
  // Head size 64, any batch longer than 64: 48 KiB, so three blocks on an A100 and on an H200.
  EXPECT_EQ(forward_plan(64, 512, 227 * 1024).shared_bytes, 48 * 1024);
  EXPECT_EQ(forward_plan(64, 512, 227 * 1024).rows(), 128);
}

TEST(ResidentForwardPlan, KeepsAllKeysAndFillsAMultiprocessor) {
  using trainer::cuda::resident_forward_limit;
  using trainer::cuda::resident_forward_plan;
  EXPECT_EQ(resident_forward_limit(64, 227 * 1024), 512);
  EXPECT_EQ(resident_forward_limit(64, 163 * 1024), 512);
  EXPECT_EQ(resident_forward_limit(64, 99 * 1024), 256);
  EXPECT_EQ(resident_forward_limit(32, 99 * 1024), 512);
  EXPECT_EQ(resident_forward_limit(128, 227 * 1024), 0);
  for (const std::int64_t shared : {99, 163, 227}) {
    for (const std::int64_t head_size : {32, 64}) {
      for (std::int64_t length = 1; length <= resident_forward_limit(head_size, shared * 1024);
           ++length) {
        const auto plan = resident_forward_plan(head_size, length, shared * 1024);
        EXPECT_LE(plan.shared_bytes, shared * 1024);
        EXPECT_GE(plan.stages * plan.keys, length);
        EXPECT_GE(plan.warps, 1);
        // Eight warps a multiprocessor, in one block or in two, where there are rows for them.
        const bool two = 2 * (plan.shared_bytes + 1024) <= (shared + 1) * 1024;
        EXPECT_TRUE(two || plan.warps == 8 || plan.rows() >= length) << length;
      }
    }
  }
  EXPECT_EQ(resident_forward_plan(64, 512, 227 * 1024).warps, 8);
  EXPECT_EQ(resident_forward_plan(64, 512, 227 * 1024).shared_bytes, 160 * 1024);
  EXPECT_EQ(resident_forward_plan(64, 384, 227 * 1024).warps, 4);
}

TEST(AttentionForwardPlanDeathTest, RefusesWhatHasNoKernel) {
  EXPECT_DEATH((void)forward_plan(48, 10, 99 * 1024), "head sizes");
  EXPECT_DEATH((void)forward_plan(128, 512, 64 * 1024), "shared memory");
  EXPECT_DEATH((void)trainer::cuda::resident_forward_plan(64, 513, 227 * 1024), "shared memory");
}

// The banks (4 bytes each, 32 of them) that eight 16-byte accesses of one phase touch.
template <typename Offset>
bool conflict_free(Offset offset) {
  std::set<int> banks;
  for (int lane = 0; lane < 8; ++lane) {
    EXPECT_EQ(offset(lane) % 16, 0);
    for (int word = 0; word < 4; ++word) banks.insert(offset(lane) / 4 % 32 + word);
  }
  return banks.size() == 32;
}

template <int kColumns>
void check_swizzle() {
  SCOPED_TRACE(kColumns);
  constexpr int kPieces = kColumns / 8;
  constexpr int kRows = 64;
  std::set<int> places;
  for (int row = 0; row < kRows; ++row) {
    for (int piece = 0; piece < kPieces; ++piece) {
      places.insert(tile_offset<kColumns>(row, piece));
      // What lets kernels add multiples of eight rows to an address.
      EXPECT_EQ(tile_offset<kColumns>(row, piece),
                tile_offset<kColumns>(row % 8, piece) + row / 8 * 8 * kColumns * 2);
    }
  }
  EXPECT_EQ(places.size(), static_cast<std::size_t>(kRows * kPieces));
  EXPECT_EQ(*places.rbegin(), kRows * kColumns * 2 - 16);
  for (int row = 0; row < kRows; row += 8) {
    for (int piece = 0; piece < kPieces; ++piece) {
      // A phase of ldmatrix: eight rows of one 8×8 matrix.
      EXPECT_TRUE(
          conflict_free([&](int lane) { return tile_offset<kColumns>(row + lane, piece); }));
    }
  }
  for (int first = 0; first < kRows * kPieces; first += 8) {
    // A phase of copies: eight threads with neighbouring pieces.
    EXPECT_TRUE(conflict_free([&](int lane) {
      return tile_offset<kColumns>((first + lane) / kPieces, (first + lane) % kPieces);
    }));
  }
}

TEST(SharedTile, HasNoBankConflicts) {
  check_swizzle<32>();
  check_swizzle<64>();
  check_swizzle<128>();
}

TEST(AttentionDropout, NamesTheBlocksOfTheContract) {
  for (const int head : {0, 1, 15, 2047}) {
    for (const int query : {0, 1, 511, 4095}) {
      for (const int key : {0, 7, 8, 511, 4095}) {
        EXPECT_EQ(trainer::cuda::attention_draws_block(head, query, key),
                  trainer::contract::attention_block(static_cast<std::uint32_t>(head),
                                                     static_cast<std::uint32_t>(query),
                                                     static_cast<std::uint32_t>(key)));
      }
    }
  }
}

TEST(AttentionDropout, DrawsWhatPhiloxDraws) {
  std::mt19937_64 generator(3);
  for (int i = 0; i < 200; ++i) {
    const trainer::device::Dropout dropout{static_cast<std::uint32_t>(generator() % 65536),
                                           generator(), static_cast<std::uint32_t>(generator())};
    const auto ordinal = static_cast<std::uint32_t>(generator());
    const auto step = static_cast<std::uint32_t>(generator());
    const auto block = static_cast<std::uint32_t>(generator());
    const auto parameters = trainer::cuda::attention_dropout_of(dropout);
    const trainer::cuda::SampleDraws draws(parameters, ordinal, step);
    const trainer::cuda::Draws mine = draws(parameters, block);
    const trainer::cuda::Draws expected =
        trainer::cuda::philox(dropout.seed, block, ordinal, step, dropout.site);
    for (int word = 0; word < 4; ++word) {
      EXPECT_EQ(mine.word[word], expected.word[word]);
      const std::uint32_t low = mine.word[word] & 0xFFFFU;
      const std::uint32_t high = mine.word[word] >> 16;
      EXPECT_EQ(trainer::cuda::keeps_low(mine.word[word], parameters.bar),
                low >= dropout.threshold);
      EXPECT_EQ(trainer::cuda::keeps_high(mine.word[word], parameters.bar),
                high >= dropout.threshold);
    }
  }
}

}  // namespace
}  // namespace regatta::tests
