#include "trainer/data/vocabulary_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "tests/shared_data.h"
#include "trainer/data/tokenizer.h"

namespace regatta::trainer {
namespace {

std::vector<std::string> trained(const data::WordCounts& words, int size) {
  std::vector<std::string> pieces = base::split(data::train_vocabulary(words, size), '\n');
  pieces.pop_back();
  return pieces;
}

TEST(VocabularyTrainer, ByHand) {
  // Pairs: h+##u 15, ##u+##g 20, p+##u 17, ##u+##n 16, b+##u 4, ##g+##s 5.
  const data::WordCounts words = {{"hug", 10}, {"pug", 5}, {"pun", 12}, {"bun", 4}, {"hugs", 5}};
  const std::vector<std::string> expected = {
      "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##u",
      "##g",   "p",     "##n",   "h",     "##s",    "b",  // 36, 20, 17, 16, 15, 5, 4
      "##ug",                                             // 20
      "##un",                                             // 16
      "hug",                                              // 15
      "pun",                                              // 12
  };
  EXPECT_EQ(trained(words, 16), expected);
  const std::vector<std::string> all = trained(words, 1000);
  // What is left: p+##ug 5, hug+##s 5 (the smaller text first), b+##un 4.
  EXPECT_THAT(all, testing::ElementsAreArray([&] {
                auto more = expected;
                more.insert(more.end(), {"hugs", "pug", "bun"});
                return more;
              }()));
}

// The rule as written, without any of the bookkeeping: counts every pair anew for each merge.
std::vector<std::string> trained_slowly(const data::WordCounts& counts, std::size_t size) {
  std::vector<std::pair<std::vector<std::string>, std::uint64_t>> words;
  std::map<std::string, std::uint64_t> characters;
  for (const auto& [word, count] : counts) {
    words.push_back({{}, count});
    for (std::size_t i = 0; i < word.size(); ++i) {
      words.back().first.push_back((i > 0 ? "##" : "") + word.substr(i, 1));
      characters[words.back().first.back()] += count;
    }
  }
  std::vector<std::pair<std::string, std::uint64_t>> order(characters.begin(), characters.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (const auto& entry : order) {
    if (pieces.size() < size) pieces.push_back(entry.first);
  }
  while (pieces.size() < size) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> pairs;
    for (const auto& [symbols, count] : words) {
      for (std::size_t i = 1; i < symbols.size(); ++i) pairs[{symbols[i - 1], symbols[i]}] += count;
    }
    auto best = pairs.end();
    for (auto it = pairs.begin(); it != pairs.end(); ++it) {
      if (it->second >= 2 && (best == pairs.end() || it->second > best->second)) best = it;
    }
    if (best == pairs.end()) break;
    const std::string merged = best->first.first + best->first.second.substr(2);
    for (auto& [symbols, count] : words) {
      for (std::size_t i = 1; i < symbols.size(); ++i) {
        if (symbols[i - 1] != best->first.first || symbols[i] != best->first.second) continue;
        symbols[i - 1] = merged;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (std::find(pieces.begin(), pieces.end(), merged) == pieces.end()) pieces.push_back(merged);
  }
  return pieces;
}

TEST(VocabularyTrainer, EqualsTheSlowRule) {
  std::mt19937 random(21);
  for (int round = 0; round < 60; ++round) {
    data::WordCounts words;
    for (int i = 0; i < 40; ++i) {
      std::string word;
      for (unsigned k = 0; k < 1 + random() % 8U; ++k) {
        word += static_cast<char>('a' + random() % 3U);
      }
      words[word] += 1 + random() % 5U;
    }
    const int size = 16 + static_cast<int>(random() % 80U);
    ASSERT_EQ(trained(words, size), trained_slowly(words, static_cast<std::size_t>(size))) << round;
  }
}

TEST(VocabularyTrainer, IgnoresTheOrderOfTheCounts) {
  std::mt19937 random(22);
  std::vector<std::string> list;
  for (int i = 0; i < 3000; ++i) {
    std::string word;
    for (unsigned k = 0; k < 2 + random() % 7U; ++k) word += static_cast<char>('a' + random() % 9U);
    list.push_back(word);
  }
  data::WordCounts forward;
  data::WordCounts backward(100'000);  // another bucket count: another order of iteration
  for (const std::string& word : list) ++forward[word];
  std::reverse(list.begin(), list.end());
  for (const std::string& word : list) ++backward[word];
  EXPECT_EQ(data::train_vocabulary(forward, 600), data::train_vocabulary(backward, 600));
}

TEST(VocabularyTrainer, CharactersFirstWhenThereIsNoRoom) {
  data::WordCounts words;
  for (int i = 0; i < 26; ++i) {
    words[std::string(1, static_cast<char>('a' + i))] = static_cast<std::uint64_t>(100 - i);
  }
  words["ab"] = 1000;
  const std::vector<std::string> pieces = trained(words, 16);
  ASSERT_EQ(pieces.size(), 16U);
  EXPECT_EQ(pieces[5], "a");    // 1100
  EXPECT_EQ(pieces[6], "##b");  // 1000
  EXPECT_EQ(pieces[15], "j");
}

TEST(VocabularyTrainer, BadSizesAndNoWords) {
  const data::WordCounts words = {{"a", 1}};
  for (const int size : {-1, 0, 15, 1'000'001}) {
    EXPECT_THROW((void)data::train_vocabulary(words, size), base::Error) << size;
  }
  EXPECT_THROW((void)data::train_vocabulary({}, 100), base::Error);
}

TEST(WordCounter, CountsWhatTheTokenizerSees) {
  data::WordCounter counter({true, 5});
  counter.add("The cat, the CAT. \u00C9t\u00E9 toolong \u4E2D\u4E2D toolong\u00E9\u00E9");
  const data::WordCounts expected = {{"the", 2}, {"cat", 2}, {",", 1},
                                     {".", 1},   {"ete", 1}, {"\u4E2D", 2}};
  EXPECT_EQ(counter.counts(), expected);
}

// On real prose a trained vocabulary leaves hardly anything unknown and packs words well.
TEST(VocabularyTrainer, PacksProse) {
  const std::string name = "data/corpus/tinyshakespeare.txt";
  REGATTA_NEED_SHARED(name);
  std::ifstream file(tests::shared_path(name));
  std::stringstream text;
  text << file.rdbuf();
  data::WordCounter counter({});
  counter.add(text.str());
  const data::Vocabulary vocabulary =
      data::Vocabulary::parse(data::train_vocabulary(counter.counts(), 4096), "v");
  EXPECT_EQ(vocabulary.size(), 4096);
  const data::WordPiece pieces(vocabulary, {});
  data::Tokenizer tokenizer(pieces);
  std::vector<data::TokenId> ids;
  tokenizer.tokenize(text.str(), ids);
  std::uint64_t words = 0;
  for (const auto& [word, count] : counter.counts()) words += count;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), vocabulary.special().unknown), 0);
  EXPECT_LT(static_cast<double>(ids.size()), 1.25 * static_cast<double>(words));
}

}  // namespace
}  // namespace regatta::trainer
