// The order of additions over shards, told as text: the same for any number of ranks.
#include "trainer/contract/sum_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace regatta::trainer::contract {
namespace {

// What a stack machine makes of an order over named operands.
std::vector<std::string> carried_out(const SumOrder& order,
                                     const std::vector<std::string>& operands) {
  std::vector<std::string> stack;
  for (const int operand : order) {
    if (operand != kAdd) {
      stack.push_back(operands.at(static_cast<std::size_t>(operand)));
      continue;
    }
    const std::string right = stack.back();
    stack.pop_back();
    stack.back() = "(" + stack.back() + "+" + right + ")";
  }
  return stack;
}

// As the ranks do it: each its own shards, then all the partials.
std::string expression_of(int shards, int ranks) {
  const SumTree tree = sum_tree(shards, ranks);
  std::vector<std::string> partials;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> own;
    for (int i = 0; i < tree.shards_per_rank; ++i) {
      own.push_back(std::to_string(rank * tree.shards_per_rank + i));
    }
    for (const std::string& each : carried_out(tree.of_rank[static_cast<std::size_t>(rank)], own)) {
      partials.push_back(each);
    }
  }
  EXPECT_EQ(partials.size(), tree.partials.size());
  const std::vector<std::string> sum = carried_out(tree.of_all, partials);
  EXPECT_EQ(sum.size(), 1U);
  return sum.front();
}

TEST(SumTree, AddsInOneOrderWhateverTheRanks) {
  EXPECT_EQ(expression_of(1, 1), "0");
  EXPECT_EQ(expression_of(4, 2), "((0+1)+(2+3))");
  EXPECT_EQ(expression_of(5, 1), "(((0+1)+2)+(3+4))");
  EXPECT_EQ(expression_of(12, 4), "((((0+1)+2)+((3+4)+5))+(((6+7)+8)+((9+10)+11)))");
  for (int shards = 1; shards <= 60; ++shards) {
    const std::string expected = expression_of(shards, 1);
    for (int ranks = 2; ranks <= shards; ++ranks) {
      if (shards % ranks == 0) {
        EXPECT_EQ(expression_of(shards, ranks), expected) << shards << " on " << ranks;
      }
    }
  }
}

TEST(SumTree, RanksHaveAsFewNodesAsTheTreeAllows) {
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(sum_tree(12, ranks).partials.size(), static_cast<std::size_t>(ranks))
        << "one node each";
  }
  // Of each rank no two of its nodes are the halves of one.
  const SumTree three = sum_tree(12, 3);
  std::vector<SumNode> nodes;
  for (const SumTree::Partial& partial : three.partials) nodes.push_back(partial.node);
  EXPECT_EQ(nodes, (std::vector<SumNode>{{0, 3}, {3, 1}, {4, 1}, {5, 1}, {6, 2}, {8, 1}, {9, 3}}));
  EXPECT_EQ(three.partials[1].rank, 0);
  EXPECT_EQ(three.partials[2].rank, 1);
}

// A rank of many shards keeps few gradients: one for each level of the tree.
TEST(SumTree, KeepsOneOperandForEachLevel) {
  EXPECT_EQ(depth_of({0}), 1);
  EXPECT_EQ(depth_of({0, 1, kAdd, 2, kAdd}), 2);
  EXPECT_EQ(depth_of(sum_tree(12, 1).of_rank[0]), 4);
  EXPECT_EQ(depth_of(sum_tree(1024, 1).of_rank[0]), 11);
}

}  // namespace
}  // namespace regatta::trainer::contract
