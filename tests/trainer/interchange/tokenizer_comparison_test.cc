// Tokenizers beside the rules of a dataset: what is noticed, and which tokens are shown.
#include "trainer/interchange/tokenizer_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "tests/base/faulty_file_system.h"
#include "tests/shared_data.h"
#include "tests/trainer/data/slow_tokenizer.h"
#include "tests/trainer/interchange/tokenizer_files.h"
#include "trainer/interchange/tokenizer_probes.h"

namespace regatta::tests {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using trainer::data::TokenizerOptions;
using trainer::data::Vocabulary;
using trainer::interchange::DeclaredTokenizer;
using trainer::interchange::TokenizerComparison;
using trainer::interchange::TokenizerVerdict;

DeclaredTokenizer declared(const json& made) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "tokenizer.json", made.dump());
  return trainer::interchange::read_tokenizer(base::posix_file_system(),
                                              directory.path() / "tokenizer.json");
}

TokenizerComparison compare(const Vocabulary& vocabulary, const TokenizerOptions& options,
                            const json& made) {
  return trainer::interchange::compare_tokenizers({vocabulary, options}, declared(made));
}

// The first `count` of them, as one text.
std::string beginning(const std::vector<std::string>& pieces, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < std::min(count, pieces.size()); ++i) {
    text += (i > 0 ? " " : "") + pieces[i];
  }
  return text;
}

TEST(TokenizerComparison, TheSameRulesGiveTheSameTokensOfEveryProbe) {
  for (const Vocabulary& vocabulary :
       {probe_vocabulary(), Vocabulary::parse(kSmallVocabulary, "small")}) {
    for (const bool lower_case : {true, false}) {
      for (const int limit : {1, 7, 100, 200, 1000}) {
        const TokenizerComparison found =
            compare(vocabulary, {lower_case, limit}, tokenizer_json(vocabulary, lower_case, limit));
        EXPECT_EQ(found.verdict(), TokenizerVerdict::Same) << trainer::interchange::to_text(found);
        EXPECT_GE(found.probes, 24);
        EXPECT_EQ(found.advice, "");
        EXPECT_THAT(trainer::interchange::to_text(found), HasSubstr("gives the same tokens"));
        EXPECT_THAT(found.not_declared, testing::IsEmpty());
      }
    }
  }
}

// Each probe has something in it that the vocabulary above gives tokens to, so that none is a
// comparison of unknown pieces.
TEST(TokenizerComparison, ProbesAreMostlyKnownPiecesAndUtf8) {
  const Vocabulary vocabulary = probe_vocabulary();
  for (const trainer::interchange::Probe& probe : trainer::interchange::fixed_probes()) {
    EXPECT_TRUE(base::is_utf8(probe.text)) << probe.about;
    const auto ids = slow_tokenize(probe.text, vocabulary, {true, 200});
    EXPECT_GT(ids.size(), 5U) << probe.about;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), vocabulary.special().unknown), 0) << probe.about;
  }
}

struct RuleCase {
  const char* name;
  bool lower_case;  // of the dataset
  std::function<void(json&)> change;
  const char* rule;
  const char* dataset;
  const char* tokenizer;
  // Of the first probe that differs; "": none does.
  const char* about;
  const char* dataset_tokens;
  const char* tokenizer_tokens;
};

