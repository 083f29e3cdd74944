// Documents to token ids, sentence by sentence.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/data/tokenizer.h"
#include "trainer/data/vocabulary.h"

namespace regatta::trainer::data {

// A line of more tokens is a paragraph and is split at the ends of its sentences.
inline constexpr std::size_t kLongestLine = 64;
// A sentence of more tokens is cut where words begin.
inline constexpr std::size_t kLongestSentence = 512;

// Some documents, one after another.
struct EncodedDocuments {
  std::vector<TokenId> ids;
  std::vector<std::uint32_t> sentence_tokens;     // of each sentence, never 0
  std::vector<std::uint32_t> document_sentences;  // of each document; 0 if it has no tokens
};

// One object per thread; `pieces` and `vocabulary` must outlive it.
class DocumentEncoder {
 public:
  DocumentEncoder(const WordPiece& pieces, const Vocabulary& vocabulary);

  // Appends one document, its lines separated by line feeds.
  void encode(std::string_view text, EncodedDocuments& out);

 private:
  void encode_line(std::string_view line, EncodedDocuments& out);
  void add_sentence(std::size_t begin, std::size_t end, EncodedDocuments& out) const;

  Tokenizer tokenizer_;
  std::vector<bool> continues_;  // by id: the piece goes on with a word
  std::vector<std::string_view> sentences_;
  std::vector<std::size_t> ends_;
};

}  // namespace regatta::trainer::data
