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
      {"last byte is a lead", "\xc2", "\xc2"},
      {"no-break space stays", "\xc2\xa0", "\xc2\xa0"},
      {"empty", "", ""},
  };
  for (const Row& row : rows) EXPECT_EQ(printable(row.in), row.out) << row.name;
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
