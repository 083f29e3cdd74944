// What is read of a tokenizer's files, and what cannot be.
#include "trainer/interchange/declared_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/interchange/tokenizer_files.h"

namespace regatta::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using trainer::interchange::DeclaredTokenizer;

class DeclaredTokenizerOf : public testing::Test {
 protected:
  [[nodiscard]] base::Path path() const { return directory_.path(); }
  [[nodiscard]] DeclaredTokenizer read(const base::Path& path) const {
    return trainer::interchange::read_tokenizer(base::posix_file_system(), path);
  }
  [[nodiscard]] DeclaredTokenizer read_json(const json& made) const {
    write_file(path() / "tokenizer.json", made.dump());
    return read(path() / "tokenizer.json");
  }
  // The error, which is one line that names `file`.
  [[nodiscard]] base::Error error_of(const base::Path& file) const {
    try {
      (void)read(file);
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path().string()));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
      EXPECT_LT(std::string(error.what()).size(), path().string().size() + 300);
      return error;
    }
    ADD_FAILURE() << file << " was read";
    return base::Error(base::Code::Developer, "");
  }
  const trainer::data::Vocabulary vocabulary_ =
      trainer::data::Vocabulary::parse(kSmallVocabulary, "small");

 private:
  TemporaryDirectory directory_;
};

TEST_F(DeclaredTokenizerOf, TokenizerJsonTellsEveryRule) {
  const DeclaredTokenizer found = read_json(tokenizer_json(vocabulary_, false, 77));
  EXPECT_EQ(found.file, (path() / "tokenizer.json").string());
  EXPECT_EQ(found.pieces, vocabulary_.pieces());
  EXPECT_EQ(found.clean_text, true);
  EXPECT_EQ(found.handle_chinese_chars, true);
  EXPECT_EQ(found.lowercase, false);
  EXPECT_EQ(found.strip_accents, false);  // null: as lowercase
  EXPECT_EQ(found.continuing_prefix, "##");
  EXPECT_EQ(found.word_limit, 77);
  EXPECT_THAT(found.special, testing::ElementsAre(testing::Pair("unknown", "[UNK]"),
                                                  testing::Pair("classify", "[CLS]"),
                                                  testing::Pair("separator", "[SEP]")));
  EXPECT_THAT(found.added, testing::IsEmpty());
  EXPECT_THAT(found.not_followed, testing::IsEmpty());
}

TEST_F(DeclaredTokenizerOf, OtherSpellingsOfTheSameAreRead) {
  const DeclaredTokenizer expected = read_json(tokenizer_json(vocabulary_));
  const std::vector<std::pair<const char*, std::function<void(json&)>>> cases = {
      {"no type of the model, as older files", [](json& j) { j["model"].erase("type"); }},
      {"BertProcessing",
       [](json& j) {
         j["post_processor"] = {{"type", "BertProcessing"},
                                {"sep", json::array({"[SEP]", 3})},
                                {"cls", json::array({"[CLS]", 2})}};
       }},
      {"a sequence of one",
       [](json& j) {
         j["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array({j["normalizer"]})}};
         j["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", json::array({j["pre_tokenizer"]})}};
       }},
      {"lengths",
       [](json& j) {
         j["truncation"] = {{"max_length", 512}};
         j["padding"] = {{"strategy", "BatchLongest"}};
       }},
      {"without what has a default",
       [](json& j) {
         j["normalizer"].erase("strip_accents");
         j["normalizer"].erase("clean_text");
         j["model"].erase("continuing_subword_prefix");
       }},
  };
  for (const auto& [name, change] : cases) {
    json changed = tokenizer_json(vocabulary_);
    change(changed);
    const DeclaredTokenizer found = read_json(changed);
    EXPECT_EQ(found.pieces, expected.pieces) << name;
    EXPECT_EQ(found.special, expected.special) << name;
    EXPECT_EQ(found.clean_text, true) << name;
    EXPECT_EQ(found.lowercase, true) << name;
    EXPECT_EQ(found.strip_accents, true) << name;
    EXPECT_EQ(found.word_limit, 200) << name;
    EXPECT_EQ(found.continuing_prefix, "##") << name;
    EXPECT_THAT(found.not_followed, testing::IsEmpty()) << name;
  }
}