// Tokens by hand: the vocabulary has a piece for every character.
std::vector<RuleCase> rule_cases() {
  const auto normalizer = [](const char* key, bool value) {
    return [=](json& j) { j["normalizer"][key] = value; };
  };
  return {
      {"case kept", true,
       [](json& j) {
         j["normalizer"]["lowercase"] = false;
         j["normalizer"]["strip_accents"] = true;
       },
       "lower_case", "true", "false", "prose", "t ##h ##e q", "T ##h ##e q"},
      {"lower case", false,
       [](json& j) {
         j["normalizer"]["lowercase"] = true;
         j["normalizer"]["strip_accents"] = false;
       },
       "lower_case", "false", "true", "prose", "T ##h ##e q", "t ##h ##e q"},
      {"accents kept", true, normalizer("strip_accents", false), "strip_accents", "true", "false",
       "casing of other scripts", "", ""},
      {"accents dropped", false, normalizer("strip_accents", true), "strip_accents", "false",
       "true", "casing of other scripts", "", ""},
      {"ideographs together", true, normalizer("handle_chinese_chars", false),
       "handle_chinese_chars", "true", "false", "ideographs", "漢 字 仮 名", "漢 ##字 ##仮 ##名"},
      {"text as it is", true, normalizer("clean_text", false), "clean_text", "true", "false",
       "control characters", "b ##o ##a", "b ##o ##\x01 ##a"},
      {"another prefix", true, [](json& j) { j["model"]["continuing_subword_prefix"] = "@@"; },
       "continuing prefix", "'##'", "'@@'", "prose", "t ##h ##e q", "[UNK] [UNK]"},
      {"a smaller limit", true, [](json& j) { j["model"]["max_input_chars_per_word"] = 40; },
       "word limit", "200 characters", "40 characters", "a word of 41 characters", "a ##a ##a",
       "[UNK]"},
      {"a larger limit", true, [](json& j) { j["model"]["max_input_chars_per_word"] = 4000000000; },
       "word limit", "200 characters", "1073741824 characters", "a word of 201 characters", "[UNK]",
       "a ##a ##a"},
      {"another unknown token", true, [](json& j) { j["model"]["unk_token"] = "[MASK]"; },
       "unknown token", "'[UNK]'", "'[MASK]'", "a word of 201 characters", "[UNK]", "[MASK]"},
      {"another separator", true,
       [](json& j) { j["post_processor"]["single"][2]["SpecialToken"]["id"] = "</s>"; },
       "separator token", "'[SEP]'", "'</s>'", "", "", ""},
      {"an added token", true,
       [](json& j) {
         j["added_tokens"].push_back({{"id", j["model"]["vocab"].size()}, {"content", "[ENT]"}});
       },
       "added tokens", "none", "1 piece that no rule is applied to, the first is '[ENT]'",
       "an added token", "b ##o ##a ##t [", "b ##o ##a ##t [ENT] w"},
  };
}

TEST(TokenizerComparison, EachRuleThatDiffersIsToldAndShown) {
  const Vocabulary vocabulary = probe_vocabulary();
  for (const RuleCase& each : rule_cases()) {
    SCOPED_TRACE(each.name);
    json made = tokenizer_json(vocabulary, each.lower_case);
    made["normalizer"]["strip_accents"] = each.lower_case;
    each.change(made);
    const TokenizerComparison found = compare(vocabulary, {each.lower_case, 200}, made);
    EXPECT_EQ(found.verdict(), TokenizerVerdict::Differs);
    const std::string text = trainer::interchange::to_text(found);
    const auto told =
        std::find_if(found.differences.begin(), found.differences.end(),
                     [&](const auto& difference) { return difference.rule == each.rule; });
    ASSERT_NE(told, found.differences.end()) << text;
    EXPECT_EQ(told->dataset, each.dataset);
    EXPECT_EQ(told->tokenizer, each.tokenizer);
    EXPECT_THAT(text, HasSubstr("gives other tokens"));
    EXPECT_THAT(text, HasSubstr(std::string("  ") + each.rule + ": " + each.dataset));
    EXPECT_NE(found.advice, "");
    if (std::string(each.about).empty()) {
      EXPECT_FALSE(found.first);
      continue;
    }
    ASSERT_TRUE(found.first) << text;
    EXPECT_EQ(found.first->about, each.about);
    EXPECT_NE(found.first->dataset, found.first->tokenizer);
    const auto expect_begins = [](const std::vector<std::string>& pieces, const char* wanted) {
      const std::string all = wanted;
      if (all.empty()) return;
      const auto count = static_cast<std::size_t>(1 + std::count(all.begin(), all.end(), ' '));
      EXPECT_EQ(beginning(pieces, count), all);
    };
    expect_begins(found.first->dataset, each.dataset_tokens);
    expect_begins(found.first->tokenizer, each.tokenizer_tokens);
  }
}

