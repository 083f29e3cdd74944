#include "trainer/contract/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

std::vector<std::int32_t> random_lengths(std::size_t count, std::mt19937* random) {
  std::vector<std::int32_t> lengths(count);
  for (std::int32_t& length : lengths) length = 1 + static_cast<std::int32_t>((*random)() % 512);
  return lengths;
}

std::int64_t tokens_of(const std::vector<std::int32_t>& places,
                       const std::vector<std::int32_t>& lengths) {
  std::int64_t sum = 0;
  for (const std::int32_t place : places) sum += lengths[static_cast<std::size_t>(place)];
  return sum;
}

constexpr contract::StratumLimits kLimits = {128, 256, 384};  // Samsung's, of 512 tokens
const contract::BalanceOptions kWays[] = {
    {contract::Balance::None, contract::Deal::Snake, 0, 1},
    {contract::Balance::Stratified, contract::Deal::Snake, 0, 1, 0, kLimits},
    {contract::Balance::Stratified, contract::Deal::Snake, 0, 4, 0, kLimits},
    {contract::Balance::Stratified, contract::Deal::LongestFirst, 0, 4, 0, kLimits},
    {contract::Balance::GlobalPresort, contract::Deal::Stride, 0, 1},
    {contract::Balance::GlobalPresort, contract::Deal::Snake, 0, 1},
    {contract::Balance::GlobalPresort, contract::Deal::LongestFirst, 0, 1},
    {contract::Balance::Exchange, contract::Deal::LongestFirst, 0, 1}};

TEST(Assign, GivesEverySampleOnceAndEveryRankItsNumber) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    for (contract::BalanceOptions options : kWays) {
      options.ranks = options.ranks_per_node * (1 + static_cast<int>(random() % 9));
      const std::size_t batch = random() % 300;  // fewer than ranks now and then, and none at all
      const std::vector<std::int32_t> lengths = random_lengths(batch, &random);
      const contract::Assignment assignment = contract::assign(lengths, options);
      ASSERT_EQ(assignment.size(), static_cast<std::size_t>(options.ranks));
      std::vector<int> seen(batch, 0);
      for (const std::vector<std::int32_t>& rank : assignment) {
        const std::size_t least = batch / assignment.size();
        ASSERT_GE(rank.size(), least);
        ASSERT_LE(rank.size(), least + (batch % assignment.size() == 0 ? 0 : 1));
        for (const std::int32_t place : rank) ++seen[static_cast<std::size_t>(place)];
      }
      ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(batch));
      ASSERT_EQ(contract::assign(lengths, options), assignment) << "every rank must find the same";
    }
  }
}

