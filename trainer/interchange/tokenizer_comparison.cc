#include "trainer/interchange/tokenizer_comparison.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "base/wording.h"
#include "trainer/data/basic_tokenizer.h"
#include "trainer/data/tokenizer.h"
#include "trainer/data/unicode.h"
#include "trainer/interchange/tokenizer_probes.h"

namespace regatta::trainer::interchange {
namespace {

using data::TokenId;
using Ids = std::vector<TokenId>;

constexpr TokenId kNoPiece = -1;
// Longer words are no probe: no dataset has a larger limit (WordPiece).
constexpr int kLongestProbe = 1001;
constexpr std::size_t kShownPieces = 12;
constexpr std::size_t kShownText = 60;  // bytes
constexpr std::pair<const char*, const char*> kDatasetSpecial[] = {{"unknown", "[UNK]"},
                                                                   {"classify", "[CLS]"},
                                                                   {"separator", "[SEP]"},
                                                                   {"pad", "[PAD]"},
                                                                   {"mask", "[MASK]"}};

[[nodiscard]] std::string shown_flag(bool value) { return value ? "true" : "false"; }
// A hostile piece neither moves the cursor nor fills the screen; no character is cut in two.
[[nodiscard]] std::string shown_piece(std::string_view piece) {
  std::size_t end = std::min(piece.size(), kShownText);
  while (end < piece.size() && end > 0 && (static_cast<unsigned char>(piece[end]) & 0xC0U) == 0x80U)
    --end;
  return base::printable(piece.substr(0, end)) + (end < piece.size() ? "…" : "");
}

// What the declared rules are where those that are not declared are the dataset's.
struct Rules {
  data::WordRules words;
  int word_limit;
  std::string prefix;
};
[[nodiscard]] Rules rules_of(const DeclaredTokenizer& declared, const DatasetTokenizer& dataset) {
  Rules rules;
  rules.words.clean_text = declared.clean_text.value_or(true);
  rules.words.ideographs_apart = declared.handle_chinese_chars.value_or(true);
  rules.words.lower_case = declared.lowercase.value_or(dataset.options.lower_case);
  rules.words.strip_accents = declared.strip_accents.value_or(rules.words.lower_case);
  rules.word_limit = declared.word_limit.value_or(dataset.options.word_limit);
  rules.prefix = declared.continuing_prefix.value_or(std::string(data::kContinuation));
  return rules;
}

// Any rules and any pieces, in the simplest way: the longest piece that fits, from the left.
class DeclaredRulesTokenizer {
 public:
  DeclaredRulesTokenizer(const DeclaredTokenizer& declared, const Rules& rules)
      : rules_(rules), basic_(rules.words) {
    for (std::size_t id = 0; id < declared.pieces.size(); ++id) {
      const std::string& piece = declared.pieces[id];
      ids_.emplace(piece, static_cast<TokenId>(id));
      longest_ = std::max(longest_, piece.size());
    }
    added_ = declared.added;
    std::string unknown = "[UNK]";
    for (const auto& [role, piece] : declared.special) {
      if (role == "unknown") unknown = piece;
    }
    const auto found = ids_.find(unknown);
    if (found != ids_.end()) unknown_ = found->second;
  }

  [[nodiscard]] Ids tokenize(const std::string& text) {
    Ids ids;
    std::string_view rest = text;
    while (!rest.empty()) {
      const auto [at, piece] = first_added(rest);
      for (const data::BasicTokenizer::Word& word : basic_.split(rest.substr(0, at))) {
        append(word, &ids);
      }
      if (piece.empty()) break;
      const auto found = ids_.find(std::string(piece));
      ids.push_back(found == ids_.end() ? kNoPiece : found->second);
      rest.remove_prefix(at + piece.size());
    }
    return ids;
  }

