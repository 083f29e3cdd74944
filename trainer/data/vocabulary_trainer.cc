#include "trainer/data/vocabulary_trainer.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::data {
namespace {

using base::Code;
using base::Error;

constexpr const char* kSpecial[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

using Symbol = std::int32_t;

struct Word {
  std::vector<Symbol> symbols;
  std::int64_t count;
};

struct Pair {
  Symbol left;
  Symbol right;
  friend bool operator==(const Pair&, const Pair&) = default;
};
struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.left)) << 32U |
                     static_cast<std::uint32_t>(pair.right);
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 20U);
  }
};
struct Occurrences {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // that may hold the pair; a word may be listed twice
};

class Merger {
 public:
  explicit Merger(const WordCounts& counts);
  // The characters, the most frequent first.
  [[nodiscard]] std::vector<std::string> characters() const;
  // Merges once and returns the new piece (which may exist already); empty if no pair is left.
  [[nodiscard]] std::string merge();

 private:
  struct Candidate {
    std::int64_t count;
    Pair pair;
  };

  Symbol symbol(const std::string& text);
  [[nodiscard]] const std::string& text(Symbol s) const {
    return texts_[static_cast<std::size_t>(s)];
  }
  void push(const Pair& pair, std::int64_t count);
  [[nodiscard]] bool less(const Candidate& a, const Candidate& b) const;
  using Deltas = std::unordered_map<Pair, std::int64_t, PairHash>;
  void replace(std::uint32_t word_index, const Pair& pair, Symbol merged, Deltas& deltas);

  std::vector<std::string> texts_;
  std::unordered_map<std::string, Symbol> symbols_;
  std::vector<std::int64_t> character_counts_;  // by symbol
  std::vector<Word> words_;
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::vector<Candidate> heap_;  // may hold outdated counts
};

Merger::Merger(const WordCounts& counts) {
  for (const auto& [word, count] : counts) {
    Word made{{}, static_cast<std::int64_t>(count)};
    for (std::size_t i = 0; i < word.size();) {
      const std::size_t length = unicode::decode(std::string_view(word).substr(i)).length;
      const std::string prefix(i == 0 ? std::string_view() : kContinuation);
      made.symbols.push_back(symbol(prefix + word.substr(i, length)));
      character_counts_.resize(texts_.size(), 0);
      character_counts_[static_cast<std::size_t>(made.symbols.back())] += made.count;
      i += length;
    }
    if (made.symbols.size() < 2) continue;
    const auto index = static_cast<std::uint32_t>(words_.size());
    for (std::size_t i = 1; i < made.symbols.size(); ++i) {
      Occurrences& occurrences = pairs_[{made.symbols[i - 1], made.symbols[i]}];
      occurrences.count += made.count;
      occurrences.words.push_back(index);
    }
    words_.push_back(std::move(made));
  }
  for (const auto& [pair, occurrences] : pairs_) heap_.push_back({occurrences.count, pair});
  std::make_heap(heap_.begin(), heap_.end(),
                 [this](const Candidate& a, const Candidate& b) { return less(a, b); });
}

Symbol Merger::symbol(const std::string& piece) {
  const auto [found, added] = symbols_.emplace(piece, static_cast<Symbol>(texts_.size()));
  if (added) texts_.push_back(piece);
  return found->second;
}

// Numbers of symbols depend on the order of a hash table, so only texts decide.
bool Merger::less(const Candidate& a, const Candidate& b) const {
  if (a.count != b.count) return a.count < b.count;
  if (a.pair.left != b.pair.left) return text(a.pair.left) > text(b.pair.left);
  return text(a.pair.right) > text(b.pair.right);
}

void Merger::push(const Pair& pair, std::int64_t count) {
  heap_.push_back({count, pair});
  std::push_heap(heap_.begin(), heap_.end(),
                 [this](const Candidate& a, const Candidate& b) { return less(a, b); });
}

