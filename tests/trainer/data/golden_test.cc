// Published test cases and reference ids (../shared/data/README.md, section 4). Every case of every
// file runs, except those that belong to another design, which are named here.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "tests/shared_data.h"
#include "tests/trainer/data/sha256.h"
#include "trainer/data/tokenizer.h"

namespace regatta::trainer {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<data::TokenId>;

const char* const kFolder = "data/tokenizer_golden";

Json load(const std::string& name) {
  std::ifstream file(tests::shared_path(kFolder) / name);
  return Json::parse(file);
}

// A vocabulary with its tokenizer.
struct Model {
  Model(data::Vocabulary v, const data::TokenizerOptions& options)
      : vocabulary(std::move(v)), pieces(vocabulary, options), tokenizer(pieces) {}
  data::Vocabulary vocabulary;
  data::WordPiece pieces;
  data::Tokenizer tokenizer;

  Ids ids(const std::string& text) {
    Ids result;
    tokenizer.tokenize(text, result);
    return result;
  }
};

Model& published(const std::string& name, bool lower_case,
                 std::map<std::string, std::unique_ptr<Model>>& models, int word_limit = 200) {
  std::unique_ptr<Model>& model =
      models[name + std::to_string(lower_case) + std::to_string(word_limit)];
  if (!model) {
    const base::Path path = tests::shared_path("data/vocab") / name / "vocab.txt";
    model = std::make_unique<Model>(data::Vocabulary::load(path, base::posix_file_system()),
                                    data::TokenizerOptions{lower_case, word_limit});
  }
  return *model;
}

std::string lines_of(const Json& pieces) {
  std::string text;
  for (const Json& piece : pieces) text += piece.get<std::string>() + "\n";
  return text;
}

// Test vocabularies lack special pieces; added at the end, they change no id.
data::Vocabulary with_specials(std::string text) {
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    if (("\n" + text).find("\n" + std::string(special) + "\n") == std::string::npos) {
      text += std::string(special) + "\n";
    }
  }
  return data::Vocabulary::parse(text, "test");
}

TEST(Golden, GoogleReferenceIds) {
  REGATTA_NEED_SHARED(kFolder);
  std::map<std::string, std::unique_ptr<Model>> models;
  std::ifstream file(tests::shared_path(kFolder) / "google_reference_ids.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    const Json row = Json::parse(line);
    const auto text = row.at("text").get<std::string>();
    for (const auto& [name, ids] : row.at("ids").items()) {
      const std::size_t slash = name.find('/');
      Model& model = published(name.substr(0, slash), name.substr(slash + 1) == "lower", models);
      EXPECT_EQ(model.ids(text), ids.get<Ids>()) << name << ": " << text;
      ++cases;
    }
  }
  EXPECT_EQ(cases, 2840);
}

// The limit decides about longer words only.
TEST(Golden, ReferenceTextsHardlyDependOnTheWordLimit) {
  REGATTA_NEED_SHARED(kFolder);
  std::map<std::string, std::unique_ptr<Model>> models;
  std::ifstream file(tests::shared_path(kFolder) / "google_reference_ids.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json row = Json::parse(line);
    const auto text = row.at("text").get<std::string>();
    data::BasicTokenizer basic(true);
    bool has_long = false;
    for (const auto& word : basic.split(text)) has_long |= word.code_points > 100;
    if (has_long) continue;
    EXPECT_EQ(published("bert-base-uncased", true, models, 100).ids(text),
              row.at("ids").at("bert-base-uncased/lower").get<Ids>());
  }
}

TEST(Golden, CorpusDigests) {
  REGATTA_NEED_SHARED(kFolder);
  std::map<std::string, std::unique_ptr<Model>> models;
  Model& model = published("bert-base-uncased", true, models);
  for (const Json& row : load("corpus_digests.json")) {
    const auto name = row.at("file").get<std::string>();
    std::ifstream file(tests::shared_path("data") / name.substr(0, name.find(' ')));
    tests::Sha256 sha;
    std::size_t tokens = 0;
    int lines = 0;
    for (std::string line; lines < row.at("lines").get<int>() && std::getline(file, line);) {
      if (line.empty()) continue;
      ++lines;
      const Ids ids = model.ids(line);
      tokens += ids.size();
      sha.update({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(data::TokenId)});
    }
    EXPECT_EQ(tokens, row.at("tokens").get<std::size_t>());
    EXPECT_EQ(sha.hex(), row.at("sha256_of_le_int32_ids").get<std::string>()) << name;
  }
}

TEST(Golden, TransformersJs) {
  REGATTA_NEED_SHARED(kFolder);
  std::map<std::string, std::unique_ptr<Model>> models;
  for (const Json& row : load("hf_transformersjs_bert.json")) {
    Model& model =
        published(row.at("vocab").get<std::string>(), row.at("do_lower_case").get<bool>(), models);
    Ids ids{model.vocabulary.special().classify};
    model.tokenizer.tokenize(row.at("text").get<std::string>(), ids);
    ids.push_back(model.vocabulary.special().separator);
    EXPECT_EQ(ids, row.at("ids").get<Ids>()) << row.at("model") << " " << row.at("case");
  }
}

