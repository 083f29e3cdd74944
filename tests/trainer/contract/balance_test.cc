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

const BalanceOptions kWays[] = {{Balance::None, Deal::Snake, 0, 1},
                                {Balance::Stratified, Deal::Snake, 0, 1},
                                {Balance::Stratified, Deal::Snake, 0, 4},
                                {Balance::Stratified, Deal::LongestFirst, 0, 4},
                                {Balance::GlobalPresort, Deal::Stride, 0, 1},
                                {Balance::GlobalPresort, Deal::Snake, 0, 1},
                                {Balance::GlobalPresort, Deal::LongestFirst, 0, 1}};

TEST(Assign, GivesEverySampleOnceAndEveryRankItsNumber) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    for (BalanceOptions options : kWays) {
      options.ranks = options.ranks_per_node * (1 + static_cast<int>(random() % 9));
      const std::size_t batch = random() % 300;  // fewer than ranks now and then, and none at all
      const std::vector<std::int32_t> lengths = random_lengths(batch, &random);
      const Assignment assignment = assign(lengths, options);
      ASSERT_EQ(assignment.size(), static_cast<std::size_t>(options.ranks));
      std::vector<int> seen(batch, 0);
      for (const std::vector<std::int32_t>& rank : assignment) {
        const std::size_t least = batch / assignment.size();
        ASSERT_GE(rank.size(), least);
        ASSERT_LE(rank.size(), least + (batch % assignment.size() == 0 ? 0 : 1));
        for (const std::int32_t place : rank) ++seen[static_cast<std::size_t>(place)];
      }
      ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(batch));
      ASSERT_EQ(assign(lengths, options), assignment) << "every rank must find the same";
    }
  }
}

TEST(Assign, DealsSmallBatchesAsByHand) {
  const std::vector<std::int32_t> lengths = {10, 80, 30, 60, 50, 20, 70, 40};
  const auto dealt = [&](Balance strategy, Deal deal) {
    return assign(lengths, {strategy, deal, 2, 1});
  };
  EXPECT_EQ(dealt(Balance::None, Deal::Snake), (Assignment{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  // 80 70 60 50 40 30 20 10
  EXPECT_EQ(dealt(Balance::GlobalPresort, Deal::Stride), (Assignment{{1, 3, 7, 5}, {6, 4, 2, 0}}));
  EXPECT_EQ(dealt(Balance::GlobalPresort, Deal::Snake), (Assignment{{1, 4, 7, 0}, {6, 3, 2, 5}}));
  // 80 | 70, 60 to the second, 50 to the first, then 130 : 130 …
  EXPECT_EQ(dealt(Balance::GlobalPresort, Deal::LongestFirst),
            (Assignment{{1, 4, 7, 0}, {6, 3, 2, 5}}));
}

TEST(Assign, LongestFirstKeepsRanksCloserThanTheLongestSample) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const std::vector<std::int32_t> lengths = random_lengths(16 * 24, &random);
    std::vector<std::int64_t> loads;
    for (const auto& rank : assign(lengths, {Balance::GlobalPresort, Deal::LongestFirst, 16, 1})) {
      loads.push_back(tokens_of(rank, lengths));
    }
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    EXPECT_LT(*most - *least, 512);
  }
}

TEST(Assign, StratifiedRanksHoldTheSameClasses) {
  std::vector<std::int32_t> lengths;
  for (const std::int32_t length : {100, 200, 300, 500}) {
    for (int i = 0; i < 24; ++i) lengths.push_back(length + i);
  }
  std::shuffle(lengths.begin(), lengths.end(), std::mt19937(4));
  for (const auto& rank : assign(lengths, {Balance::Stratified, Deal::Snake, 8, 1})) {
    std::vector<int> classes(kStrata, 0);
    for (const std::int32_t place : rank) {
      ++classes[static_cast<std::size_t>(stratum_of(lengths[static_cast<std::size_t>(place)]))];
    }
    EXPECT_EQ(classes, (std::vector<int>{3, 3, 3, 3}));
  }
}

// What a node deals again stays in the node.
TEST(Assign, StratifiedNodesKeepTheirSamples) {
  std::mt19937 random(5);
  const std::vector<std::int32_t> lengths = random_lengths(16 * 12, &random);
  const Assignment apart = assign(lengths, {Balance::Stratified, Deal::Snake, 16, 1});
  const Assignment dealt = assign(lengths, {Balance::Stratified, Deal::LongestFirst, 16, 4});
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
  EXPECT_EQ(stratum_of(1), 0);
  EXPECT_EQ(stratum_of(128), 0);
  EXPECT_EQ(stratum_of(129), 1);
  EXPECT_EQ(stratum_of(256), 1);
  EXPECT_EQ(stratum_of(384), 2);
  EXPECT_EQ(stratum_of(385), 3);
  EXPECT_EQ(stratum_of(4096), 3);
}

TEST(StratumQuotas, AddUpAndFollowTheFractions) {
  std::mt19937 random(6);
  for (int round = 0; round < 100; ++round) {
    std::vector<double> fractions(kStrata);
    for (double& fraction : fractions) fraction = static_cast<double>(random() % 1000);
    if (round % 3 == 0) fractions[random() % kStrata] = 0;
    fractions[random() % kStrata] += 1;
    const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
    const int ranks = 1 + static_cast<int>(random() % 9);
    const int batch = static_cast<int>(random() % 200);
    std::vector<std::int64_t> drawn(kStrata, 0);
    for (std::int64_t step = 1; step <= 40; ++step) {
      const std::vector<int> quotas = stratum_quotas(fractions, batch, ranks, step);
      ASSERT_EQ(std::accumulate(quotas.begin(), quotas.end(), 0), batch);
      for (std::size_t i = 0; i < quotas.size(); ++i) {
        ASSERT_GE(quotas[i], 0);
        drawn[i] += quotas[i];
        // The first n points of k·φ mod 1 miss an interval's share by less than 5 up to n = 10,000
        // (4.4 by counting); ranks times that, and as much for the remainder.
        ASSERT_NEAR(static_cast<double>(drawn[i]),
                    fractions[i] / sum * static_cast<double>(step * batch), 5.0 * (ranks + 1))
            << "step " << step << " class " << i;
      }
    }
  }
}

// Samsung's counts for 16 samples on a GPU are 6, 3, 2 and 5 (facts of MLPerf v1.1's
// configuration).
TEST(StratumQuotas, OfWikipediaAreThePapersCountsOnAverage) {
  const std::vector<double> fractions = {0.369, 0.197, 0.117, 0.316};
  std::vector<double> mean(kStrata, 0);
  for (std::int64_t step = 1; step <= 1000; ++step) {
    const std::vector<int> quotas = stratum_quotas(fractions, 16 * 8, 8, step);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      EXPECT_EQ(quotas[i] % 8, 0);
      mean[i] += quotas[i] / 8 / 1000.0;
    }
  }
  EXPECT_EQ(std::vector<long>({std::lround(mean[0]), std::lround(mean[1]), std::lround(mean[2]),
                               std::lround(mean[3])}),
            std::vector<long>({6, 3, 2, 5}));
}

TEST(PackRows, KeepsLengthAndNumberAndWastesLittle) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::int32_t> lengths = random_lengths(random() % 400, &random);
    const auto rows = pack_rows(lengths, 512, 3);
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
  EXPECT_EQ(pack_rows(std::vector<std::int32_t>{200, 500, 300, 12}, 512, 3),
            (std::vector<std::vector<std::int32_t>>{{1, 3}, {2, 0}}));
}

}  // namespace
}  // namespace regatta::tests
