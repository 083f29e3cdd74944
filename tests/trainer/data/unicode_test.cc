#include "trainer/data/unicode.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/shared_data.h"

namespace regatta::trainer::data::unicode {
namespace {

struct Utf8Case {
  const char* name;
  std::string text;
  std::string expected;  // with U+FFFD as '?'
  int invalid;
};

TEST(Utf8, ReplacesIllFormedSequences) {
  const Utf8Case cases[] = {
      {"ASCII", "abc", "abc", 0},
      {"two, three and four bytes", "\u00E9\u20AC\U0001F600", "\u00E9\u20AC\U0001F600", 0},
      {"largest", "\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF", 0},
      {"lone continuation", "a\x80z", "a?z", 1},
      {"overlong slash in two", "\xC0\xAF", "??", 2},
      {"overlong slash in three", "\xE0\x80\xAF", "???", 3},
      {"surrogate", "\xED\xA0\x80", "???", 3},
      {"above 10FFFF", "\xF4\x90\x80\x80", "????", 4},
      {"F5", "\xF5\x80\x80\x80", "????", 4},
      {"truncated three at the end", "a\xE2\x82", "a?", 1},
      {"truncated four, then a letter", "\xF0\x9F\x98z", "?z", 1},
      {"lead after lead", "\xE2\xE2\x82\xAC", "?\u20AC", 1},
      {"Latin-1", "caf\xE9 au lait", "caf? au lait", 1},
      {"behind 100 letters", std::string(100, 'x') + "\xFF" + std::string(70, 'y'),
       std::string(100, 'x') + "?" + std::string(70, 'y'), 1},
  };
  for (const Utf8Case& c : cases) {
    std::string out;
    EXPECT_EQ(append_valid_utf8(c.text, out), c.invalid) << c.name;
    std::string expected;
    for (const char byte : c.expected) {
      if (byte == '?') {
        expected += "\uFFFD";
      } else {
        expected += byte;
      }
    }
    EXPECT_EQ(out, expected) << c.name;
  }
}

TEST(Utf8, RoundTripsEveryCodePoint) {
  std::string text;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    text.clear();
    append_utf8(c, text);
    const Decoded decoded = decode(text);
    ASSERT_TRUE(decoded.valid && decoded.code_point == c && decoded.length == text.size())
        << static_cast<std::uint32_t>(c);
  }
}

TEST(Utf8, AsciiLooksAtEveryByte) {
  for (std::size_t length = 1; length < 40; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      std::string text(length, 'a');
      EXPECT_TRUE(is_ascii(text));
      text[at] = '\x80';
      EXPECT_FALSE(is_ascii(text)) << length << " " << at;
    }
  }
}

std::vector<std::vector<std::string>> table(const std::string& name) {
  std::ifstream file(tests::shared_path(name));
  std::string line;
  std::getline(file, line);
  std::vector<std::vector<std::string>> rows;
  while (std::getline(file, line)) rows.push_back(base::split(line, '\t'));
  return rows;
}

std::u32string code_points(const std::string& hex) {
  std::u32string result;
  std::istringstream words(hex);
  for (std::string word; words >> word;) {
    result.push_back(static_cast<char32_t>(std::stoul(word, nullptr, 16)));
  }
  return result;
}

TEST(Characters, ClassesFollowTheCategories) {
  const std::string name = "data/unicode/general_category_ranges_14.0.0.tsv";
  REGATTA_NEED_SHARED(name);
  const Characters& characters = Characters::instance();
  std::size_t wrong = 0;
  for (const auto& row : table(name)) {
    const std::string& category = row[2];
    const auto last = static_cast<char32_t>(std::stoul(row[1], nullptr, 16));
    for (auto c = static_cast<char32_t>(std::stoul(row[0], nullptr, 16)); c <= last; ++c) {
      const bool tab_or_break = c == '\t' || c == '\n' || c == '\r';
      const bool removed = category == "Cc" || category == "Cf" || c == kReplacement;
      const bool ascii_sign = c > 32 && c < 127 && (category[0] == 'S' || category[0] == 'P');
      wrong += characters.removed(c) != (removed && !tab_or_break);
      wrong += characters.space(c) != (category[0] == 'Z' || tab_or_break);
      wrong += characters.punctuation(c) != (category[0] == 'P' || ascii_sign);
      wrong += characters.mark(c) != (category == "Mn");
    }
  }
  EXPECT_EQ(wrong, 0U);
}

TEST(Characters, MappingsFollowTheTable) {
  const std::string name = "data/unicode/lower_nfd_ccc_14.0.0.tsv";
  REGATTA_NEED_SHARED(name);
  const Characters& characters = Characters::instance();
  for (const auto& row : table(name)) {
    const std::u32string c = code_points(row[0]);
    std::u32string lower;
    std::u32string decomposed;
    characters.append_lower(c[0], lower);
    characters.append_decomposition(c[0], decomposed);
    EXPECT_EQ(lower, row[1].empty() ? c : code_points(row[1])) << row[0];
    EXPECT_EQ(decomposed, row[2].empty() ? c : code_points(row[2])) << row[0];
    EXPECT_EQ(characters.combining_class(c[0]), std::stoi(row[3])) << row[0];
  }
}

std::u32string nfd(const std::u32string& text) {
  const Characters& characters = Characters::instance();
  std::u32string out;
  for (const char32_t c : text) characters.append_decomposition(c, out);
  characters.canonical_order(out);
  return out;
}

// Unicode's own conformance test, of an older version: assigned characters keep their
// decompositions for ever.
TEST(Characters, DecompositionPassesUnicodesTest) {
  const std::string name = "data/unicode/ucd-6.2/NormalizationTest.txt";
  REGATTA_NEED_SHARED(name);
  std::ifstream file(tests::shared_path(name));
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line[0] == '@') continue;
    const std::vector<std::string> columns = base::split(line, ';');
    const std::u32string expected = code_points(columns[2]);
    for (const std::size_t from : {0, 1, 2}) {
      ASSERT_EQ(nfd(code_points(columns[from])), expected) << line;
    }
    ++cases;
  }
  EXPECT_GT(cases, 18000);
}

}  // namespace
}  // namespace regatta::trainer::data::unicode