 private:
  // Where the first added piece begins, and the longest there; the end, and "", where there is
  // none.
  [[nodiscard]] std::pair<std::size_t, std::string_view> first_added(std::string_view text) const {
    std::size_t first = text.size();
    std::string_view longest;
    for (const std::string& piece : added_) {
      const std::size_t at = piece.empty() ? std::string_view::npos : text.find(piece);
      if (at > first || at == std::string_view::npos) continue;
      if (at < first || piece.size() > longest.size()) longest = piece;
      first = at;
    }
    return {first, longest};
  }
  void append(const data::BasicTokenizer::Word& word, Ids* ids) const {
    const std::size_t before = ids->size();
    std::size_t begin = 0;
    while (begin < word.text.size() && word.code_points <= rules_.word_limit) {
      const auto [id, end] = longest_at(word.text, begin);
      if (id == kNoPiece) break;
      ids->push_back(id);
      begin = end;
    }
    if (begin == word.text.size()) return;
    ids->resize(before);
    ids->push_back(unknown_);
  }
  [[nodiscard]] std::pair<TokenId, std::size_t> longest_at(std::string_view word,
                                                           std::size_t begin) const {
    for (std::size_t end = std::min(word.size(), begin + longest_); end > begin; --end) {
      const bool is_cut = end < word.size() &&
                          (static_cast<unsigned char>(word[end]) & 0xC0U) == 0x80U;  // a character
      if (is_cut) continue;
      std::string piece = begin == 0 ? std::string() : rules_.prefix;
      piece += word.substr(begin, end - begin);
      const auto found = ids_.find(piece);
      if (found != ids_.end()) return {found->second, end};
    }
    return {kNoPiece, begin};
  }

  Rules rules_;
  data::BasicTokenizer basic_;
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<std::string> added_;
  std::size_t longest_ = 0;  // bytes of a piece
  TokenId unknown_ = kNoPiece;
};

std::string piece_at(const std::vector<std::string>& pieces, std::size_t id) {
  return id < pieces.size() && !pieces[id].empty() ? "'" + shown_piece(pieces[id]) + "'"
                                                   : "no piece";
}

// The first id of which the pieces differ.
[[nodiscard]] std::optional<std::size_t> first_difference(const std::vector<std::string>& ours,
                                                          const std::vector<std::string>& theirs) {
  const std::size_t shared = std::min(ours.size(), theirs.size());
  for (std::size_t id = 0; id < shared; ++id) {
    if (ours[id] != theirs[id]) return id;
  }
  if (ours.size() == theirs.size()) return std::nullopt;
  return shared;
}

class Comparison {
 public:
  Comparison(const DatasetTokenizer& dataset, const DeclaredTokenizer& declared)
      : dataset_(dataset), declared_(declared), rules_(rules_of(declared, dataset)) {
    made_.file = declared.file;
    made_.not_followed = declared.not_followed;
    if (!declared.pieces.empty()) compare_pieces();
    compare_rules();
    compare_special();
    if (made_.not_followed.empty()) probe();
    made_.advice = advice();
  }
  [[nodiscard]] TokenizerComparison take() { return std::move(made_); }

 private:
  void differ(const std::string& rule, const std::string& ours, const std::string& theirs) {
    made_.differences.push_back({rule, ours, theirs});
  }
  void compare_pieces() {
    const auto& ours = dataset_.vocabulary.pieces();
    first_piece_ = first_difference(ours, declared_.pieces);
    if (!first_piece_) return;
    const auto side = [&](const std::vector<std::string>& pieces) {
      return piece_at(pieces, *first_piece_) + " as id " + std::to_string(*first_piece_) + " of " +
             std::to_string(pieces.size());
    };
    differ("vocabulary", side(ours), side(declared_.pieces));
  }
  void compare_flag(const char* rule, bool ours, const std::optional<bool>& theirs) {
    if (!theirs) return made_.not_declared.emplace_back(rule), void();
    if (*theirs != ours) differ(rule, shown_flag(ours), shown_flag(*theirs));
  }
  // Of a model that is not followed nobody knows whether it has them.
  void compare_rules() {
    const bool lower_case = dataset_.options.lower_case;
    const bool is_known = !declared_.pieces.empty();
    compare_flag("lower_case", lower_case, declared_.lowercase);
    compare_flag("strip_accents", lower_case, declared_.strip_accents);
    compare_flag("handle_chinese_chars", true, declared_.handle_chinese_chars);
    compare_flag("clean_text", true, declared_.clean_text);
    if (!is_known) return;
    if (!declared_.continuing_prefix) {
      made_.not_declared.emplace_back("continuing prefix");
    } else if (*declared_.continuing_prefix != data::kContinuation) {
      differ("continuing prefix", "'" + std::string(data::kContinuation) + "'",
             "'" + shown_piece(*declared_.continuing_prefix) + "'");
    }
    if (!declared_.word_limit) {
      made_.not_declared.emplace_back("word limit");
    } else if (*declared_.word_limit != dataset_.options.word_limit) {
      differ("word limit", std::to_string(dataset_.options.word_limit) + " characters",
             std::to_string(*declared_.word_limit) + " characters");
    }
  }
  void compare_special() {
    for (const auto& [role, piece] : kDatasetSpecial) {
      for (const auto& [their_role, theirs] : declared_.special) {
        if (their_role != role || theirs == piece) continue;
        differ(std::string(role) + " token", "'" + std::string(piece) + "'",
               "'" + shown_piece(theirs) + "'");
        break;
      }
    }
    if (declared_.added.empty()) return;
    differ("added tokens", "none",
           base::plural(declared_.added.size(), "piece") +
               " that no rule is applied to, the first is '" +
               shown_piece(declared_.added.front()) + "'");
  }

