// In which order the gradients of a step's shards are added, whatever the number of ranks.
#pragma once

#include <vector>

namespace regatta::trainer::contract {

// Neighbouring shards [first, first + count). Its sum is its only shard, or the sum of its two
// halves, the left one ⌈count / 2⌉ shards long.
struct SumNode {
  int first = 0, count = 1;
  friend bool operator==(const SumNode&, const SumNode&) = default;
};

// In postfix: a number ≥ 0 pushes that operand, kAdd adds the two on top to one another.
constexpr int kAdd = -1;
using SumOrder = std::vector<int>;

// What of that tree each rank can add alone, and how the rest is made of it. Rank r has the shards
// [r·S/R, (r + 1)·S/R).
struct SumTree {
  struct Partial {
    int rank = 0;
    SumNode node;
  };
  int shards_per_rank = 1;
  // The largest nodes that one rank has whole, by their shards; as few as the tree allows.
  std::vector<Partial> partials;
  // Of each rank, over its own shards, the first being 0: leaves its partials, in their order.
  std::vector<SumOrder> of_rank;
  SumOrder of_all;  // over partials: leaves the sum of all shards
};

// `ranks` divides `shards`.
[[nodiscard]] SumTree sum_tree(int shards, int ranks);

// How many operands an order keeps at a time, at most.
[[nodiscard]] int depth_of(const SumOrder& order);

}  // namespace regatta::trainer::contract
