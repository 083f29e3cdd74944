#include "trainer/data/documents.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/prepared.h"
#include "tests/trainer/data/slow_tokenizer.h"
#include "trainer/data/document_encoder.h"
#include "trainer/data/document_spill.h"

namespace regatta::trainer {
namespace {

using Strings = std::vector<std::string>;

Strings documents(std::string_view text) {
  Strings result;
  (void)data::split_documents(text, result);
  return result;
}

TEST(Documents, AreSeparatedByBlankLines) {
  EXPECT_EQ(documents(""), Strings{});
  EXPECT_EQ(documents("\n \t\r\n\n"), Strings{});
  EXPECT_EQ(documents("one"), Strings{"one"});
  EXPECT_EQ(documents("one\ntwo\n\nthree"), (Strings{"one\ntwo", "three"}));
  EXPECT_EQ(documents("\n\none\n\n\n\ntwo\n"), (Strings{"one", "two"}));
  EXPECT_EQ(documents("one\r\n\r\ntwo\r\n"), (Strings{"one", "two"}));
  EXPECT_EQ(documents("  one \n \f \n\ttwo"), (Strings{"one", "two"}));
  // Only ASCII white space makes a line blank.
  EXPECT_EQ(documents("one\n\u00A0\ntwo"), Strings{"one\n\u00A0\ntwo"});
}

TEST(Documents, ReplaceIllFormedUtf8) {
  Strings result;
  EXPECT_EQ(data::split_documents("a\xFF\n\nb\xC3\nc\xE2\x82", result), 3);
  EXPECT_EQ(result, (Strings{"a\uFFFD", "b\uFFFD\nc\uFFFD"}));
}

TEST(Documents, LastBreak) {
  EXPECT_EQ(data::last_document_break(""), 0U);
  EXPECT_EQ(data::last_document_break("one\ntwo\n"), 0U);
  EXPECT_EQ(data::last_document_break("one\n\ntwo"), 5U);
  EXPECT_EQ(data::last_document_break("one\n\ntwo\n \t\nthree\nfour"), 12U);
  EXPECT_EQ(data::last_document_break("\none"), 1U);
  EXPECT_EQ(data::last_document_break("one\n  "), 0U);  // the line may go on
}

// Cutting a text at its last break never changes its documents.
TEST(Documents, CuttingChangesNothing) {
  std::mt19937 random(31);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned i = 0; i < random() % 40U; ++i) text += "a \n\n\r"[random() % 5U];
    const std::size_t cut = data::last_document_break(text);
    Strings parts = documents(text.substr(0, cut));
    for (std::string& rest : documents(text.substr(cut))) parts.push_back(std::move(rest));
    ASSERT_EQ(parts, documents(text)) << testing::PrintToString(text);
  }
}

struct SentenceCase {
  std::string line;
  Strings expected;
};

TEST(Sentences, NamedCases) {
  const SentenceCase cases[] = {
      {"", {}},
      {"No end", {"No end"}},
      {"One. Two! Three? Four.", {"One.", "Two!", "Three?", "Four."}},
      {"He said \"Go.\" She went.", {"He said \"Go.\"", "She went."}},
      {"(It rained.) We stayed.", {"(It rained.)", "We stayed."}},
      {"Wait... what? Yes.", {"Wait... what?", "Yes."}},
      {"Wait... What? Yes.", {"Wait...", "What?", "Yes."}},
      {"Mr. Smith met J. S. Bach.", {"Mr. Smith met J. S. Bach."}},
      {"In the U.S. Congress met.", {"In the U.S. Congress met."}},
      {"It cost 3.50 today. Good.", {"It cost 3.50 today.", "Good."}},
      {"It ended in 1990. 1991 was better.", {"It ended in 1990.", "1991 was better."}},
      {"End.  Two spaces.", {"End.", "Two spaces."}},
      {"e.g. this. and that.", {"e.g. this. and that."}},
      {"\u4E00\u3002\u4E8C\uFF01\u4E09\uFF1F", {"\u4E00\u3002", "\u4E8C\uFF01", "\u4E09\uFF1F"}},
      {"\u201CYes.\u201D \u00C9t\u00E9.", {"\u201CYes.\u201D", "\u00C9t\u00E9."}},
      {"... . !", {"...", ".", "!"}},
  };
  for (const SentenceCase& c : cases) {
    std::vector<std::string_view> parts;
    data::split_sentences(c.line, parts);
    EXPECT_EQ(Strings(parts.begin(), parts.end()), c.expected) << c.line;
  }
}

data::Vocabulary small_vocabulary() {
  return data::Vocabulary::parse(tests::kSmallVocabulary, "test");
}

TEST(DocumentEncoder, ShortLinesAreSentences) {
  const data::Vocabulary vocabulary = small_vocabulary();
  const data::WordPiece pieces(vocabulary, {});
  data::DocumentEncoder encoder(pieces, vocabulary);
  data::EncodedDocuments out;
  encoder.encode("The boat. The wind.\nrowing", out);
  encoder.encode("\u200B", out);  // no token
  encoder.encode("a", out);
  EXPECT_EQ(out.sentence_tokens, (std::vector<std::uint32_t>{6, 2, 1}));
  EXPECT_EQ(out.document_sentences, (std::vector<std::uint32_t>{2, 0, 1}));
  EXPECT_EQ(out.ids.size(), 9U);
}

