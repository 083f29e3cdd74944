#include "trainer/data/basic_tokenizer.h"

#include <algorithm>

namespace regatta::trainer::data {
namespace {

// Control characters that are white space (White_Space) where text is not cleaned of them.
[[nodiscard]] bool is_white_control(char32_t c) { return c == 0x0B || c == 0x0C || c == 0x85; }

}  // namespace

BasicTokenizer::BasicTokenizer(bool lower_case)
    : BasicTokenizer(WordRules{.lower_case = lower_case, .strip_accents = lower_case}) {}

BasicTokenizer::BasicTokenizer(const WordRules& rules)
    : characters_(unicode::Characters::instance()), rules_(rules) {}

const std::vector<BasicTokenizer::Word>& BasicTokenizer::split(std::string_view text) {
  invalid_sequences_ = 0;
  bytes_.clear();
  ranges_.clear();
  words_.clear();
  token_.clear();
  for (std::size_t i = 0; i < text.size();) {
    const unicode::Decoded next = unicode::decode(text.substr(i));
    i += next.length;
    if (!next.valid) ++invalid_sequences_;
    const char32_t c = next.code_point;
    if (characters_.removed(c) && rules_.clean_text) continue;
    if (characters_.space(c) || is_white_control(c)) {
      end_token();
    } else if (rules_.ideographs_apart && characters_.ideograph(c)) {
      end_token();
      token_.push_back(c);
      end_token();
    } else {
      token_.push_back(c);
    }
  }
  end_token();
  for (const Range& range : ranges_) {
    words_.push_back(
        {std::string_view(bytes_).substr(range.begin, range.end - range.begin), range.code_points});
  }
  return words_;
}

void BasicTokenizer::end_token() {
  if (token_.empty()) return;
  const bool folds = rules_.lower_case || rules_.strip_accents;
  if (folds) fold_token();
  bool in_word = false;
  for (const char32_t c : folds ? folded_ : token_) {
    const bool alone = characters_.punctuation(c);
    if (alone || !in_word) ranges_.push_back({bytes_.size(), bytes_.size(), 0});
    in_word = !alone;
    unicode::append_utf8(c, bytes_);
    ranges_.back().end = bytes_.size();
    ++ranges_.back().code_points;
  }
  token_.clear();
}

void BasicTokenizer::fold_token() {
  folded_.clear();
  for (std::size_t i = 0; i < token_.size(); ++i) {
    if (!rules_.lower_case) {
      characters_.append_decomposition(token_[i], folded_);
    } else if (token_[i] == unicode::kCapitalSigma) {
      folded_.push_back(final_sigma(i) ? unicode::kFinalSigma : unicode::kSmallSigma);
    } else if (rules_.strip_accents) {
      characters_.append_folded(token_[i], folded_);
    } else {
      characters_.append_lower(token_[i], folded_);
    }
  }
  if (!rules_.strip_accents) return;
  characters_.canonical_order(folded_);
  const auto marks = std::remove_if(folded_.begin(), folded_.end(),
                                    [this](char32_t c) { return characters_.mark(c); });
  folded_.erase(marks, folded_.end());
}

// Unicode's Final_Sigma: a cased letter before it and none after it, whatever is case-ignorable
// between them aside.
bool BasicTokenizer::final_sigma(std::size_t index) const {
  std::size_t before = index;
  while (before > 0 && characters_.case_ignorable(token_[before - 1])) --before;
  if (before == 0 || !characters_.cased(token_[before - 1])) return false;
  std::size_t after = index + 1;
  while (after < token_.size() && characters_.case_ignorable(token_[after])) ++after;
  return after == token_.size() || !characters_.cased(token_[after]);
}

}  // namespace regatta::trainer::data
