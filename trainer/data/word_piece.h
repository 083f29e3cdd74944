// The second half of BERT's tokenizer: a word to pieces, by greedy longest match from the left.
//
// A trie over the pieces carries failure links, so a word of n bytes costs O(n) whatever the
// vocabulary (Song, Salcianu, Song, Dopson, Zhou: "Fast WordPiece Tokenization", EMNLP 2021).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/data/vocabulary.h"

namespace regatta::trainer::data {

// What begins a piece that goes on with a word.
inline constexpr std::string_view kContinuation = "##";

inline constexpr int kLargestWordLimit = 1000;

struct TokenizerOptions {
  bool lower_case = true;  // also drops accents
  // Longer words, in code points, become [UNK]: 200 in Google's code, 100 in Hugging Face's.
  int word_limit = 200;
};

// Immutable: shared by all threads.
class WordPiece {
 public:
  // Code::User if options.word_limit is not in [1, kLargestWordLimit], or the vocabulary needs more
  // than 2^24 trie nodes or 2^28 failure pieces.
  WordPiece(const Vocabulary& vocabulary, const TokenizerOptions& options);

  // Appends the pieces of one word, or [UNK] if it cannot be made of pieces or is too long.
  void append(std::string_view word, int code_points, std::vector<TokenId>& ids) const;

  [[nodiscard]] const TokenizerOptions& options() const { return options_; }
  [[nodiscard]] TokenId unknown() const { return unknown_; }

 private:
  using NodeIndex = std::int32_t;
  static constexpr NodeIndex kNone = -1;
  static constexpr NodeIndex kWordRoot = 0;    // matches pieces that begin a word
  static constexpr NodeIndex kSuffixRoot = 1;  // matches pieces that go on with one ("##…")

  struct Node {
    NodeIndex failure = kNone;  // where matching goes on once `pops` are emitted
    std::uint32_t pops_begin = 0;
    std::uint32_t pops_count = 0;
  };
  struct Edge {
    std::uint32_t key;  // node · 256 + byte
    NodeIndex child;
  };
  struct Draft;  // what only the construction needs

  [[nodiscard]] NodeIndex child(NodeIndex node, unsigned char byte) const {
    const std::uint32_t key = static_cast<std::uint32_t>(node) << 8U | byte;
    for (std::size_t slot = key * kHashFactor >> edge_shift_;; slot = (slot + 1) & edge_mask_) {
      if (edges_[slot].key == key) return edges_[slot].child;
      if (edges_[slot].key == kEmpty) return kNone;
    }
  }
  void insert_edge(std::uint32_t key, NodeIndex child_index);
  void build_edges(const Draft& draft);
  void link(const Draft& draft);
  void link_node(NodeIndex index, const Draft& draft);

  static constexpr std::uint32_t kEmpty = 0xFFFFFFFF;
  static constexpr std::uint32_t kHashFactor = 0x9E3779B1;

  TokenizerOptions options_;
  TokenId unknown_;
  std::vector<Node> nodes_;
  std::vector<TokenId> pops_;  // the lists of all nodes
  std::vector<Edge> edges_;    // open addressing, at most half full
  std::uint32_t edge_shift_ = 0;
  std::size_t edge_mask_ = 0;
};

}  // namespace regatta::trainer::data