TEST(Assign, DealsSmallBatchesAsByHand) {
  const std::vector<std::int32_t> lengths = {10, 80, 30, 60, 50, 20, 70, 40};
  const auto dealt = [&](contract::Balance strategy, contract::Deal deal) {
    return contract::assign(lengths, {strategy, deal, 2, 1});
  };
  EXPECT_EQ(dealt(contract::Balance::None, contract::Deal::Snake),
            (contract::Assignment{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  // 80 70 60 50 40 30 20 10
  EXPECT_EQ(dealt(contract::Balance::GlobalPresort, contract::Deal::Stride),
            (contract::Assignment{{1, 3, 7, 5}, {6, 4, 2, 0}}));
  EXPECT_EQ(dealt(contract::Balance::GlobalPresort, contract::Deal::Snake),
            (contract::Assignment{{1, 4, 7, 0}, {6, 3, 2, 5}}));
  // 80 | 70, 60 to the second, 50 to the first, then 130 : 130 …
  EXPECT_EQ(dealt(contract::Balance::GlobalPresort, contract::Deal::LongestFirst),
            (contract::Assignment{{1, 4, 7, 0}, {6, 3, 2, 5}}));
}

TEST(Assign, LongestFirstKeepsRanksCloserThanTheLongestSample) {
  std::mt19937 random(3);
  std::int64_t by_turns = 0, longest_first = 0;
  for (int round = 0; round < 50; ++round) {
    const std::vector<std::int32_t> lengths = random_lengths(16 * 24, &random);
    const auto apart = [&](contract::Deal deal) {
      std::vector<std::int64_t> loads;
      for (const auto& rank :
           contract::assign(lengths, {contract::Balance::GlobalPresort, deal, 16, 1})) {
        loads.push_back(tokens_of(rank, lengths));
      }
      const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
      return *most - *least;
    };
    EXPECT_LT(apart(contract::Deal::LongestFirst), 512);
    longest_first += apart(contract::Deal::LongestFirst);
    by_turns += apart(contract::Deal::Stride);  // within 512 too, though it looks at no sum
  }
  EXPECT_LT(longest_first, by_turns / 4);
}

TEST(Assign, StratifiedRanksHoldTheSameClasses) {
  std::vector<std::int32_t> lengths;
  for (const std::int32_t length : {100, 200, 300, 500}) {
    for (int i = 0; i < 24; ++i) lengths.push_back(length + i);
  }
  std::shuffle(lengths.begin(), lengths.end(), std::mt19937(4));
  for (const auto& rank : contract::assign(
           lengths, {contract::Balance::Stratified, contract::Deal::Snake, 8, 1, 0, kLimits})) {
    std::vector<int> classes(contract::kStrata, 0);
    for (const std::int32_t place : rank) {
      ++classes[static_cast<std::size_t>(
          contract::stratum_of(lengths[static_cast<std::size_t>(place)], kLimits))];
    }
    EXPECT_EQ(classes, (std::vector<int>{3, 3, 3, 3}));
  }
}

// What a node deals again stays in the node.
TEST(Assign, StratifiedNodesKeepTheirSamples) {
  std::mt19937 random(5);
  const std::vector<std::int32_t> lengths = random_lengths(16 * 12, &random);
  const contract::Assignment apart = contract::assign(
      lengths, {contract::Balance::Stratified, contract::Deal::Snake, 16, 1, 0, kLimits});
  const contract::Assignment dealt = contract::assign(
      lengths, {contract::Balance::Stratified, contract::Deal::LongestFirst, 16, 4, 0, kLimits});
  for (std::size_t node = 0; node < 4; ++node) {
    std::set<std::int32_t> before, after;
    for (std::size_t rank = 4 * node; rank < 4 * node + 4; ++rank) {
      before.insert(apart[rank].begin(), apart[rank].end());
      after.insert(dealt[rank].begin(), dealt[rank].end());
    }
    EXPECT_EQ(before, after) << node;
  }
}

TEST(StratumOf, HasItsLimitsInTheLowerClass) {
  EXPECT_EQ(contract::stratum_of(1, kLimits), 0);
  EXPECT_EQ(contract::stratum_of(128, kLimits), 0);
  EXPECT_EQ(contract::stratum_of(129, kLimits), 1);
  EXPECT_EQ(contract::stratum_of(256, kLimits), 1);
  EXPECT_EQ(contract::stratum_of(384, kLimits), 2);
  EXPECT_EQ(contract::stratum_of(385, kLimits), 3);
  EXPECT_EQ(contract::stratum_of(4096, kLimits), 3);
}

// Σ (length − its class's mean)².
double spread_within(const std::vector<std::int32_t>& lengths,
                     const contract::StratumLimits& limits) {
  double count[contract::kStrata] = {}, sum[contract::kStrata] = {}, spread = 0;
  for (const std::int32_t length : lengths) {
    const auto c = static_cast<std::size_t>(contract::stratum_of(length, limits));
    count[c] += 1;
    sum[c] += length;
  }
  for (const std::int32_t length : lengths) {
    const auto c = static_cast<std::size_t>(contract::stratum_of(length, limits));
    spread += (length - sum[c] / count[c]) * (length - sum[c] / count[c]);
  }
  return spread;
}

TEST(StratumLimits, AreTheBestOfAll) {
  std::mt19937 random(12);
  for (int round = 0; round < 60; ++round) {
    const int longest = 4 + static_cast<int>(random() % 20);
    std::vector<std::int32_t> lengths(1 + random() % 60);
    for (std::int32_t& length : lengths) {
      length = 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(longest));
    }
    double best = 1e300;
    for (int a = 1; a <= longest; ++a) {
      for (int b = a; b <= longest; ++b) {
        for (int c = b; c <= longest; ++c) {
          best = std::min(best, spread_within(lengths, {a, b, c}));
        }
      }
    }
    const contract::StratumLimits found = contract::stratum_limits(lengths);
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
    EXPECT_NEAR(spread_within(lengths, found), best, 1e-9 * (1 + best)) << "round " << round;
    std::shuffle(lengths.begin(), lengths.end(), random);
    EXPECT_EQ(contract::stratum_limits(lengths), found);
  }
}

TEST(StratumLimits, OfFewLengthsAreThoseLengths) {
  const auto limits = [](const std::vector<std::int32_t>& lengths) {
    return contract::stratum_limits(lengths);
  };
  EXPECT_EQ(limits({128, 128}), (contract::StratumLimits{128, 128, 128}));
  EXPECT_EQ(limits({9, 128, 9}), (contract::StratumLimits{9, 128, 128}));
  EXPECT_EQ(limits({1, 2, 3, 4}), (contract::StratumLimits{1, 2, 3}));
  EXPECT_EQ(limits({10, 11, 50, 51, 90, 91, 128}), (contract::StratumLimits{11, 51, 91}));
}

// Of each class, up to the end of each step of the window.
std::vector<std::vector<std::int64_t>> drawn_by_step(const std::vector<std::int32_t>& order,
                                                     const std::vector<std::int32_t>& lengths,
                                                     std::size_t batch) {
  std::vector<std::vector<std::int64_t>> drawn;
  std::vector<std::int64_t> so_far(contract::kStrata, 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    ++so_far[static_cast<std::size_t>(
        contract::stratum_of(lengths[static_cast<std::size_t>(order[i])], kLimits))];
    if ((i + 1) % batch == 0) drawn.push_back(so_far);
  }
  return drawn;
}

// Lengths of classes with random shares, some of them rare or absent.
std::vector<std::int32_t> lengths_of_random_classes(std::size_t count, std::mt19937* random) {
  std::vector<double> weights(contract::kStrata);
  for (double& weight : weights) weight = std::pow(10.0, -static_cast<double>((*random)() % 4));
  if ((*random)() % 3 == 0) weights[(*random)() % contract::kStrata] = 0;
  weights[(*random)() % contract::kStrata] += 1;
  std::discrete_distribution<int> classes(weights.begin(), weights.end());
  std::vector<std::int32_t> lengths(count);
  for (std::int32_t& length : lengths) {
    length = 128 * classes(*random) + 1 + static_cast<std::int32_t>((*random)() % 128);
  }
  return lengths;
}

TEST(StratifiedOrder, HasEveryPlaceOnceAndClassesEvenlySpread) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 9);
    const std::size_t batch = 1 + random() % 100;  // fewer than ranks now and then
    const std::size_t steps = round % 10 == 0 ? 1 : contract::kWindowSteps;
    const std::vector<std::int32_t> lengths = lengths_of_random_classes(steps * batch, &random);
    const std::vector<std::int32_t> order =
        contract::stratified_order(lengths, static_cast<int>(batch), ranks, kLimits);
    ASSERT_EQ(order, contract::stratified_order(lengths, static_cast<int>(batch), ranks, kLimits));
    ASSERT_EQ(std::set<std::int32_t>(order.begin(), order.end()).size(), lengths.size());
    ASSERT_EQ(*std::max_element(order.begin(), order.end()), std::ssize(lengths) - 1);
    ASSERT_EQ(order.size(), lengths.size());
    const auto drawn = drawn_by_step(order, lengths, batch);
    for (std::size_t step = 0; step < steps; ++step) {
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(step * batch);
      ASSERT_TRUE(std::is_sorted(begin, begin + static_cast<std::ptrdiff_t>(batch)));
      for (std::size_t c = 0; c < contract::kStrata; ++c) {
        const double part = static_cast<double>(drawn.back()[c]) * static_cast<double>(step + 1) /
                            static_cast<double>(steps);
        ASSERT_NEAR(static_cast<double>(drawn[step][c]), part, 1.75 * ranks + 1)
            << "batch " << batch << ", ranks " << ranks << ", step " << step << ", class " << c;
      }
    }
  }
}

