#include "orchestrator/compare/bench_difference.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace regatta::orchestrator::compare {
namespace {

using testing::HasSubstr, testing::IsEmpty, testing::Not, testing::SizeIs;
using trainer::contract::PlatformBench;
using Json = nlohmann::ordered_json;

PlatformBench bench_of(const std::string& host, double copy, double sync) {
  PlatformBench bench;
  bench.host = host;
  bench.processor = "P";
  bench.threads = 8;
  bench.version = "1.2.3";
  bench.figures = {{"memory.cpu.copy", "B/s", copy, copy * 0.03, 7, true, "w"},
                   {"storage.fsync", "s", sync, sync * 0.04, 7, false, "w"}};
  return bench;
}

TEST(BenchDifference, IsOfRatesWhateverTheUnit) {
  const Json told = bench_difference(bench_of("a", 2e10, 0.002), bench_of("b", 1e10, 0.001));
  EXPECT_TRUE(told.at("same_work") && told.at("same_kind"));
  ASSERT_THAT(told.at("figures"), SizeIs(2));
  EXPECT_DOUBLE_EQ(told.at("figures").at(0).at("change"), -0.5);
  EXPECT_DOUBLE_EQ(told.at("figures").at(1).at("change"), 1.0) << "half of the time";
  EXPECT_NEAR(told.at("figures").at(0).at("noise"), std::sqrt(2.0) * 0.03, 1e-12);
  ASSERT_THAT(told.at("parts"), SizeIs(2));
  EXPECT_NEAR(told.at("parts").at(0).at("change"), -0.5, 1e-12);
  const std::string text = bench_difference_text(told);
  EXPECT_THAT(text, HasSubstr("A: a, "));
  EXPECT_THAT(text, testing::ContainsRegex("memory.cpu.copy +20 GB/s +10 GB/s +-50 %"));
  EXPECT_THAT(text, testing::ContainsRegex("storage.fsync +2 ms +1 ms +\\+100 %"));
}

TEST(BenchDifference, HasWhatOnlyOneMeasured) {
  PlatformBench b = bench_of("b", 2e10, 0.002);
  b.figures[1] = {"product.cuda.bfloat16.fc1", "FLOP/s", 6e14, 0, 7, true, "w"};
  const Json told = bench_difference(bench_of("a", 2e10, 0.002), b);
  ASSERT_THAT(told.at("figures"), SizeIs(3));
  EXPECT_EQ(told.at("figures").at(1).at("values"), Json({0.002, nullptr}));
  EXPECT_EQ(told.at("figures").at(2).at("values"), Json({nullptr, 6e14}));
  EXPECT_TRUE(told.at("figures").at(2).at("change").is_null());
  EXPECT_THAT(bench_difference_text(told),
              testing::ContainsRegex("product.cuda.bfloat16.fc1 +none +600 TFLOP/s"));
}

TEST(BenchDifference, OfOtherWorkIsNoFigure) {
  PlatformBench b = bench_of("b", 2e10, 0.002);
  b.workload += 1;
  const Json told = bench_difference(bench_of("a", 1e10, 0.002), b);
  EXPECT_FALSE(told.at("same_work").get<bool>());
  EXPECT_THAT(told.at("parts"), IsEmpty());
  EXPECT_TRUE(told.at("figures").at(0).at("change").is_null());
  EXPECT_THAT(bench_difference_text(told), HasSubstr("other work"));
}

TEST(BenchDifference, IsTextWhateverItsMachineIsCalled) {
  PlatformBench b = bench_of("\x1b[2Jb", 2e10, 0.002);
  b.processor = "Q\n\x07";
  const Json told = bench_difference(bench_of("a", 1e10, 0.002), b);
  EXPECT_FALSE(told.at("same_kind").get<bool>());
  EXPECT_THAT(bench_difference_text(told),
              Not(testing::AnyOf(HasSubstr("\x1b"), HasSubstr("\x07"))));
}

}  // namespace
}  // namespace regatta::orchestrator::compare
