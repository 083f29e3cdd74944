// Making a WordPiece vocabulary from the words of a corpus.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "trainer/data/basic_tokenizer.h"
#include "trainer/data/word_piece.h"

namespace regatta::trainer::data {

using WordCounts = std::unordered_map<std::string, std::uint64_t>;

// Counts the words of texts as the tokenizer with these options splits them; words above its word
// limit are left out. One object per thread.
class WordCounter {
 public:
  explicit WordCounter(const TokenizerOptions& options);
  void add(std::string_view text);
  [[nodiscard]] const WordCounts& counts() const { return counts_; }

 private:
  void count(std::string_view word, int code_points);

  TokenizerOptions options_;
  BasicTokenizer basic_;
  WordCounts counts_;
  std::string word_;
};

inline constexpr int kSmallestVocabulary = 16;
inline constexpr int kLargestVocabulary = 1'000'000;

// The text of a vocab.txt with at most `size` pieces: [PAD], [UNK], [CLS], [SEP], [MASK]; then the
// characters, in both forms ("c" at the start of a word, "##c" inside one) as they occur, the most
// frequent first; then merges of two neighbouring pieces, always the pair that occurs most often
// (byte-pair encoding; equal counts: the smaller text of left and right piece). Fewer pieces if no
// pair occurs twice. A pure function of the counts.
// Code::User if `size` is outside the limits above or there are no words.
[[nodiscard]] std::string train_vocabulary(const WordCounts& words, int size);

}  // namespace regatta::trainer::data