TEST(StratifiedOrder, GivesEveryRankTheSameClasses) {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 8);
    const int rest = static_cast<int>(random() % 2) * static_cast<int>(random() % 8) % ranks;
    const int batch = ranks * (1 + static_cast<int>(random() % 12)) + rest;
    const auto lengths = lengths_of_random_classes(
        static_cast<std::size_t>(contract::kWindowSteps * batch), &random);
    const auto drawn = drawn_by_step(contract::stratified_order(lengths, batch, ranks, kLimits),
                                     lengths, static_cast<std::size_t>(batch));
    int uneven = 0;  // steps with more than the batch's remainder in no whole group
    std::vector<std::int64_t> before(contract::kStrata, 0);
    for (const std::vector<std::int64_t>& after : drawn) {
      std::int64_t whole = 0;
      for (std::size_t c = 0; c < contract::kStrata; ++c) whole += (after[c] - before[c]) / ranks;
      uneven += whole < batch / ranks ? 1 : 0;
      before = after;
    }
    EXPECT_LT(uneven, contract::kStrata) << "batch " << batch << ", ranks " << ranks;
  }
}

// Samsung's counts for 16 samples on a GPU are 6, 3, 2 and 5 (facts of MLPerf v1.1's
// configuration).
TEST(StratifiedOrder, OfWikipediaHasThePapersCountsOnAverage) {
  std::mt19937 random(9);
  std::discrete_distribution<int> classes({0.369, 0.197, 0.117, 0.316});
  std::vector<std::int32_t> lengths(16 * 8 * contract::kWindowSteps);
  for (std::int32_t& length : lengths) length = 100 + 128 * classes(random);
  const auto drawn =
      drawn_by_step(contract::stratified_order(lengths, 16 * 8, 8, kLimits), lengths, 16 * 8);
  std::vector<long> mean;
  for (const std::int64_t count : drawn.back()) {
    mean.push_back(std::lround(static_cast<double>(count) / (8 * contract::kWindowSteps)));
  }
  EXPECT_EQ(mean, std::vector<long>({6, 3, 2, 5}));
}

