// How long the documents of a corpus are, and what looks wrong about it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "trainer/data/documents.h"

namespace regatta::trainer::data {

struct CorpusShape {
  double mean_tokens = 0;  // of a document, as the next ones; 0 where there is none
  std::int64_t median_tokens = 0;
  std::int64_t long_tokens = 0;  // 95 % have at most so many
  std::int64_t median_sentences = 0;
  // Documents of less than 16 tokens, of 16 to 31, 32 to 63 …, of 4096 and more.
  static constexpr std::int64_t kFirstBin = 16;
  static constexpr std::size_t kBins = 10;
  std::array<std::int64_t, kBins> documents_by_tokens{};
};

// Collects the lengths of documents; one thread. Memory grows with the number of different lengths,
// not of documents: a corpus of 10^12 tokens has at most 1.4 million.
class DocumentLengths {
 public:
  void add(std::int64_t tokens, std::int64_t sentences);
  // Medians and the like are lengths that occur: the smallest that reaches the share.
  [[nodiscard]] CorpusShape shape() const;

 private:
  using Counts = std::unordered_map<std::int64_t, std::int64_t>;
  Counts tokens_, sentences_;
};

// What was read, as far as warnings need it.
struct ReadShape {
  std::int64_t files = 0;           // with a document
  std::int64_t text_files = 0;      // of these, plain text
  std::int64_t text_documents = 0;  // before equal ones are dropped
  std::uint64_t text_bytes = 0;
  TextLines text;
  std::int64_t json_like_files = 0;  // text files most of whose lines begin with '{'
  std::string json_like;             // the first of them
};

// One line each, without an end: what was found, and what to do. Empty where all looks well.
[[nodiscard]] std::vector<std::string> shape_warnings(const CorpusShape& shape,
                                                      const ReadShape& read, std::int64_t documents,
                                                      std::int64_t tokens,
                                                      std::int64_t unknown_tokens);
// The same of the text alone, for an input that has no two documents: "" or why that may be.
[[nodiscard]] std::string why_one_document(const ReadShape& read);

}  // namespace regatta::trainer::data
