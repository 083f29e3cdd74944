#include "trainer/data/document_encoder.h"

#include <algorithm>

#include "trainer/data/documents.h"

namespace regatta::trainer::data {

DocumentEncoder::DocumentEncoder(const WordPiece& pieces, const Vocabulary& vocabulary)
    : tokenizer_(pieces) {
  for (const std::string& piece : vocabulary.pieces())
    continues_.push_back(piece.starts_with("##"));
}

void DocumentEncoder::encode(std::string_view text, EncodedDocuments& out) {
  const std::size_t before = out.sentence_tokens.size();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    encode_line(text.substr(begin, end - begin), out);
    begin = end + 1;
  }
  out.document_sentences.push_back(static_cast<std::uint32_t>(out.sentence_tokens.size() - before));
}

void DocumentEncoder::encode_line(std::string_view line, EncodedDocuments& out) {
  sentences_.clear();
  ends_.clear();
  split_sentences(line, sentences_);
  std::size_t begin = out.ids.size();
  for (const std::string_view sentence : sentences_) {
    tokenizer_.tokenize(sentence, out.ids);
    ends_.push_back(out.ids.size());
  }
  if (out.ids.size() - begin <= kLongestLine) {
    add_sentence(begin, out.ids.size(), out);
    return;
  }
  for (const std::size_t end : ends_) {
    add_sentence(begin, end, out);
    begin = end;
  }
}

void DocumentEncoder::add_sentence(std::size_t begin, std::size_t end,
                                   EncodedDocuments& out) const {
  while (end - begin > kLongestSentence) {
    std::size_t cut = begin + kLongestSentence;
    while (cut > begin && continues_[static_cast<std::size_t>(out.ids[cut])]) --cut;
    if (cut == begin) cut = begin + kLongestSentence;  // one endless word
    out.sentence_tokens.push_back(static_cast<std::uint32_t>(cut - begin));
    begin = cut;
  }
  if (end > begin) out.sentence_tokens.push_back(static_cast<std::uint32_t>(end - begin));
}

}  // namespace regatta::trainer::data
