// The fast tokenizer against the slow one, on vocabularies and texts made to hit its corners.
#include "trainer/data/tokenizer.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/trainer/data/slow_tokenizer.h"

namespace regatta::trainer {
namespace {

using tests::slow_tokenize;

constexpr char kSpecials[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

data::Vocabulary vocabulary_of(const std::set<std::string>& pieces) {
  std::string text = kSpecials;
  for (const std::string& piece : pieces) text += piece + "\n";
  return data::Vocabulary::parse(text, "test");
}

std::vector<data::TokenId> tokenize(const data::Vocabulary& vocabulary,
                                    const data::TokenizerOptions& options, std::string_view text) {
  const data::WordPiece pieces(vocabulary, options);
  data::Tokenizer tokenizer(pieces);
  std::vector<data::TokenId> ids;
  tokenizer.tokenize(text, ids);
  return ids;
}

std::string pieces_of(const data::Vocabulary& vocabulary, const std::vector<data::TokenId>& ids) {
  std::string text;
  for (const data::TokenId id : ids) text += (text.empty() ? "" : " ") + vocabulary.piece(id);
  return text;
}

struct PieceCase {
  const char* name;
  std::set<std::string> pieces;
  std::string text;
  std::string expected;
};

TEST(WordPiece, NamedCases) {
  const PieceCase cases[] = {
      {"whole word", {"row", "##ing", "rowing"}, "rowing", "rowing"},
      {"longest first", {"row", "rowi", "##ing", "##ng"}, "rowing", "rowi ##ng"},
      {"greedy finds no way though there is one", {"a", "ab", "##bc"}, "abc", "[UNK]"},
      {"falls back over several pieces", {"a", "##b", "##c", "##bcde"}, "abcd", "[UNK]"},
      {"and finds them", {"a", "##b", "##c", "##bcde", "##d"}, "abcd", "a ##b ##c ##d"},
      {"a continuation begins no word", {"##a"}, "a", "[UNK]"},
      {"a beginning continues none", {"a", "b"}, "ab", "[UNK]"},
      {"unknown word among known", {"a", "b"}, "a zzz b", "a [UNK] b"},
      {"unknown punctuation", {"a"}, "a!", "a [UNK]"},
      {"special tokens in text are no special tokens", {"[", "]", "mask"}, "[MASK]", "[ mask ]"},
      {"lone continuation mark as piece", {"##", "a", "#"}, "## a", "# # a"},
      {"multi-byte", {"\u00FC", "##\u00FC", "##b"}, "\u00FC\u00FCb", "[UNK]"},
  };
  for (const PieceCase& c : cases) {
    const data::Vocabulary vocabulary = vocabulary_of(c.pieces);
    EXPECT_EQ(pieces_of(vocabulary, tokenize(vocabulary, {}, c.text)), c.expected) << c.name;
  }
  const data::Vocabulary umlauts = vocabulary_of({"\u00FC", "##\u00FC", "##b"});
  EXPECT_EQ(pieces_of(umlauts, tokenize(umlauts, {false, 200}, "\u00FC\u00FCb")),
            "\u00FC ##\u00FC ##b");
}

TEST(WordPiece, WordLimits) {
  const data::Vocabulary vocabulary = vocabulary_of({"a", "##a", "\u00E4", "##\u00E4"});
  for (const int limit : {1, 100, 200}) {
    for (const std::string& letter : {std::string("a"), std::string("\u00E4")}) {
      std::string word;
      for (int i = 0; i < limit; ++i) word += letter;
      const data::TokenizerOptions options{false, limit};
      EXPECT_EQ(tokenize(vocabulary, options, word).size(), static_cast<std::size_t>(limit));
      EXPECT_EQ(tokenize(vocabulary, options, word + letter), std::vector<data::TokenId>{1})
          << limit;
    }
  }
  EXPECT_THROW(data::WordPiece(vocabulary, {true, 0}), base::Error);
  EXPECT_THROW(data::WordPiece(vocabulary, {true, 1001}), base::Error);
}

TEST(WordPiece, AWordOfAMillionLettersIsUnknown) {
  const data::Vocabulary vocabulary = vocabulary_of({"a", "##a"});
  EXPECT_EQ(tokenize(vocabulary, {}, std::string(1'000'000, 'a')), std::vector<data::TokenId>{1});
}

// Two letters make every overlap of pieces likely.
TEST(Tokenizer, EqualsTheSlowOneOnRandomVocabularies) {
  std::mt19937 random(11);
  const auto letters = [&](std::size_t most) {
    std::string text;
    const std::size_t length = 1 + random() % most;
    for (std::size_t i = 0; i < length; ++i) text += random() % 3U == 0 ? "b" : "a";
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> pieces;
    for (unsigned i = 0; i < 1 + random() % 12U; ++i) {
      pieces.insert((random() % 2U == 0 ? "##" : "") + letters(6));
    }
    const data::Vocabulary vocabulary = vocabulary_of(pieces);
    const data::TokenizerOptions options{true, 1 + static_cast<int>(random() % 20U)};
    std::string text;
    for (int i = 0; i < 60; ++i) text += letters(14) + " ";
    ASSERT_EQ(tokenize(vocabulary, options, text), slow_tokenize(text, vocabulary, options))
        << vocabulary.text() << text;
  }
}

// A text of anything: letters, marks, controls, ideographs, broken UTF-8, long words.
std::string hostile_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {"a",
                                                 "b",
                                                 "A",
                                                 "B",
                                                 "ab",
                                                 "\u00E4",
                                                 "A\u0308",
                                                 "\u03A3",
                                                 "\u03C3",
                                                 "\u0130",
                                                 "\uAC00",
                                                 "\u4E2D",
                                                 "\uF900",
                                                 "\u0301",
                                                 "\u200D",
                                                 "\u00AD",
                                                 "\u2028",
                                                 "\u00A0",
                                                 "\u3000",
                                                 " ",
                                                 " ",
                                                 " ",
                                                 "\t",
                                                 "\n",
                                                 "\r\n",
                                                 ".",
                                                 ",",
                                                 "#",
                                                 "##",
                                                 "[MASK]",
                                                 "[",
                                                 "\u3002",
                                                 "\u201C",
                                                 "$",
                                                 "\x7F",
                                                 "\x01",
                                                 "\x0B",
                                                 std::string(1, '\0'),
                                                 "\xFF",
                                                 "\xE2\x82",
                                                 "\xF0\x9F",
                                                 "\xED\xA0\x80",
                                                 "\U0001F600",
                                                 std::string(30, 'a'),
                                                 std::string(210, 'b')};
  std::string text;
  const std::size_t length = random() % 40U;
  for (std::size_t i = 0; i < length; ++i) text += parts[random() % parts.size()];
  return text;
}

TEST(Tokenizer, EqualsTheSlowOneOnHostileText) {
  const data::Vocabulary vocabulary =
      vocabulary_of({"a",        "##a",    "b",     "##b",    "ab",       "##ab",     "A",
                     "##A",      "aa",     "##aa",  "\u03C3", "##\u03C2", "##\u03C3", "\u1100",
                     "##\u1161", "\u4E2D", ".",     "#",      "[",        "\u00E4",   "##\u00E4",
                     "\u03A3",   "bb",     "##bbb", "\u3002", "\u8C48",   "i",        "##i"});
  std::mt19937 random(12);
  for (const bool lower_case : {true, false}) {
    for (const int limit : {100, 200}) {
      const data::TokenizerOptions options{lower_case, limit};
      const data::WordPiece pieces(vocabulary, options);
      data::Tokenizer tokenizer(pieces);  // one for all texts: its cache must never mislead
      for (int i = 0; i < 4000; ++i) {
        const std::string text = hostile_text(random);
        std::vector<data::TokenId> ids;
        tokenizer.tokenize(text, ids);
        ASSERT_EQ(ids, slow_tokenize(text, vocabulary, options)) << testing::PrintToString(text);
      }
    }
  }
}

TEST(Tokenizer, EveryByteStringOfTwoIsSafe) {
  const data::Vocabulary vocabulary = vocabulary_of({"a", "##a", "."});
  const data::TokenizerOptions options;
  const data::WordPiece pieces(vocabulary, options);
  data::Tokenizer tokenizer(pieces);
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      std::vector<data::TokenId> ids;
      tokenizer.tokenize(text, ids);
      ASSERT_EQ(ids, slow_tokenize(text, vocabulary, options)) << first << " " << second;
    }
  }
}