  // The fixed ones, and words that only these two vocabularies and limits make interesting.
  [[nodiscard]] std::vector<Probe> probes() const {
    std::vector<Probe> probes = fixed_probes();
    const std::string letter = repeated_letter();
    std::vector<int> lengths;
    for (const int limit : {dataset_.options.word_limit, rules_.word_limit}) {
      for (const int length : {limit, limit + 1}) {
        if (length <= kLongestProbe) lengths.push_back(length);
      }
    }
    std::sort(lengths.begin(), lengths.end());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    for (const int length : lengths) {
      std::string word;
      for (int i = 0; i < length; ++i) word += letter;
      probes.push_back({"a word of " + std::to_string(length) + " characters", word});
    }
    if (!declared_.added.empty()) {
      probes.push_back({"an added token", "boat " + declared_.added.front() + " wind"});
    }
    if (!first_piece_) return probes;
    for (const auto* pieces : {&dataset_.vocabulary.pieces(), &declared_.pieces}) {
      if (*first_piece_ >= pieces->size()) continue;
      const std::string& piece = (*pieces)[*first_piece_];
      const bool continues = piece.starts_with(data::kContinuation);
      probes.push_back({"a piece that differs",
                        continues ? letter + piece.substr(data::kContinuation.size()) : piece});
    }
    return probes;
  }
  // That words of any length can be made of, if the dataset has one.
  [[nodiscard]] std::string repeated_letter() const {
    for (char c = 'a'; c <= 'z'; ++c) {
      const std::string letter(1, c);
      const bool is_there =
          dataset_.vocabulary.find(letter) >= 0 &&
          dataset_.vocabulary.find(std::string(data::kContinuation) + letter) >= 0;
      if (is_there) return letter;
    }
    return "a";
  }

  void probe() {
    const data::WordPiece pieces(dataset_.vocabulary, dataset_.options);
    data::Tokenizer ours(pieces);
    DeclaredRulesTokenizer theirs(declared_, rules_);
    for (const Probe& each : probes()) {
      ++made_.probes;
      Ids our_ids;
      ours.tokenize(each.text, our_ids);
      const Ids their_ids = theirs.tokenize(each.text);
      if (our_ids == their_ids) continue;
      made_.first = {each.about, each.text, names(dataset_.vocabulary.pieces(), our_ids, false),
                     names(declared_.pieces, their_ids, false)};
      if (made_.first->dataset == made_.first->tokenizer) {
        made_.first->dataset = names(dataset_.vocabulary.pieces(), our_ids, true);
        made_.first->tokenizer = names(declared_.pieces, their_ids, true);
      }
      return;
    }
  }
  [[nodiscard]] static std::vector<std::string> names(const std::vector<std::string>& pieces,
                                                      const Ids& ids, bool with_ids) {
    std::vector<std::string> names;
    for (const TokenId id : ids) {
      std::string name =
          id == kNoPiece ? "(no unknown piece)" : pieces[static_cast<std::size_t>(id)];
      if (with_ids) name += "=" + std::to_string(id);
      names.push_back(std::move(name));
    }
    return names;
  }

  [[nodiscard]] std::string advice() const {
    if (made_.verdict() == TokenizerVerdict::Same) return "";
    const data::WordRules& words = rules_.words;
    const bool can_be_prepared =
        made_.not_followed.empty() && declared_.added.empty() && words.clean_text &&
        words.ideographs_apart && words.lower_case == words.strip_accents &&
        rules_.prefix == data::kContinuation && rules_.word_limit >= 1 &&
        rules_.word_limit < kLongestProbe &&
        std::none_of(made_.differences.begin(), made_.differences.end(),
                     [](const auto& each) { return each.rule.ends_with(" token"); });
    if (!can_be_prepared) {
      return "`prepare` has no such rules; use a WordPiece tokenizer of BERT's rules, such as the "
             "one that `export` puts beside a model";
    }
    std::string options = "--vocab with its vocab.txt";
    if (!words.lower_case) options += ", --cased";
    if (declared_.word_limit) options += ", --word-limit " + std::to_string(rules_.word_limit);
    return "to train on its tokens, prepare the data again: " + options;
  }

