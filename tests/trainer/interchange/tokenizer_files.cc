#include "tests/trainer/interchange/tokenizer_files.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "trainer/data/unicode.h"
#include "trainer/interchange/tokenizer_probes.h"

namespace regatta::tests {

trainer::data::Vocabulary probe_vocabulary() {
  namespace unicode = trainer::data::unicode;
  const unicode::Characters& characters = unicode::Characters::instance();
  std::set<char32_t> wanted{unicode::kFinalSigma, unicode::kSmallSigma};
  for (const trainer::interchange::Probe& probe : trainer::interchange::fixed_probes()) {
    for (std::size_t i = 0; i < probe.text.size();) {
      const unicode::Decoded next = unicode::decode(std::string_view(probe.text).substr(i));
      i += next.length;
      std::u32string forms(1, next.code_point);
      characters.append_lower(next.code_point, forms);
      characters.append_decomposition(next.code_point, forms);
      characters.append_folded(next.code_point, forms);
      for (const char32_t c : forms) {
        if (!characters.space(c)) wanted.insert(c);
      }
    }
  }
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const char32_t c : wanted) {
    std::string letter;
    unicode::append_utf8(c, letter);
    text += letter + "\n##" + letter + "\n";
  }
  return trainer::data::Vocabulary::parse(text, "of the probes");
}

nlohmann::json tokenizer_json(const trainer::data::Vocabulary& vocabulary, bool lower_case,
                              int word_limit) {
  using nlohmann::json;
  json pieces = json::object();
  json added = json::array();
  for (trainer::data::TokenId id = 0; id < vocabulary.size(); ++id) {
    pieces[vocabulary.piece(id)] = id;
    if (!vocabulary.is_special(id)) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.piece(id)},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  }
  const auto special = [](const char* piece) {
    return json{{"SpecialToken", {{"id", piece}, {"type_id", 0}}}};
  };
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", lower_case}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", json::array({special("[CLS]"), text, special("[SEP]")})}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", word_limit},
            {"vocab", pieces}}}};
}

}  // namespace regatta::tests