// The side of the dataset against the slow tokenizer, whose words are held against Python's.
TEST(TokenizerComparison, TheDatasetsTokensAreThoseOfTheSlowTokenizer) {
  const Vocabulary vocabulary = probe_vocabulary();
  for (const RuleCase& each : rule_cases()) {
    json made = tokenizer_json(vocabulary, each.lower_case);
    made["normalizer"]["strip_accents"] = each.lower_case;
    each.change(made);
    const TokenizerComparison found = compare(vocabulary, {each.lower_case, 200}, made);
    if (!found.first) continue;
    std::vector<std::string> pieces;
    for (const auto id : slow_tokenize(found.first->text, vocabulary, {each.lower_case, 200})) {
      pieces.push_back(vocabulary.piece(id));
    }
    EXPECT_EQ(found.first->dataset, pieces) << each.name;
  }
}

TEST(TokenizerComparison, TheFirstPieceThatDiffersIsNamedById) {
  const Vocabulary vocabulary = Vocabulary::parse(kSmallVocabulary, "small");
  const auto swapped = [&](const char* a, const char* b) {
    json made = tokenizer_json(vocabulary);
    std::swap(made["model"]["vocab"][a], made["model"]["vocab"][b]);
    return made;
  };
  const TokenizerComparison two = compare(vocabulary, {true, 200}, swapped("##s", "##ing"));
  ASSERT_EQ(two.differences.size(), 1U);
  EXPECT_EQ(two.differences[0].rule, "vocabulary");
  EXPECT_EQ(two.differences[0].dataset, "'##s' as id 9 of 39");
  EXPECT_EQ(two.differences[0].tokenizer, "'##ing' as id 9 of 39");
  ASSERT_TRUE(two.first);
  EXPECT_EQ(two.first->about, "a piece that differs");
  EXPECT_EQ(two.first->text, "as");
  EXPECT_THAT(two.first->dataset, ElementsAre("a=11", "##s=9"));  // the pieces are the same
  EXPECT_THAT(two.first->tokenizer, ElementsAre("a=11", "##s=10"));
  EXPECT_EQ(two.advice,
            "to train on its tokens, prepare the data again: --vocab with its vocab.txt, "
            "--word-limit 200");

  json more = tokenizer_json(vocabulary);
  more["model"]["vocab"]["sail"] = 39;
  EXPECT_EQ(compare(vocabulary, {true, 200}, more).differences[0].dataset,
            "no piece as id 39 of 39");
  json fewer = tokenizer_json(vocabulary);
  fewer["model"]["vocab"].erase("##9");
  EXPECT_EQ(compare(vocabulary, {true, 200}, fewer).differences[0].tokenizer,
            "no piece as id 38 of 38");
  json gap = tokenizer_json(vocabulary);
  gap["model"]["vocab"].erase("boat");
  EXPECT_EQ(compare(vocabulary, {true, 200}, gap).differences[0].tokenizer,
            "no piece as id 6 of 39");
}

// A rule that is not known is no rule that is the same.
TEST(TokenizerComparison, WhatIsNotFollowedIsNeverTheSame) {
  const Vocabulary vocabulary = probe_vocabulary();
  const std::vector<std::function<void(json&)>> changes = {
      [](json& j) {
        j["model"] = {{"type", "BPE"}, {"vocab", j["model"]["vocab"]}};
      },
      [](json& j) {
        j["model"] = {{"type", "Unigram"}};
      },
      [](json& j) { j["model"]["more"] = 1; },
      [](json& j) {
        j["normalizer"] = {{"type", "Precompiled"}};
      },
      [](json& j) { j["normalizer"]["more"] = false; },
      [](json& j) {
        j["pre_tokenizer"] = {{"type", "Metaspace"}};
      },
      [](json& j) { j["pre_tokenizer"] = nullptr; },
      [](json& j) {
        j["post_processor"] = {{"type", "RobertaProcessing"}};
      },
      [](json& j) { j["more"] = nullptr; },
  };
  for (const auto& change : changes) {
    json made = tokenizer_json(vocabulary);
    change(made);
    const TokenizerComparison found = compare(vocabulary, {true, 200}, made);
    const std::string text = trainer::interchange::to_text(found);
    EXPECT_EQ(found.verdict(), TokenizerVerdict::Unknown) << text;
    EXPECT_EQ(found.probes, 0);  // under which rules?
    EXPECT_THAT(text, HasSubstr("is unknown\n  not followed here: "));
    EXPECT_THAT(text, testing::Not(HasSubstr("the same tokens (")));
    EXPECT_THAT(found.advice, HasSubstr("`prepare` has no such rules"));
  }
}

