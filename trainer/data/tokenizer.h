// Google BERT's tokenizer, exactly: text to token ids, without special tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/basic_tokenizer.h"
#include "trainer/data/vocabulary.h"
#include "trainer/data/word_piece.h"

namespace regatta::trainer::data {

// One object per thread; `pieces` is shared and must outlive it. It keeps a cache of words, which
// changes the speed only.
class Tokenizer {
 public:
  explicit Tokenizer(const WordPiece& pieces);

  // Appends the ids of `text`. Ill-formed UTF-8 is dropped, as U+FFFD is.
  void tokenize(std::string_view text, std::vector<TokenId>& ids);
  // Ill-formed sequences seen so far.
  [[nodiscard]] std::int64_t invalid_sequences() const { return invalid_sequences_; }

 private:
  static constexpr std::size_t kCacheEntries = std::size_t{1} << 15U;  // 2 MiB
  static constexpr std::size_t kLongestKey = 22;                       // bytes
  static constexpr std::size_t kMostIds = 10;
  struct alignas(64) Entry {  // one cache line
    std::uint8_t key_length = 0;
    std::uint8_t id_count = 0;
    std::array<char, kLongestKey> key{};
    std::array<TokenId, kMostIds> ids{};
  };

  // Copies the cached ids of `key`; otherwise has `compute` append them and remembers those. `key`
  // is a word of letters and digits as written in the text, or a chunk that is not plain.
  template <typename Compute>
  void cached(std::string_view key, std::vector<TokenId>& ids, Compute compute);
  void append_plain_word(std::string_view word, std::vector<TokenId>& ids);
  void append_chunk(std::string_view chunk, std::vector<TokenId>& ids);

  const WordPiece& pieces_;
  bool lower_case_;
  BasicTokenizer basic_;
  std::array<TokenId, 128> punctuation_{};  // the id of each ASCII punctuation character
  std::vector<Entry> cache_;
  std::string word_;
  std::int64_t invalid_sequences_ = 0;
};

}  // namespace regatta::trainer::data