std::vector<std::string> Merger::characters() const {
  std::vector<Symbol> order(character_counts_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Symbol>(i);
  std::sort(order.begin(), order.end(), [this](Symbol a, Symbol b) {
    const std::int64_t count_a = character_counts_[static_cast<std::size_t>(a)];
    const std::int64_t count_b = character_counts_[static_cast<std::size_t>(b)];
    return count_a != count_b ? count_a > count_b : text(a) < text(b);
  });
  std::vector<std::string> texts;
  texts.reserve(order.size());
  for (const Symbol s : order) texts.push_back(text(s));
  return texts;
}

std::string Merger::merge() {
  constexpr std::int64_t kFewest = 2;
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(),
                  [this](const Candidate& a, const Candidate& b) { return less(a, b); });
    const Candidate best = heap_.back();
    heap_.pop_back();
    const auto found = pairs_.find(best.pair);
    if (found == pairs_.end()) continue;
    if (found->second.count != best.count) continue;  // a newer candidate is in the heap
    if (best.count < kFewest) return {};
    const Occurrences occurrences = std::move(found->second);
    pairs_.erase(found);
    const Symbol merged =
        symbol(text(best.pair.left) + text(best.pair.right).substr(kContinuation.size()));
    Deltas deltas;
    for (const std::uint32_t word : occurrences.words) replace(word, best.pair, merged, deltas);
    for (const auto& [pair, delta] : deltas) {
      if (delta == 0) continue;
      const std::int64_t count = pairs_[pair].count += delta;
      if (count == 0) {
        pairs_.erase(pair);
      } else {
        push(pair, count);
      }
    }
    return text(merged);
  }
  return {};
}

void Merger::replace(std::uint32_t word_index, const Pair& pair, Symbol merged, Deltas& deltas) {
  Word& word = words_[word_index];
  std::vector<Symbol>& symbols = word.symbols;
  std::vector<Symbol> made;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (i + 1 < symbols.size() && Pair{symbols[i], symbols[i + 1]} == pair) {
      made.push_back(merged);
      ++i;
    } else {
      made.push_back(symbols[i]);
    }
  }
  if (made.size() == symbols.size()) return;  // listed twice, or merged away since
  for (std::size_t i = 1; i < symbols.size(); ++i) {
    const Pair old{symbols[i - 1], symbols[i]};
    if (old != pair) deltas[old] -= word.count;
  }
  for (std::size_t i = 1; i < made.size(); ++i) {
    const Pair fresh{made[i - 1], made[i]};
    deltas[fresh] += word.count;
    const bool concerns_merge = fresh.left == merged || fresh.right == merged;
    if (concerns_merge) pairs_[fresh].words.push_back(word_index);
  }
  symbols = std::move(made);
}

}  // namespace

WordCounter::WordCounter(const TokenizerOptions& options)
    : options_(options), basic_(options.lower_case) {}

void WordCounter::add(std::string_view text) {
  for_each_chunk(text, [this](std::string_view chunk, bool plain) {
    if (!plain) {
      for (const BasicTokenizer::Word& word : basic_.split(chunk)) {
        count(word.text, word.code_points);
      }
      return;
    }
    for_each_plain_word(chunk, [this](std::string_view word) {
      word_.assign(word);
      if (options_.lower_case)
        std::transform(word_.begin(), word_.end(), word_.begin(), ascii_lower);
      count(word_, static_cast<int>(std::min<std::size_t>(word_.size(), 1U << 20U)));
    });
  });
}

void WordCounter::count(std::string_view word, int code_points) {
  if (code_points <= options_.word_limit) ++counts_[std::string(word)];
}

std::string train_vocabulary(const WordCounts& words, int size) {
  if (size < kSmallestVocabulary || size > kLargestVocabulary) {
    throw Error(Code::User, "cannot train a vocabulary of " + std::to_string(size) +
                                " pieces; choose " + std::to_string(kSmallestVocabulary) + " to " +
                                std::to_string(kLargestVocabulary));
  }
  if (words.empty()) throw Error(Code::User, "cannot train a vocabulary: the corpus has no words");
  std::vector<std::string> pieces(std::begin(kSpecial), std::end(kSpecial));
  std::unordered_map<std::string, bool> known;
  const auto wanted = static_cast<std::size_t>(size);
  Merger merger(words);
  for (const std::string& character : merger.characters()) {
    if (pieces.size() < wanted && known.emplace(character, true).second)
      pieces.push_back(character);
  }
  while (pieces.size() < wanted) {
    const std::string piece = merger.merge();
    if (piece.empty()) break;
    if (known.emplace(piece, true).second) pieces.push_back(piece);
  }
  std::string text;
  for (const std::string& piece : pieces) text += piece + "\n";
  return text;
}

}  // namespace regatta::trainer::data