TEST(TokenizerComparison, ABareVocabularyIsComparedAndSaysWhatItLeavesOut) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "vocab.txt", kSmallVocabulary);
  const Vocabulary vocabulary = Vocabulary::parse(kSmallVocabulary, "small");
  const DeclaredTokenizer bare =
      trainer::interchange::read_tokenizer(base::posix_file_system(), directory.path());
  for (const bool lower_case : {true, false}) {
    const TokenizerComparison found =
        trainer::interchange::compare_tokenizers({vocabulary, {lower_case, 150}}, bare);
    EXPECT_EQ(found.verdict(), TokenizerVerdict::Same);
    EXPECT_THAT(found.not_declared,
                ElementsAre("lower_case", "strip_accents", "handle_chinese_chars", "clean_text",
                            "continuing prefix", "word limit"));
    EXPECT_THAT(trainer::interchange::to_text(found),
                HasSubstr("not declared there, taken as the dataset's: lower_case, "));
  }
  write_file(directory.path() / "tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(trainer::interchange::compare_tokenizers(
                {vocabulary, {true, 200}},
                trainer::interchange::read_tokenizer(base::posix_file_system(), directory.path()))
                .verdict(),
            TokenizerVerdict::Differs);
}

// Terminals get no control character, and no screens of text.
TEST(TokenizerComparison, HostilePiecesAreShownSafely) {
  const Vocabulary vocabulary = Vocabulary::parse(kSmallVocabulary, "small");
  json made = tokenizer_json(vocabulary);
  const std::string hostile = "\x1b[2J\r\n\u202E" + std::string(1 << 20, 'x');
  made["model"]["vocab"].erase("boat");
  made["model"]["vocab"][hostile] = 6;
  made["model"]["unk_token"] = hostile;
  made["model"]["continuing_subword_prefix"] = hostile;
  made["added_tokens"][0]["content"] = hostile;
  made["added_tokens"][0]["id"] = 6;
  const TokenizerComparison found = compare(vocabulary, {true, 200}, made);
  for (const std::string& text : {trainer::interchange::to_text(found),
                                  trainer::interchange::differences_line(found) + "\n"}) {
    EXPECT_LT(text.size(), 4000U);
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) {
      return c == '\n' || static_cast<unsigned char>(c) >= ' ';
    })) << text;
    EXPECT_THAT(text, HasSubstr("\\x1b[2J"));
    EXPECT_THAT(text, testing::Not(HasSubstr("\u202E")));
  }
  EXPECT_EQ(trainer::interchange::differences_line(found).find('\n'), std::string::npos);
}

// --- published files ---

Vocabulary published(const std::string& name) {
  return Vocabulary::load(shared_path("data/vocab") / name / "vocab.txt",
                          base::posix_file_system());
}