TEST(Golden, LlamaCpp) {
  REGATTA_NEED_SHARED(kFolder);
  std::map<std::string, std::unique_ptr<Model>> models;
  for (const Json& row : load("llamacpp_bert_bge.json")) {
    Model& model =
        published(row.at("vocab").get<std::string>(), row.at("do_lower_case").get<bool>(), models);
    EXPECT_EQ(model.ids(row.at("text").get<std::string>()), row.at("ids").get<Ids>())
        << row.at("text");
  }
}

TEST(Golden, PairsWithSpecialTokens) {
  REGATTA_NEED_SHARED(kFolder);
  std::map<std::string, std::unique_ptr<Model>> models;
  for (const Json& row : load("pairs_with_special_tokens.json")) {
    Model& model =
        published(row.at("vocab").get<std::string>(), row.at("do_lower_case").get<bool>(), models);
    Ids ids{model.vocabulary.special().classify};
    model.tokenizer.tokenize(row.at("text").get<std::string>(), ids);
    ids.push_back(model.vocabulary.special().separator);
    std::vector<int> types(ids.size(), 0);
    if (row.contains("text_pair")) {
      model.tokenizer.tokenize(row.at("text_pair").get<std::string>(), ids);
      ids.push_back(model.vocabulary.special().separator);
    }
    types.resize(ids.size(), 1);
    EXPECT_EQ(ids, row.at("ids").get<Ids>()) << row.at("text");
    EXPECT_EQ(types, row.at("token_type_ids").get<std::vector<int>>()) << row.at("text");
  }
}

template <typename Rules>
std::vector<std::string> words(const std::string& text, const Rules& rules) {
  data::BasicTokenizer basic(rules);
  std::vector<std::string> result;
  for (const auto& word : basic.split(text)) result.emplace_back(word.text);
  return result;
}

// Options of Hugging Face's BasicTokenizer that Google's code has not: accents that are stripped
// without lower-casing or stay with it, control characters that stay.
bool has_foreign_option(const Json& row) {
  const bool lower_case = row.at("do_lower_case").get<bool>();
  return row.value("strip_accents", lower_case) != lower_case ||
         !row.value("remove_control_chars", true);
}

TEST(Golden, BasicTokenizerUnitTests) {
  REGATTA_NEED_SHARED(kFolder);
  int foreign = 0;
  for (const Json& row : load("unit_tests_basic_tokenizer.json")) {
    const bool lower_case = row.at("do_lower_case").get<bool>();
    const auto expected = row.at("tokens").get<std::vector<std::string>>();
    const auto text = row.at("text").get<std::string>();
    const data::WordRules rules{.clean_text = row.value("remove_control_chars", true),
                                .lower_case = lower_case,
                                .strip_accents = row.value("strip_accents", lower_case)};
    EXPECT_EQ(words(text, rules), expected) << row.at("source");
    if (has_foreign_option(row)) {
      ++foreign;
    } else {
      EXPECT_EQ(words(text, lower_case), expected) << row.at("source");
    }
  }
  EXPECT_EQ(foreign, 3);
}

TEST(Golden, WordPieceUnitTests) {
  REGATTA_NEED_SHARED(kFolder);
  for (const Json& row : load("unit_tests_wordpiece.json")) {
    std::string text;
    if (row.at("vocab").is_string()) {
      ASSERT_EQ(row.at("vocab"), "tf_text_vocab");
      text = base::posix_file_system().read(tests::shared_path(kFolder) / "tf_text_vocab.txt",
                                            1 << 20);
    } else {
      text = lines_of(row.at("vocab"));
    }
    Model model(with_specials(text), {row.at("do_lower_case").get<bool>(), 200});
    const Ids ids = model.ids(row.at("text").get<std::string>());
    std::vector<std::string> pieces;
    for (const data::TokenId id : ids) pieces.push_back(model.vocabulary.piece(id));
    EXPECT_EQ(pieces, row.at("tokens").get<std::vector<std::string>>()) << row.at("text");
    if (row.contains("ids")) {
      EXPECT_EQ(ids, row.at("ids").get<Ids>());
    }
  }
}

// Not BERT's normaliser but tensorflow/text's: NFKC case folding, and control characters become
// spaces. The other cases must give the same words before and after their normaliser.
TEST(Golden, NormalizersOfOtherDesigns) {
  REGATTA_NEED_SHARED(kFolder);
  const std::set<std::string> named = {"Te\x11st #1.", "a\u01F2", "\u1E9B\u0323"};
  int foreign = 0;
  for (const Json& row : load("normalizer_cases.json")) {
    const auto input = row.at("input").get<std::string>();
    if (named.count(input) > 0) {
      ++foreign;
      continue;
    }
    const bool lower_case = row.contains("opts") ? row["opts"].at("lowercase").get<bool>()
                                                 : row.at("lower_nfd_strip").get<bool>();
    EXPECT_EQ(words(input, lower_case), words(row.at("output").get<std::string>(), lower_case))
        << input;
  }
  EXPECT_EQ(foreign, 3);
}

TEST(Golden, Sha256OfAbc) {
  tests::Sha256 sha;
  sha.update("a");
  sha.update("bc");
  EXPECT_EQ(sha.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace regatta::trainer
