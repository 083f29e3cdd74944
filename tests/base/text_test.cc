#include "base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace regatta::base {
namespace {

TEST(Printable, EscapesWhatATerminalWouldObey) {
  struct Row {
    const char* name;
    std::string in;
    std::string out;
  };
  const Row rows[] = {
      {"plain", "a b", "a b"},
      {"tab stays", "a\tb", "a\tb"},
      {"line break", "a\nb", "a\\nb"},
      {"carriage return", "a\rb", "a\\x0db"},
      {"escape sequence", "\x1b[2J", "\\x1b[2J"},
      {"delete", "\x7f", "\\x7f"},
      {"NUL", std::string("a\0b", 3), "a\\x00b"},
      {"C1 in UTF-8",
       "\xc2\x9b"
       "2J",
       "\\x9b2J"},
      {"accent stays", "\xc3\xa9", "\xc3\xa9"},
      {"last byte is a lead", "\xc2", "\\xc2"},
      {"no UTF-8", "a\xff\xfe z", "a\\xff\\xfe z"},
      {"a raw C1 byte", "\x9b", "\\x9b"},
      {"continuation alone", "\x80", "\\x80"},
      {"cut", "\xe2\x82", "\\xe2\\x82"},
      {"cut by a letter", "\xe2\x82z", "\\xe2\\x82z"},
      {"overlong line break", "\xc0\x8a", "\\xc0\\x8a"},
      {"overlong escape", "\xe0\x80\x9b", "\\xe0\\x80\\x9b"},
      {"overlong of four bytes", "\xf0\x82\x82\xac", "\\xf0\\x82\\x82\\xac"},
      {"surrogate", "\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"above U+10FFFF", "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
      {"five bytes", "\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80"},
      {"right to left override", "a\u202Egpj.exe", "a\\u{202E}gpj.exe"},
      {"embedding and its end", "\u202A\u202C", "\\u{202A}\\u{202C}"},
      {"isolates", "\u2066\u2067\u2068\u2069", "\\u{2066}\\u{2067}\\u{2068}\\u{2069}"},
      {"marks", "\u200E\u200F\u061C", "\\u{200E}\\u{200F}\\u{061C}"},
      {"no width", "\u200B\u200C\u200D\u2060\uFEFF",
       "\\u{200B}\\u{200C}\\u{200D}\\u{2060}\\u{FEFF}"},
      {"soft hyphen", "\u00AD", "\\u{00AD}"},
      {"separators", "\u2028\u2029", "\\u{2028}\\u{2029}"},
      {"tags", "\U000E0041\U000E007F", "\\u{E0041}\\u{E007F}"},
      {"filler", "\u3164", "\\u{3164}"},
      {"Hebrew stays", "\u05D0\u05D1", "\u05D0\u05D1"},
      {"Chinese stays", "\u4E2D\u6587", "\u4E2D\u6587"},
      {"an emoji stays", "\U0001F680", "\U0001F680"},
      {"the last character", "\U0010FFFD", "\U0010FFFD"},
      {"no-break space stays", "\xc2\xa0", "\xc2\xa0"},
      {"empty", "", ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(printable(row.in), row.out) << row.name;
    EXPECT_EQ(printable(row.out), row.out) << row.name << ": escaped once";
  }
}

TEST(Printable, LeavesNothingForATerminal) {
  // Every pair of bytes in a text, so every lead before every other byte.
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string out =
          printable(std::string{static_cast<char>(first), static_cast<char>(second), '\xa0', 'z'});
      for (const char c : out) EXPECT_TRUE((c >= 0x20 && c != 0x7F) || c < 0 || c == '\t');
      EXPECT_EQ(out.back(), 'z');
      EXPECT_EQ(printable(out), out) << first << " " << second;
    }
  }
}

TEST(IsUtf8, HoldsForWhatRfc3629Allows) {
  for (const char* const good :
       {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xEF\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* const bad : {"\xFF", "a\x80", "\xC3", "\xC0\xAF", "\xED\xA0\x80",
                                "\xF4\x90\x80\x80", "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(is_utf8(bad)) << printable(bad);
  }
}

TEST(ParseInteger, TakesWholeStringsOnly) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-17"), -17);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* bad :
       {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "9223372036854775808", "--1", "one", "1,000"}) {
    EXPECT_EQ(parse_integer(bad), std::nullopt) << bad;
  }
}

TEST(ParseNumber, TakesWholeStringsOnly) {
  EXPECT_EQ(parse_number("1e-4"), 1e-4);
  EXPECT_EQ(parse_number("-.5"), -0.5);
  EXPECT_EQ(parse_number("7"), 7.0);
  for (const char* bad : {"", " 1", "1 ", "+1", "1e", "1e400", "0x1p3", "1.2.3", "three"}) {
    EXPECT_EQ(parse_number(bad), std::nullopt) << bad;
  }
}

TEST(HumanBytes, UsesPowersOfAThousand) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.0 kB");
  EXPECT_EQ(human_bytes(312'400), "312 kB");
  EXPECT_EQ(human_bytes(999'949), "1.0 MB");
  EXPECT_EQ(human_bytes(1'500'000'000), "1.5 GB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "18.4 EB");
}

TEST(HumanSeconds, ChangesUnits) {
  EXPECT_EQ(human_seconds(0), "0.0 s");
  EXPECT_EQ(human_seconds(12.34), "12.3 s");
  EXPECT_EQ(human_seconds(59.97), "1 min 00 s");
  EXPECT_EQ(human_seconds(185), "3 min 05 s");
  EXPECT_EQ(human_seconds(3720), "1 h 02 min");
  EXPECT_EQ(human_seconds(-3), "0.0 s");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::quiet_NaN()), "0.0 s");
  EXPECT_FALSE(human_seconds(std::numeric_limits<double>::infinity()).empty());
}

TEST(Closest, GuessesSlipsAndNothingElse) {
  const std::vector<std::string> keys{"hidden", "heads", "layers", "gelu"};
  EXPECT_EQ(closest("hiden", keys), "hidden");
  EXPECT_EQ(closest("hidde", keys), "hidden");
  EXPECT_EQ(closest("layer", keys), "layers");
  EXPECT_EQ(closest("gelu", keys), "gelu");
  EXPECT_EQ(closest("vocabulary", keys), std::nullopt);
  EXPECT_EQ(closest("x", keys), std::nullopt);
  EXPECT_EQ(closest("hidden", {}), std::nullopt);
  EXPECT_EQ(closest(std::string(1 << 20, 'h'), keys), std::nullopt);
}

TEST(SplitAndJoin, AreInverse) {
  EXPECT_EQ(split("a,b,,c", ','), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
  EXPECT_EQ(split(",", ','), (std::vector<std::string>{"", ""}));
  EXPECT_EQ(join({"a", "b", ""}, ", "), "a, b, ");
  EXPECT_EQ(join({}, ","), "");
  EXPECT_EQ(join({"x", "x"}, "-"), "x-x");
}

TEST(JsonDepth, CountsBracketsOutsideTexts) {
  EXPECT_TRUE(json_depth_at_most("{}", 1));
  EXPECT_FALSE(json_depth_at_most("{\"a\":[]}", 1));
  EXPECT_TRUE(json_depth_at_most("{\"a\":[]}", 2));
  EXPECT_TRUE(json_depth_at_most("\"[[[[[[\"", 0));
  EXPECT_TRUE(json_depth_at_most("\"\\\"[[[[\"", 0));
  EXPECT_FALSE(json_depth_at_most(std::string(1 << 20, '['), 16));
  EXPECT_TRUE(json_depth_at_most("[][][][]", 1));
}

TEST(RandomHex, IsHexAndDoesNotRepeat) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_hex(8);
    EXPECT_EQ(text.size(), 16U);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(seen.insert(text).second);
  }
}

}  // namespace
}  // namespace regatta::base
