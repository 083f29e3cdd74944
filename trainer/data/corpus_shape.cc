#include "trainer/data/corpus_shape.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace regatta::trainer::data {
namespace {

// Pairs of segments that follow each other need two sentences, and a choice of where to cut them a
// third. Corpora of whole texts (encyclopedias, books, web pages) have medians of 8 and more.
constexpr std::int64_t kFewSentences = 3;
// Short notes by hand may well be a few hundred; a file of thousands of them is most often a text
// that was cut into its lines.
constexpr std::int64_t kManyDocumentsPerFile = 1000;
// One blank line for each line of text is 1; poems and dialogues with a blank line between stanzas
// stay below a half.
constexpr double kBlankLinesEverywhere = 0.8;
// A long novel; what is longer and one document is most often many, not separated.
constexpr std::uint64_t kLargeDocumentBytes = std::uint64_t{1} << 20U;
// Google's vocabulary leaves below 1 % of its own languages' text unknown; text in a script that a
// vocabulary lacks, 80 % and more, as its punctuation and digits remain.
constexpr double kManyUnknown = 0.3;

// The smallest length that `share` of all reach; `sorted` must not be empty.
[[nodiscard]] std::int64_t quantile(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& sorted, double share) {
  std::int64_t all = 0;
  for (const auto& [length, count] : sorted) all += count;
  const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(all)));
  std::int64_t seen = 0;
  for (const auto& [length, count] : sorted) {
    seen += count;
    if (seen >= wanted) return length;
  }
  return sorted.back().first;
}

[[nodiscard]] std::size_t bin_of(std::int64_t tokens) {
  std::size_t bin = 0;
  for (std::int64_t end = CorpusShape::kFirstBin; tokens >= end && bin + 1 < CorpusShape::kBins;
       end *= 2) {
    ++bin;
  }
  return bin;
}

[[nodiscard]] std::string short_documents(const CorpusShape& shape, const ReadShape& read) {
  const std::string found = "the median document has " + std::to_string(shape.median_sentences) +
                            (shape.median_sentences == 1 ? " sentence" : " sentences") + ": ";
  const auto blank = static_cast<double>(read.text.blank);
  if (read.text_documents > 0 &&
      blank >= kBlankLinesEverywhere * static_cast<double>(read.text.lines)) {
    return found +
           "nearly every line is followed by a blank one, which ends a document; leave blank "
           "lines between whole texts only";
  }
  return found + "documents should be whole texts, not their lines; put lines of one text together";
}

}  // namespace

void DocumentLengths::add(std::int64_t tokens, std::int64_t sentences) {
  ++tokens_[tokens];
  ++sentences_[sentences];
}

CorpusShape DocumentLengths::shape() const {
  CorpusShape shape;
  if (tokens_.empty()) return shape;
  std::vector<std::pair<std::int64_t, std::int64_t>> tokens(tokens_.begin(), tokens_.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> sentences(sentences_.begin(),
                                                               sentences_.end());
  std::sort(tokens.begin(), tokens.end());
  std::sort(sentences.begin(), sentences.end());
  std::int64_t documents = 0, sum = 0;
  for (const auto& [length, count] : tokens) {
    documents += count;
    sum += length * count;
    shape.documents_by_tokens[bin_of(length)] += count;
  }
  shape.mean_tokens = static_cast<double>(sum) / static_cast<double>(documents);
  shape.median_tokens = quantile(tokens, 0.5);
  shape.long_tokens = quantile(tokens, 0.95);
  shape.median_sentences = quantile(sentences, 0.5);
  return shape;
}

std::vector<std::string> shape_warnings(const CorpusShape& shape, const ReadShape& read,
                                        std::int64_t documents, std::int64_t tokens,
                                        std::int64_t unknown_tokens) {
  std::vector<std::string> warnings;
  if (read.json_like_files > 0) {
    const std::int64_t others = read.json_like_files - 1;
    warnings.push_back(base::printable(read.json_like) +
                       (others > 0 ? " and " + std::to_string(others) + " more" : "") +
                       (others > 0 ? " look" : " looks") +
                       " like JSONL but was read as text; name it .jsonl or give --format jsonl");
  }
  if (shape.median_sentences < kFewSentences &&
      documents >= kManyDocumentsPerFile * std::max<std::int64_t>(1, read.files)) {
    warnings.push_back(short_documents(shape, read));
  }
  if (const std::string why = why_one_document(read); !why.empty()) warnings.push_back(why);
  const double unknown =
      static_cast<double>(unknown_tokens) / static_cast<double>(std::max<std::int64_t>(1, tokens));
  if (unknown >= kManyUnknown) {
    warnings.push_back(std::to_string(std::lround(unknown * 100)) +
                       " % of the pieces are [UNK]: the vocabulary does not fit this text; use one "
                       "of its language, or train one (--train-vocab 30000)");
  }
  return warnings;
}

std::string why_one_document(const ReadShape& read) {
  const bool is_separated = read.text_documents > read.text_files;
  if (read.text_documents == 0 || is_separated) return "";
  const std::uint64_t bytes = read.text_bytes / static_cast<std::uint64_t>(read.text_documents);
  if (bytes < kLargeDocumentBytes) return "";
  return "no blank line separates documents: " +
         std::string(read.text_files == 1 ? "the text is one" : "each text file is one") + " of " +
         base::human_bytes(bytes) + (read.text_files == 1 ? "" : " on average") +
         "; put blank lines between documents, or one document a line as JSONL";
}

}  // namespace regatta::trainer::data
