#include "base/wording.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/ascii.h"

namespace regatta::base {
namespace {

TEST(Wording, PluralOfOneIsTheNounItself) {
  EXPECT_EQ(plural(1, "file"), "1 file");
  EXPECT_EQ(plural(2, "file"), "2 files");
  EXPECT_EQ(plural(0, "file"), "0 files");
  EXPECT_EQ(plural(std::size_t{3}, "NUMA domain"), "3 NUMA domains");
  EXPECT_EQ(plural(std::int64_t{-1}, "byte"), "-1 bytes");
  EXPECT_EQ(plural(1, "switch"), "1 switch");
}

TEST(Wording, PluralEndsInEsAfterAHiss) {
  EXPECT_EQ(plural(2, "switch"), "2 switches");
  EXPECT_EQ(plural(2, "NVSwitch"), "2 NVSwitches");
  EXPECT_EQ(plural(2, "crash"), "2 crashes");
  EXPECT_EQ(plural(2, "process"), "2 processes");
  EXPECT_EQ(plural(2, "box"), "2 boxes");
  EXPECT_EQ(plural(2, "path"), "2 paths") << "a t before an h hisses not";
}

TEST(Wording, PercentHasOneDecimal) {
  EXPECT_EQ(percent(0.123), "12.3 %");
  EXPECT_EQ(percent(0.01), "1.0 %");
  EXPECT_EQ(percent(0), "0.0 %");
  EXPECT_EQ(percent(-0.0001), "0.0 %");
  EXPECT_EQ(percent(-0.257), "-25.7 %");
  EXPECT_EQ(percent(12), "1200.0 %");
  EXPECT_EQ(percent(std::numeric_limits<double>::infinity()), "inf %");
}

TEST(Wording, ShortNumbersHaveSignificantDigits) {
  EXPECT_EQ(short_number(0.125), "0.125");
  EXPECT_EQ(short_number(1234.56), "1235");
  EXPECT_EQ(short_number(1234567), "1.235e+06");
  EXPECT_EQ(short_number(25, 3), "25");
  EXPECT_EQ(short_number(1.0 / 3, 15), "0.333333333333333");
}

TEST(Wording, FormattedIsAsLongAsItGets) {
  EXPECT_EQ(formatted("%d of %s", 3, "four"), "3 of four");
  EXPECT_EQ(formatted("%s", ""), "");
  EXPECT_EQ(formatted("%1000d|", 7), std::string(999, ' ') + "7|");
}

TEST(Ascii, TrimmedIsAPartOfTheText) {
  EXPECT_EQ(trimmed(" \t a b\r"), "a b");
  EXPECT_EQ(trimmed("ab"), "ab");
  EXPECT_EQ(trimmed(" \r\t "), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed("\na\n"), "\na\n");
  EXPECT_EQ(trimmed(" a\r", " "), "a\r");
  const std::string text = "  x ";
  EXPECT_EQ(trimmed(text).data(), text.data() + 2);
}

TEST(Ascii, CaseOfLettersAToZOnly) {
  EXPECT_EQ(lower_case("AZaz09_É"), "azaz09_É");
  EXPECT_EQ(upper_case("AZaz09_é"), "AZAZ09_é");
  EXPECT_EQ(lower_case(""), "");
}

TEST(Ascii, DigitsAndNothingElse) {
  EXPECT_TRUE(is_digits("0"));
  EXPECT_TRUE(is_digits("00123456789"));
  for (const char* text : {"", "-1", "+1", "1 ", "1.0", "0x1", "a", "٣"}) {
    EXPECT_FALSE(is_digits(text)) << text;
  }
}

TEST(Ascii, ControlCharacters) {
  for (const char* text : {"\n", "a\tb", "\x1b[0m", "\x7f", "\x01"}) EXPECT_TRUE(has_control(text));
  EXPECT_TRUE(has_control(std::string_view("a\0b", 3)));
  for (const char* text : {"", "a b", "é", "~"}) EXPECT_FALSE(has_control(text)) << text;
}

TEST(Ascii, HexHasTwoDigitsForEachByte) {
  EXPECT_EQ(hex(""), "");
  EXPECT_EQ(hex(std::string_view("\x00\x0f\xf0\xff\x41", 5)), "000ff0ff41");
}

}  // namespace
}  // namespace regatta::base