TEST(PackRows, KeepsLengthAndNumberAndWastesLittle) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::int32_t> lengths = random_lengths(random() % 400, &random);
    const auto rows = contract::pack_rows(lengths, 512, 3);
    std::vector<int> seen(lengths.size(), 0);
    std::int64_t total = 0;
    for (const std::vector<std::int32_t>& row : rows) {
      ASSERT_GE(row.size(), 1U);
      ASSERT_LE(row.size(), 3U);
      ASSERT_LE(tokens_of(row, lengths), 512);
      total += tokens_of(row, lengths);
      for (const std::int32_t place : row) ++seen[static_cast<std::size_t>(place)];
    }
    ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(lengths.size()));
    // No packing needs fewer rows than this; best fit decreasing needs 11/9 of the best and one
    // more (Johnson 1973).
    const double least =
        std::max(static_cast<double>(total) / 512.0, static_cast<double>(lengths.size()) / 3.0);
    EXPECT_LE(static_cast<double>(rows.size()), std::ceil(11.0 / 9.0 * least) + 1);
  }
  EXPECT_EQ(contract::pack_rows(std::vector<std::int32_t>{200, 500, 300, 12}, 512, 3),
            (std::vector<std::vector<std::int32_t>>{{1, 3}, {2, 0}}));
}

TEST(PackedRows, AreDealtSoThatNoRankIsIdle) {
  std::mt19937 random(10);
  for (int round = 0; round < 300; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 9);
    std::vector<std::int32_t> lengths = random_lengths(random() % 40, &random);
    if (round % 2 == 0) {  // three to a row
      for (std::int32_t& length : lengths) length = 1 + length / 4;
    }
    const auto rows = contract::packed_rows(lengths, 512, ranks);
    ASSERT_GE(rows.size(), std::min(lengths.size(), static_cast<std::size_t>(ranks)));
    const contract::Assignment assignment = contract::assign(
        lengths, {contract::Balance::Packed, contract::Deal::LongestFirst, ranks, 1, 512});
    ASSERT_EQ(assignment.size(), static_cast<std::size_t>(ranks));
    std::vector<int> seen(lengths.size(), 0);
    for (std::size_t rank = 0; rank < assignment.size(); ++rank) {
      std::vector<std::int32_t> expected;  // ⌊rows/R⌋ or ⌈rows/R⌉ rows
      for (std::size_t i = rank; i < rows.size(); i += assignment.size()) {
        ASSERT_LE(rows[i].size(), static_cast<std::size_t>(contract::kRowSamples));
        ASSERT_LE(tokens_of(rows[i], lengths), 512);
        expected.insert(expected.end(), rows[i].begin(), rows[i].end());
      }
      ASSERT_EQ(assignment[rank], expected);
      ASSERT_TRUE(!assignment[rank].empty() || lengths.size() < assignment.size());
      for (const std::int32_t place : assignment[rank]) ++seen[static_cast<std::size_t>(place)];
    }
    ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(lengths.size()));
  }
}

TEST(Assign, ExchangeIsGlobalPresort) {
  std::mt19937 random(11);
  for (const contract::Deal deal :
       {contract::Deal::Stride, contract::Deal::Snake, contract::Deal::LongestFirst}) {
    const std::vector<std::int32_t> lengths = random_lengths(101, &random);
    EXPECT_EQ(contract::assign(lengths, {contract::Balance::Exchange, deal, 7, 1}),
              contract::assign(lengths, {contract::Balance::GlobalPresort, deal, 7, 1}));
  }
}

}  // namespace
}  // namespace regatta::tests