TEST(TokenizerComparison, ThePublishedTokenizerOfBertBaseUncased) {
  REGATTA_NEED_SHARED("data/vocab");
  const base::Path directory = shared_path("data/vocab") / "bert-base-uncased";
  const DeclaredTokenizer theirs =
      trainer::interchange::read_tokenizer(base::posix_file_system(), directory);
  EXPECT_THAT(theirs.not_followed, testing::IsEmpty());
  const Vocabulary uncased = published("bert-base-uncased");
  const TokenizerComparison same =
      trainer::interchange::compare_tokenizers({uncased, {true, 100}}, theirs);
  EXPECT_EQ(same.verdict(), TokenizerVerdict::Same) << trainer::interchange::to_text(same);

  const TokenizerComparison limit =
      trainer::interchange::compare_tokenizers({uncased, {true, 200}}, theirs);
  ASSERT_EQ(limit.differences.size(), 1U);
  EXPECT_EQ(limit.differences[0].rule, "word limit");
  ASSERT_TRUE(limit.first);
  EXPECT_EQ(limit.first->text, std::string(101, 'a'));
  EXPECT_THAT(limit.first->tokenizer, ElementsAre("[UNK]"));

  const TokenizerComparison cased =
      trainer::interchange::compare_tokenizers({uncased, {false, 100}}, theirs);
  EXPECT_EQ(cased.differences[0].rule, "lower_case");
  ASSERT_TRUE(cased.first);
  EXPECT_EQ(beginning(cased.first->tokenizer, 4), "the quick brown fox");
  EXPECT_EQ(beginning(cased.first->dataset, 4), "[UNK] quick brown fox");

  // By the lines of the two files.
  const Vocabulary other = published("bert-base-cased");
  std::ifstream ours(shared_path("data/vocab") / "bert-base-cased" / "vocab.txt");
  std::ifstream there(directory / "vocab.txt");
  std::string a, b;
  int line = 0;
  while (std::getline(ours, a) && std::getline(there, b) && a == b) ++line;
  const TokenizerComparison pieces =
      trainer::interchange::compare_tokenizers({other, {true, 100}}, theirs);
  EXPECT_EQ(pieces.differences[0].rule, "vocabulary");
  EXPECT_EQ(pieces.differences[0].dataset,
            "'" + a + "' as id " + std::to_string(line) + " of 28996");
  EXPECT_EQ(pieces.differences[0].tokenizer,
            "'" + b + "' as id " + std::to_string(line) + " of 30522");
}

// Under what a tokenizer.json declares a text gets the ids that Google's own program has made of
// it.
TEST(TokenizerComparison, DeclaredRulesGiveTheIdsOfGooglesReference) {
  REGATTA_NEED_SHARED("data/tokenizer_golden");
  std::vector<json> rows;
  std::ifstream file(shared_path("data/tokenizer_golden") / "google_reference_ids.jsonl");
  for (std::string line; std::getline(file, line);) rows.push_back(json::parse(line));
  std::vector<std::string> texts;
  for (const json& row : rows) texts.push_back(row.at("text").get<std::string>());
  int compared = 0;
  for (const auto& [model, unused] : rows.at(0).at("ids").items()) {
    const std::size_t slash = model.find('/');
    const Vocabulary vocabulary = published(model.substr(0, slash));
    const bool lower_case = model.substr(slash + 1) == "lower";
    const auto ids = trainer::interchange::declared_ids(
        {vocabulary, {!lower_case, 5}}, declared(tokenizer_json(vocabulary, lower_case)), texts);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(ids[i], rows[i].at("ids").at(model).get<std::vector<int>>()) << model << texts[i];
      ++compared;
    }
  }
  EXPECT_EQ(compared, 2840);
}

// And those of Hugging Face's JavaScript program, which reads tokenizer.json.
TEST(TokenizerComparison, DeclaredRulesGiveTheIdsOfTransformersJs) {
  REGATTA_NEED_SHARED("data/tokenizer_golden");
  const json rows =
      json::parse(file_text(shared_path("data/tokenizer_golden") / "hf_transformersjs_bert.json"));
  for (const json& row : rows) {
    const Vocabulary vocabulary = published(row.at("vocab").get<std::string>());
    const bool lower_case = row.at("do_lower_case").get<bool>();
    auto ids =
        trainer::interchange::declared_ids({vocabulary, {!lower_case, 5}},
                                           declared(tokenizer_json(vocabulary, lower_case, 100)),
                                           {row.at("text").get<std::string>()})
            .front();
    ids.insert(ids.begin(), vocabulary.special().classify);
    ids.push_back(vocabulary.special().separator);
    EXPECT_EQ(ids, row.at("ids").get<std::vector<int>>()) << row.at("model") << row.at("case");
  }
  EXPECT_EQ(rows.size(), 44U);
}

}  // namespace
}  // namespace regatta::tests
