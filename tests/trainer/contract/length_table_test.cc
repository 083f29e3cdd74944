#include "trainer/contract/length_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file_system.h"

namespace regatta::tests {
namespace {

using trainer::contract::LengthTable;

TEST(LengthTable, TheDefaultHasThePublishedMean) {
  const std::string path =
      std::string(REGATTA_SOURCE_DIR) + "/tests/data/lengths_wikipedia_512.csv";
  const LengthTable table =
      LengthTable::parse(base::posix_file_system().read(path, 1U << 20U), path);
  EXPECT_NEAR(table.mean(), 255.3, 0.1);
  EXPECT_EQ(table.longest(), 512);
  EXPECT_EQ(table.quantile(0.0), 5);
  EXPECT_EQ(table.quantile(0.8), 512);  // 23.4 % are full
  EXPECT_LT(table.quantile(0.75), 512);
}

TEST(LengthTable, QuantilesFollowTheFractions) {
  const LengthTable table = LengthTable::parse("# two ranges\n10,19,1\n30,30,3\n", "t");
  EXPECT_DOUBLE_EQ(table.mean(), 0.25 * 14.5 + 0.75 * 30);
  EXPECT_EQ(table.quantile(0.0), 10);
  EXPECT_EQ(table.quantile(0.124), 14);
  EXPECT_EQ(table.quantile(0.2499), 19);
  EXPECT_EQ(table.quantile(0.25), 30);
  EXPECT_EQ(table.quantile(0.9999), 30);
}

struct BadTable {
  const char* name;
  const char* text;
  const char* message;
};
class BadLengthTable : public testing::TestWithParam<BadTable> {};

TEST_P(BadLengthTable, IsRefusedWithItsLine) {
  try {
    (void)LengthTable::parse(GetParam().text, "lengths.csv");
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BadLengthTable,
    testing::Values(BadTable{"empty", "", "holds no line"},
                    BadTable{"comment_only", "# x\n", "holds no line"},
                    BadTable{"two_fields", "5,6\n", "lengths.csv:1: expected low,high,fraction"},
                    BadTable{"words", "a,b,c\n", "expected numbers"},
                    BadTable{"too_short", "1,6,1\n", "4 to 4096"},
                    BadTable{"too_long", "5,5000,1\n", "4 to 4096"},
                    BadTable{"reversed", "9,6,1\n", "4 to 4096"},
                    BadTable{"overlap", "5,9,1\n9,12,1\n", "lengths.csv:2: ranges must ascend"},
                    BadTable{"zero", "5,9,0\n", "must be positive"},
                    BadTable{"not_a_number", "5,9,nan\n", "must be positive"}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace regatta::tests
