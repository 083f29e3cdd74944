// The tokenizer's rules at their simplest, to compare the fast one with: greedy longest match by
// trying every end of every word in a hash table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/basic_tokenizer.h"
#include "trainer/data/word_piece.h"

namespace regatta::tests {

[[nodiscard]] inline std::vector<trainer::data::TokenId> slow_word(
    std::string_view word, const trainer::data::Vocabulary& vocabulary, int word_limit) {
  std::vector<std::size_t> bounds;  // where code points begin, and the end
  for (std::size_t i = 0; i < word.size();
       i += trainer::data::unicode::decode(word.substr(i)).length) {
    bounds.push_back(i);
  }
  bounds.push_back(word.size());
  const std::vector<trainer::data::TokenId> unknown{vocabulary.special().unknown};
  if (static_cast<int>(bounds.size()) - 1 > word_limit) return unknown;
  std::vector<trainer::data::TokenId> ids;
  for (std::size_t begin = 0; begin + 1 < bounds.size();) {
    std::size_t end = bounds.size() - 1;
    trainer::data::TokenId id = -1;
    for (; end > begin; --end) {
      const std::string piece =
          (begin > 0 ? "##" : "") +
          std::string(word.substr(bounds[begin], bounds[end] - bounds[begin]));
      id = vocabulary.find(piece);
      if (id >= 0) break;
    }
    if (id < 0) return unknown;
    ids.push_back(id);
    begin = end;
  }
  return ids;
}

[[nodiscard]] inline std::vector<trainer::data::TokenId> slow_tokenize(
    std::string_view text, const trainer::data::Vocabulary& vocabulary,
    const trainer::data::TokenizerOptions& options) {
  trainer::data::BasicTokenizer basic(options.lower_case);
  std::vector<trainer::data::TokenId> ids;
  for (const auto& word : basic.split(text)) {
    for (const auto id : slow_word(word.text, vocabulary, options.word_limit)) ids.push_back(id);
  }
  return ids;
}

}  // namespace regatta::tests