TEST(Tokenizer, CountsIllFormedSequencesEveryTime) {
  const data::Vocabulary vocabulary = vocabulary_of({"a"});
  const data::WordPiece pieces(vocabulary, {});
  data::Tokenizer tokenizer(pieces);
  std::vector<data::TokenId> ids;
  for (int i = 0; i < 3; ++i) tokenizer.tokenize("a\xFF a", ids);
  EXPECT_EQ(tokenizer.invalid_sequences(), 3);
  EXPECT_EQ(ids, std::vector<data::TokenId>(6, 5));
}

// Words that share a cache entry, and words around the longest that it holds.
TEST(Tokenizer, CacheHoldsOnlyWhatItSays) {
  std::set<std::string> letters;
  for (char c = 'a'; c <= 'z'; ++c) {
    letters.insert(std::string(1, c));
    letters.insert("##" + std::string(1, c));
  }
  const data::Vocabulary vocabulary = vocabulary_of(letters);
  const data::WordPiece pieces(vocabulary, {});
  data::Tokenizer tokenizer(pieces);
  std::mt19937 random(13);
  std::vector<std::string> words;
  for (int i = 0; i < 100'000; ++i) {
    std::string word;
    const std::size_t length = 1 + random() % 26U;
    for (std::size_t k = 0; k < length; ++k) word += static_cast<char>('a' + random() % 26U);
    words.push_back(word);
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (const std::string& word : words) {
      std::vector<data::TokenId> ids;
      tokenizer.tokenize(word, ids);
      ASSERT_EQ(ids.size(), word.size());
      ASSERT_EQ(vocabulary.piece(ids.back()).back(), word.back());
    }
  }
}

}  // namespace
}  // namespace regatta::trainer
