#include "trainer/data/word_piece.h"

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>

#include "base/error.h"

namespace regatta::trainer::data {
namespace {

constexpr std::size_t kMostNodes = std::size_t{1} << 24U;
constexpr std::size_t kMostPops = std::size_t{1} << 28U;

std::ptrdiff_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

[[noreturn]] void too_irregular() {
  throw base::Error(base::Code::User,
                    "the vocabulary has too many or too long pieces for the tokenizer; is it a "
                    "WordPiece vocab.txt?");
}

}  // namespace

struct WordPiece::Draft {
  struct Node {
    NodeIndex parent;
    unsigned char byte;
    std::uint16_t depth;  // bytes from its root
    TokenId piece;        // that ends here, or -1
  };
  std::vector<Node> nodes{{kNone, 0, 0, -1}, {kNone, 0, 0, -1}};
  std::unordered_map<std::uint32_t, NodeIndex> edges;  // by node · 256 + byte

  void insert(NodeIndex root, std::string_view text, TokenId id) {
    NodeIndex at = root;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      const std::uint32_t key = static_cast<std::uint32_t>(at) << 8U | byte;
      const auto [edge, added] = edges.emplace(key, static_cast<NodeIndex>(nodes.size()));
      if (added) {
        const auto depth =
            static_cast<std::uint16_t>(nodes[static_cast<std::size_t>(at)].depth + 1);
        nodes.push_back({at, byte, depth, -1});
        if (nodes.size() >= kMostNodes) too_irregular();
      }
      at = edge->second;
    }
    nodes[static_cast<std::size_t>(at)].piece = id;
  }
};

WordPiece::WordPiece(const Vocabulary& vocabulary, const TokenizerOptions& options)
    : options_(options), unknown_(vocabulary.special().unknown) {
  if (options.word_limit < 1 || options.word_limit > kLargestWordLimit) {
    throw base::Error(base::Code::User, "word limit " + std::to_string(options.word_limit) +
                                            " is not in 1.." + std::to_string(kLargestWordLimit) +
                                            "; Google's code has 200, Hugging Face's 100");
  }
  Draft draft;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    std::string_view piece = vocabulary.piece(id);
    const bool goes_on = piece.size() > kContinuation.size() && piece.starts_with(kContinuation);
    if (goes_on) piece.remove_prefix(kContinuation.size());
    // A longer piece matches no word that is short enough.
    if (count_code_points(piece) > options.word_limit) continue;
    draft.insert(goes_on ? kSuffixRoot : kWordRoot, piece, id);
  }
  build_edges(draft);
  link(draft);
}

void WordPiece::insert_edge(std::uint32_t key, NodeIndex child_index) {
  std::size_t slot = key * kHashFactor >> edge_shift_;
  while (edges_[slot].key != kEmpty) slot = (slot + 1) & edge_mask_;
  edges_[slot] = {key, child_index};
}

void WordPiece::build_edges(const Draft& draft) {
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(16, draft.edges.size() * 2));
  edges_.assign(slots, Edge{kEmpty, kNone});
  edge_mask_ = slots - 1;
  edge_shift_ = 32U - static_cast<std::uint32_t>(std::countr_zero(slots));
  for (std::size_t i = 2; i < draft.nodes.size(); ++i) {
    const Draft::Node& node = draft.nodes[i];
    insert_edge(static_cast<std::uint32_t>(node.parent) << 8U | node.byte,
                static_cast<NodeIndex>(i));
  }
}

// A node's link leads to a node that is less deep, so the nodes are linked in order of depth.
void WordPiece::link(const Draft& draft) {
  nodes_.resize(draft.nodes.size());
  std::vector<NodeIndex> order;
  for (std::size_t i = 2; i < draft.nodes.size(); ++i) order.push_back(static_cast<NodeIndex>(i));
  std::stable_sort(order.begin(), order.end(), [&](NodeIndex a, NodeIndex b) {
    return draft.nodes[static_cast<std::size_t>(a)].depth <
           draft.nodes[static_cast<std::size_t>(b)].depth;
  });
  for (const NodeIndex index : order) link_node(index, draft);
}

// If matching stops at this node, the pieces to emit are its `pops` and the rest of the matched
// text is what `failure` stands for.
void WordPiece::link_node(NodeIndex index, const Draft& draft) {
  const Draft::Node& made = draft.nodes[static_cast<std::size_t>(index)];
  Node& node = nodes_[static_cast<std::size_t>(index)];
  if (made.piece >= 0) {
    node = {kSuffixRoot, static_cast<std::uint32_t>(pops_.size()), 1};
    pops_.push_back(made.piece);
    return;
  }
  const Node& parent = nodes_[static_cast<std::size_t>(made.parent)];
  std::vector<TokenId> pops(pops_.begin() + parent.pops_begin,
                            pops_.begin() + parent.pops_begin + parent.pops_count);
  NodeIndex from = parent.failure;
  NodeIndex to = kNone;
  while (from != kNone && (to = child(from, made.byte)) == kNone) {
    const Node& popped = nodes_[static_cast<std::size_t>(from)];
    pops.insert(pops.end(), pops_.begin() + popped.pops_begin,
                pops_.begin() + popped.pops_begin + popped.pops_count);
    from = popped.failure;
  }
  if (to == kNone) return;
  node = {to, parent.pops_begin, parent.pops_count};
  if (pops.size() == parent.pops_count) return;  // the parent's list is shared
  node.pops_begin = static_cast<std::uint32_t>(pops_.size());
  node.pops_count = static_cast<std::uint32_t>(pops.size());
  if (pops_.size() + pops.size() > kMostPops) too_irregular();
  pops_.insert(pops_.end(), pops.begin(), pops.end());
}

void WordPiece::append(std::string_view word, int code_points, std::vector<TokenId>& ids) const {
  if (code_points > options_.word_limit) {
    ids.push_back(unknown_);
    return;
  }
  const std::size_t before = ids.size();
  NodeIndex at = kWordRoot;
  // Emits what is certain at `at` and falls back; false if the word cannot be made of pieces.
  const auto fall_back = [&] {
    const Node& node = nodes_[static_cast<std::size_t>(at)];
    if (node.failure == kNone) return false;
    ids.insert(ids.end(), pops_.begin() + node.pops_begin,
               pops_.begin() + node.pops_begin + node.pops_count);
    at = node.failure;
    return true;
  };
  bool possible = true;
  for (std::size_t i = 0; possible && i < word.size();) {
    const NodeIndex next = child(at, static_cast<unsigned char>(word[i]));
    if (next != kNone) {
      at = next;
      ++i;
    } else {
      possible = fall_back();
    }
  }
  while (possible && at != kSuffixRoot) possible = fall_back();
  if (possible) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

}  // namespace regatta::trainer::data
