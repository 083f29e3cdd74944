#include "trainer/contract/sum_tree.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::trainer::contract {
namespace {

SumNode left_of(const SumNode& node) { return {node.first, (node.count + 1) / 2}; }
SumNode right_of(const SumNode& node) {
  const SumNode left = left_of(node);
  return {left.first + left.count, node.count - left.count};
}

// All shards of a node, counted from `origin`.
void add_shards(const SumNode& node, int origin, SumOrder* order) {
  if (node.count == 1) return order->push_back(node.first - origin);
  add_shards(left_of(node), origin, order);
  add_shards(right_of(node), origin, order);
  order->push_back(kAdd);
}

void add_node(const SumNode& node, SumTree* tree) {
  const int each = tree->shards_per_rank;
  const int rank = node.first / each;
  if ((node.first + node.count - 1) / each == rank) {
    add_shards(node, rank * each, &tree->of_rank[static_cast<std::size_t>(rank)]);
    tree->of_all.push_back(static_cast<int>(tree->partials.size()));
    return tree->partials.push_back({rank, node});
  }
  add_node(left_of(node), tree);
  add_node(right_of(node), tree);
  tree->of_all.push_back(kAdd);
}

}  // namespace

SumTree sum_tree(int shards, int ranks) {
  base::check(ranks >= 1 && shards >= ranks && shards % ranks == 0, "ranks divide the shards");
  SumTree tree;
  tree.shards_per_rank = shards / ranks;
  tree.of_rank.resize(static_cast<std::size_t>(ranks));
  add_node({0, shards}, &tree);
  return tree;
}

int depth_of(const SumOrder& order) {
  int depth = 0, most = 0;
  for (const int operand : order) {
    depth += operand == kAdd ? -1 : 1;
    most = std::max(most, depth);
  }
  return most;
}

}  // namespace regatta::trainer::contract
