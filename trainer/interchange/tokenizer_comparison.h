// Whether a tokenizer would give other tokens than a dataset has been made with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/data/vocabulary.h"
#include "trainer/data/word_piece.h"
#include "trainer/interchange/declared_tokenizer.h"

namespace regatta::trainer::interchange {

struct DatasetTokenizer {
  const data::Vocabulary& vocabulary;
  data::TokenizerOptions options;
};

struct RuleDifference {
  std::string rule;  // "lower_case"
  std::string dataset, tokenizer;
};

// A text of which the two make different tokens.
struct ProbeDifference {
  std::string about;  // "accents"
  std::string text;
  std::vector<std::string> dataset, tokenizer;  // pieces; with ids where those alone differ
};

enum class TokenizerVerdict {
  Same,     // in all that is declared, and of every probe text
  Differs,  // in what is declared, or of a probe text
  Unknown   // it has rules that this program does not follow
};
[[nodiscard]] const char* name_of(TokenizerVerdict verdict);  // "same", "differs", "unknown"

struct TokenizerComparison {
  std::string file;
  std::vector<RuleDifference> differences;  // in what is declared, vocabulary first
  std::vector<std::string> not_followed;    // DeclaredTokenizer's
  std::vector<std::string> not_declared;    // rules that were taken to be the dataset's
  int probes = 0;                           // texts that were tokenized; none if not_followed
  std::optional<ProbeDifference> first;     // the first of these that differs
  std::string advice;                       // what to do; empty: nothing

  [[nodiscard]] TokenizerVerdict verdict() const;
};

// Compares what is declared, then tokenizes the probe texts (tokenizer_probes.h) with this
// program's tokenizer under the rules of each.
// Not compared: what Hugging Face's programs do whatever is declared. `tokenizers` takes a special
// token that is written in a text ("[MASK]") for that token, lower-cases a capital sigma at the end
// of a word to σ, and drops private and unassigned characters; Google's code does none of these.
[[nodiscard]] TokenizerComparison compare_tokenizers(const DatasetTokenizer& dataset,
                                                     const DeclaredTokenizer& declared);

// The ids of texts under the declared rules (those that are not declared are the dataset's); -1
// where the tokenizer has no unknown piece. Only of one that has nothing that is not followed.
[[nodiscard]] std::vector<std::vector<data::TokenId>> declared_ids(
    const DatasetTokenizer& dataset, const DeclaredTokenizer& declared,
    const std::vector<std::string>& texts);

// Lines for people, each ending with a line feed; the first begins with the file.
[[nodiscard]] std::string to_text(const TokenizerComparison& comparison);
// The same in one line without the verdict: "word limit is 200 in the dataset and 100 there; …".
[[nodiscard]] std::string differences_line(const TokenizerComparison& comparison);

}  // namespace regatta::trainer::interchange
