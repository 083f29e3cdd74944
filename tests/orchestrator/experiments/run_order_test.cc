#include "orchestrator/experiments/run_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace regatta::orchestrator::experiments {
namespace {

using Order = std::vector<std::vector<std::size_t>>;

// Sums over all seeds of the places that each layout has.
std::vector<std::size_t> place_sums(const Order& order, std::size_t layouts) {
  std::vector<std::size_t> sums(layouts);
  for (const auto& row : order) {
    for (std::size_t place = 0; place < row.size(); ++place) sums.at(row[place]) += place;
  }
  return sums;
}

TEST(RunOrder, HasEachLayoutOnceForEachSeedAndAllAtTheSameMeanPlace) {
  for (std::size_t layouts = 1; layouts <= 16; ++layouts) {
    std::vector<std::size_t> all(layouts);
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t seeds = 1; seeds <= 40; ++seeds) {
      for (const std::uint64_t draw : {std::uint64_t{1}, std::uint64_t{2}, ~std::uint64_t{0}}) {
        SCOPED_TRACE(testing::Message() << layouts << " layouts, " << seeds << " seeds");
        const Order order = balanced_order({layouts, seeds}, draw);
        ASSERT_EQ(order.size(), seeds);
        std::set<std::size_t> first;
        for (auto row : order) {
          first.insert(row.front());
          std::sort(row.begin(), row.end());
          ASSERT_EQ(row, all);
        }
        if (seeds == 1) continue;
        const auto sums = place_sums(order, layouts);
        const auto [low, high] = std::minmax_element(sums.begin(), sums.end());
        ASSERT_LE(*high - *low, 1U);
        ASSERT_EQ(first.size() > 1, layouts > 1) << "no layout is always first";
      }
    }
  }
}

TEST(RunOrder, OfAsManySeedsAsLayoutsIsALatinSquare) {
  for (std::size_t layouts = 2; layouts <= 12; ++layouts) {
    const Order order = balanced_order({layouts, layouts}, 7);
    for (std::size_t place = 0; place < layouts; ++place) {
      std::set<std::size_t> there;
      for (const auto& row : order) there.insert(row[place]);
      EXPECT_EQ(there.size(), layouts) << layouts << " layouts, place " << place;
    }
    if (layouts % 2 == 1) continue;
    std::set<std::pair<std::size_t, std::size_t>> followers;
    for (const auto& row : order) {
      for (std::size_t place = 1; place < layouts; ++place) {
        followers.emplace(row[place - 1], row[place]);
      }
    }
    EXPECT_EQ(followers.size(), layouts * (layouts - 1)) << "each follows each other one once";
  }
}

TEST(RunOrder, IsTheSameEachTimeAndAnotherForOtherDraws) {
  const OrderSize size{4, 3};
  EXPECT_EQ(balanced_order(size, 1), balanced_order(size, 1));
  std::set<std::size_t> first;
  for (std::uint64_t draw = 0; draw < 64; ++draw) {
    first.insert(balanced_order(size, draw).front().front());
  }
  EXPECT_EQ(first.size(), 4U) << "every layout is the first of all for some draw";
}

}  // namespace
}  // namespace regatta::orchestrator::experiments