// An unknown rule is never left out in silence.
TEST_F(DeclaredTokenizerOf, WhatIsNotFollowedIsTold) {
  const std::vector<std::tuple<const char*, std::function<void(json&)>, const char*>> cases = {
      {"BPE",
       [](json& j) {
         j["model"] = {{"type", "BPE"}, {"merges", json::array({"a b"})}};
       },
       "type 'BPE'"},
      {"BPE without a type",
       [](json& j) {
         j["model"] = {{"merges", json::array({"a b"})}};
       },
       "does not tell"},
      {"Unigram",
       [](json& j) {
         j["model"] = {{"type", "Unigram"}, {"vocab", {{"a", -1.5}}}};
       },
       "type 'Unigram'"},
      {"WordLevel", [](json& j) { j["model"]["type"] = "WordLevel"; }, "type 'WordLevel'"},
      {"NFKC",
       [](json& j) {
         j["normalizer"] = {{"type", "NFKC"}};
       },
       "normalizer of type 'NFKC'"},
      {"two normalizers",
       [](json& j) {
         j["normalizer"] = {{"type", "Sequence"},
                            {"normalizers", json::array({json{{"type", "NFD"}}, j["normalizer"]})}};
       },
       "normalizer of type 'Sequence'"},
      {"a key of the normalizer", [](json& j) { j["normalizer"]["fold_digits"] = true; },
       "normalizer has a key 'fold_digits'"},
      {"a pre-tokenizer",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Whitespace"}};
       },
       "pre_tokenizer of type 'Whitespace'"},
      {"no pre-tokenizer", [](json& j) { j["pre_tokenizer"] = nullptr; }, "no pre_tokenizer"},
      {"a key of the pre-tokenizer", [](json& j) { j["pre_tokenizer"]["more"] = 1; }, "'more'"},
      {"a key of the model", [](json& j) { j["model"]["dropout"] = 0.1; },
       "model has a key 'dropout'"},
      {"a key of the file", [](json& j) { j["spellcheck"] = true; }, "has a key 'spellcheck'"},
      {"a post-processor",
       [](json& j) {
         j["post_processor"] = {{"type", "ByteLevel"}};
       },
       "post_processor of type 'ByteLevel'"},
      {"a template with more",
       [](json& j) {
         auto& single = j["post_processor"]["single"];
         single.push_back(single[0]);
       },
       "puts other things around a text"},
      {"hostile type", [](json& j) { j["model"]["type"] = "\x1b[2J\n" + std::string(500, 'x'); },
       "\\x1b[2J\\n"},
  };
  for (const auto& [name, change, says] : cases) {
    json changed = tokenizer_json(vocabulary_);
    change(changed);
    const DeclaredTokenizer found = read_json(changed);
    ASSERT_EQ(found.not_followed.size(), 1U) << name;
    EXPECT_THAT(found.not_followed[0], HasSubstr(says)) << name;
    EXPECT_LT(found.not_followed[0].size(), 150U) << name;
  }
}

TEST_F(DeclaredTokenizerOf, VocabTxtTellsItsPiecesAndTheFileBesideItTheRest) {
  write_file(path() / "vocab.txt", kSmallVocabulary);
  for (const base::Path& given : {path(), path() / "vocab.txt"}) {
    std::filesystem::remove(path() / "tokenizer_config.json");
    const DeclaredTokenizer bare = read(given);
    EXPECT_EQ(bare.pieces, vocabulary_.pieces());
    EXPECT_FALSE(bare.lowercase || bare.strip_accents || bare.clean_text || bare.word_limit);
    write_file(path() / "tokenizer_config.json",
               R"({"do_lower_case": false, "strip_accents": null, "tokenize_chinese_chars": false,
                   "mask_token": {"content": "<mask>"}, "unk_token": "[UNK]"})");
    const DeclaredTokenizer found = read(given);
    EXPECT_EQ(found.lowercase, false);
    EXPECT_EQ(found.strip_accents, false);
    EXPECT_EQ(found.handle_chinese_chars, false);
    EXPECT_THAT(found.special, testing::ElementsAre(testing::Pair("unknown", "[UNK]"),
                                                    testing::Pair("mask", "<mask>")));
    EXPECT_THAT(found.not_followed, testing::IsEmpty());
  }
  write_file(path() / "tokenizer_config.json",
             R"({"do_basic_tokenize": false, "tokenizer_class": "RobertaTokenizer"})");
  EXPECT_EQ(read(path()).not_followed.size(), 2U);
}

TEST_F(DeclaredTokenizerOf, FilesThatContradictEachOtherAreTold) {
  write_file(path() / "tokenizer.json", tokenizer_json(vocabulary_).dump());
  write_file(path() / "tokenizer_config.json", R"({"do_lower_case": true})");
  EXPECT_THAT(read(path()).not_followed, testing::IsEmpty());
  for (const char* other : {R"({"do_lower_case": false})", R"({"strip_accents": false})",
                            R"({"tokenize_chinese_chars": false})"}) {
    write_file(path() / "tokenizer_config.json", other);
    const DeclaredTokenizer found = read(path());
    ASSERT_EQ(found.not_followed.size(), 1U) << other;
    EXPECT_THAT(found.not_followed[0], HasSubstr("files that differ: "));
    // Who names the one file alone means that.
    EXPECT_THAT(read(path() / "tokenizer.json").not_followed, testing::IsEmpty());
  }
}