  const DatasetTokenizer& dataset_;
  const DeclaredTokenizer& declared_;
  Rules rules_;
  std::optional<std::size_t> first_piece_;
  TokenizerComparison made_;
};

// At most kShownPieces of them.
std::string shown_pieces(const std::vector<std::string>& pieces) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(pieces.size(), kShownPieces); ++i) {
    shown.push_back(shown_piece(pieces[i]));
  }
  const std::string more =
      pieces.size() > kShownPieces ? " … (" + base::plural(pieces.size(), "token") + ")" : "";
  return base::join(shown, " ") + more;
}

}  // namespace

const char* name_of(TokenizerVerdict verdict) {
  switch (verdict) {
    case TokenizerVerdict::Same:
      return "same";
    case TokenizerVerdict::Differs:
      return "differs";
    case TokenizerVerdict::Unknown:
      break;
  }
  return "unknown";
}

TokenizerVerdict TokenizerComparison::verdict() const {
  if (!differences.empty() || first) return TokenizerVerdict::Differs;
  return not_followed.empty() ? TokenizerVerdict::Same : TokenizerVerdict::Unknown;
}

TokenizerComparison compare_tokenizers(const DatasetTokenizer& dataset,
                                       const DeclaredTokenizer& declared) {
  return Comparison(dataset, declared).take();
}

std::vector<std::vector<TokenId>> declared_ids(const DatasetTokenizer& dataset,
                                               const DeclaredTokenizer& declared,
                                               const std::vector<std::string>& texts) {
  DeclaredRulesTokenizer tokenizer(declared, rules_of(declared, dataset));
  std::vector<std::vector<TokenId>> ids;
  for (const std::string& text : texts) ids.push_back(tokenizer.tokenize(text));
  return ids;
}

std::string to_text(const TokenizerComparison& comparison) {
  std::string text = comparison.file;
  switch (comparison.verdict()) {
    case TokenizerVerdict::Same:
      text += " gives the same tokens (" + base::plural(comparison.probes, "probe text") + ")\n";
      break;
    case TokenizerVerdict::Differs:
      text += " gives other tokens than the dataset has\n";
      break;
    case TokenizerVerdict::Unknown:
      text += ": whether it gives the same tokens is unknown\n";
      break;
  }
  for (const RuleDifference& each : comparison.differences) {
    text +=
        "  " + each.rule + ": " + each.dataset + " in the dataset, " + each.tokenizer + " there\n";
  }
  for (const std::string& each : comparison.not_followed)
    text += "  not followed here: " + each + "\n";
  if (comparison.first) {
    text += "  first probe text that differs (" + comparison.first->about + "): \"" +
            shown_piece(comparison.first->text) +
            "\"\n    dataset:   " + shown_pieces(comparison.first->dataset) +
            "\n    tokenizer: " + shown_pieces(comparison.first->tokenizer) + "\n";
  } else if (!comparison.differences.empty() && comparison.probes > 0) {
    text += "  " + base::plural(comparison.probes, "probe text") +
            " have the same tokens; others may not\n";
  }
  if (!comparison.not_declared.empty()) {
    text += "  not declared there, taken as the dataset's: " +
            base::join(comparison.not_declared, ", ") + "\n";
  }
  if (!comparison.advice.empty()) text += "  " + comparison.advice + "\n";
  return text;
}

std::string differences_line(const TokenizerComparison& comparison) {
  std::vector<std::string> parts;
  for (const RuleDifference& each : comparison.differences) {
    parts.push_back(each.rule + " is " + each.dataset + " in the dataset and " + each.tokenizer +
                    " there");
  }
  for (const std::string& each : comparison.not_followed) {
    parts.push_back("not followed here: " + each);
  }
  if (comparison.first) {
    parts.push_back("for example \"" + shown_piece(comparison.first->text) + "\" is " +
                    shown_pieces(comparison.first->dataset) + " in the dataset and " +
                    shown_pieces(comparison.first->tokenizer) + " there");
  }
  return base::join(parts, "; ");
}

}  // namespace regatta::trainer::interchange