TEST(DocumentEncoder, ParagraphsAreCutAtSentences) {
  const data::Vocabulary vocabulary = small_vocabulary();
  const data::WordPiece pieces(vocabulary, {});
  data::DocumentEncoder encoder(pieces, vocabulary);
  std::string line;
  for (int i = 0; i < 13; ++i) line += "The boat the boat. ";
  data::EncodedDocuments out;
  encoder.encode(line, out);
  EXPECT_EQ(out.sentence_tokens, std::vector<std::uint32_t>(13, 5));  // 65 tokens
}

TEST(DocumentEncoder, EndlessSentencesAreCutAtWords) {
  const data::Vocabulary vocabulary = small_vocabulary();
  const data::WordPiece pieces(vocabulary, {});
  data::DocumentEncoder encoder(pieces, vocabulary);
  std::string line;
  for (int i = 0; i < 400; ++i) line += "rowing boats abc ";  // 2 + 2 + 3 tokens
  data::EncodedDocuments out;
  encoder.encode(line, out);
  std::size_t begin = 0;
  for (const std::uint32_t length : out.sentence_tokens) {
    EXPECT_LE(length, data::kLongestSentence);
    EXPECT_FALSE(vocabulary.piece(out.ids[begin]).starts_with("##"));
    begin += length;
  }
  EXPECT_EQ(begin, 2800U);
  EXPECT_EQ(out.ids.size(), 2800U);
}

// Sentences are where the cut is, never what the ids are.
TEST(DocumentEncoder, CuttingKeepsTheIds) {
  const data::Vocabulary vocabulary =
      data::Vocabulary::parse(std::string(tests::kSmallVocabulary) +
                                  "\u03C3\n\u03C2\n##\u03C3\n##\u03C2\n"
                                  "\u3002\n\"\n",
                              "test");
  const data::TokenizerOptions options;
  const data::WordPiece pieces(vocabulary, options);
  data::DocumentEncoder encoder(pieces, vocabulary);
  const Strings parts = {"A",      "b",       ".",  "!",  "? ",  ". ",     " ",      "\u3002",
                         "\u03A3", "a\u03A3", "\"", "Mr", "c. ", "\uFF01", "\u2019", "1"};
  std::mt19937 random(32);
  for (int round = 0; round < 3000; ++round) {
    std::string line;
    for (unsigned i = 0; i < random() % 200U; ++i) line += parts[random() % parts.size()];
    data::EncodedDocuments out;
    encoder.encode(line, out);
    ASSERT_EQ(out.ids, tests::slow_tokenize(line, vocabulary, options)) << line;
    std::size_t tokens = 0;
    for (const std::uint32_t length : out.sentence_tokens) {
      ASSERT_GT(length, 0U);
      tokens += length;
    }
    ASSERT_EQ(tokens, out.ids.size());
  }
}

Strings all_documents(const data::DocumentSpill& spill, std::int64_t* duplicates) {
  Strings texts;
  for (int i = 0; i < data::DocumentSpill::kPartitions; ++i) {
    std::string storage;
    std::vector<data::Document> documents;
    *duplicates += spill.load(i, storage, documents);
    for (const data::Document& document : documents) texts.emplace_back(document.text);
  }
  return texts;
}

TEST(DocumentSpill, OrderDependsOnTheTextsAlone) {
  const tests::TemporaryDirectory directory;
  Strings texts;
  for (int i = 0; i < 5000; ++i) texts.push_back("document " + std::to_string(i));
  std::vector<Strings> results;
  for (const std::size_t buffer : {std::size_t{1}, std::size_t{300}, std::size_t{1} << 20U}) {
    const base::Path path = directory.path() / std::to_string(buffer);
    std::filesystem::create_directory(path);
    data::DocumentSpill spill(base::posix_file_system(), path, buffer);
    std::uint64_t bytes = 0;
    for (const std::string& text : texts) {
      spill.add(text);
      spill.add(text);
      bytes += 2 * text.size();
    }
    EXPECT_EQ(spill.text_bytes(), bytes);
    EXPECT_EQ(tests::names_in(path).empty(), buffer > 1000);
    std::int64_t duplicates = 0;
    results.push_back(all_documents(spill, &duplicates));
    EXPECT_EQ(duplicates, 5000);
    for (int i = 0; i < data::DocumentSpill::kPartitions; ++i) spill.drop(i);
    EXPECT_EQ(tests::names_in(path), Strings{});
    std::reverse(texts.begin(), texts.end());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  std::sort(texts.begin(), texts.end());
  std::sort(results[0].begin(), results[0].end());
  EXPECT_EQ(results[0], texts);
}

}  // namespace
}  // namespace regatta::trainer