TEST_F(DeclaredTokenizerOf, BadInputIsOneLine) {
  const std::string good = tokenizer_json(vocabulary_).dump();
  const auto with = [&](const std::function<void(json&)>& change) {
    json changed = tokenizer_json(vocabulary_);
    change(changed);
    return changed.dump();
  };
  std::string deep(10000, '[');
  const std::vector<std::tuple<const char*, std::string, const char*>> cases = {
      {"empty", "", "not a JSON object"},
      {"no JSON", "vocabulary", "not a JSON object"},
      {"a list", "[]", "not a JSON object"},
      {"cut", good.substr(0, good.size() / 2), "copy the file again"},
      {"more behind it", good + "}", "not a JSON object"},
      {"a NUL byte", good + std::string(1, '\0'), "NUL"},
      {"not UTF-8", "{\"model\": \"\xFF\"}", "not a JSON object"},
      {"10,000 deep", deep, "nests deeper than 32"},
      {"10,000 deep in a member", "{\"a\":" + deep, "nests deeper than 32"},
      {"nothing", "{}", "has no model"},
      {"model is text", with([](json& j) { j["model"] = "x"; }), "model is '\"x\"', not an object"},
      {"type is a number", with([](json& j) { j["model"]["type"] = 5; }), "type is '5'"},
      {"no vocabulary", with([](json& j) { j["model"].erase("vocab"); }), "has no vocab"},
      {"vocabulary is a list", with([](json& j) {
         j["model"]["vocab"] = {1, 2};
       }),
       "vocab is"},
      {"an id below 0", with([](json& j) { j["model"]["vocab"]["a"] = -1; }), "has the id '-1'"},
      {"an id with a fraction", with([](json& j) { j["model"]["vocab"]["a"] = 1.5; }), "'1.5'"},
      {"an id that is text", with([](json& j) { j["model"]["vocab"]["a"] = "1"; }), "has the id"},
      {"a large id", with([](json& j) { j["model"]["vocab"]["a"] = 1 << 20; }), "'1048576'"},
      {"one id twice", with([](json& j) { j["model"]["vocab"]["a"] = 6; }), "id 6 is of two"},
      {"a limit that is text",
       with([](json& j) { j["model"]["max_input_chars_per_word"] = "many"; }),
       "max_input_chars_per_word is"},
      {"a normalizer that is text", with([](json& j) { j["normalizer"] = "lower"; }),
       "normalizer is"},
      {"no type", with([](json& j) { j["normalizer"].erase("type"); }), "normalizer has no type"},
      {"lowercase is text", with([](json& j) { j["normalizer"]["lowercase"] = "yes"; }),
       "lowercase is '\"yes\"', not true or false"},
      {"added tokens", with([](json& j) { j["added_tokens"] = 1; }), "added_tokens is"},
      {"an added token without an id", with([](json& j) { j["added_tokens"][0].erase("id"); }),
       "no content, or no id"},
      {"hostile text",
       with([](json& j) { j["model"]["vocab"]["\x1b]0;\n\u202E" + std::string(5000, 'x')] = -1; }),
       "\\x1b]0;\\n\\u{202E}"},
  };
  for (const auto& [name, text, says] : cases) {
    SCOPED_TRACE(name);
    write_file(path() / "tokenizer.json", text);
    for (const base::Path& given : {path() / "tokenizer.json", path()}) {
      const base::Error error = error_of(given);
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(says));
      EXPECT_THAT(error.what(), HasSubstr("tokenizer.json"));
    }
  }
}

// It is not read, let alone parsed: 100 MB of it would be several GB of tree.
TEST_F(DeclaredTokenizerOf, AHundredMegabytesAreRefusedUnread) {
  write_file(path() / "tokenizer.json", "{");
  std::filesystem::resize_file(path() / "tokenizer.json", 100'000'000);
  const base::Error error = error_of(path());
  EXPECT_EQ(error.code(), base::Code::User);
  EXPECT_THAT(error.what(), HasSubstr("is larger than 67.1 MB"));
}

TEST_F(DeclaredTokenizerOf, WhatIsNoFileIsRefused) {
  EXPECT_EQ(error_of(path()).code(), base::Code::NotFound);  // an empty directory
  EXPECT_EQ(error_of(path() / "absent").code(), base::Code::NotFound);
  ASSERT_EQ(::mkfifo((path() / "pipe.json").c_str(), 0600), 0);
  const base::Error pipe = error_of(path() / "pipe.json");  // nobody writes into it
  EXPECT_EQ(pipe.code(), base::Code::User);
  EXPECT_THAT(pipe.what(), HasSubstr("neither a regular file nor a directory"));
}

}  // namespace
}  // namespace regatta::tests
