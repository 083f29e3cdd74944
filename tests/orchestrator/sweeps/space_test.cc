#include "orchestrator/sweeps/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "orchestrator/sweeps/draws.h"
#include "orchestrator/sweeps/grid.h"
#include "tests/orchestrator/sweeps/play.h"

namespace regatta::orchestrator::sweeps {
namespace {

using testing::HasSubstr;

SweepParameter number(ParameterKind kind, double low, double high, bool logarithmic = false) {
  SweepParameter parameter;
  parameter.key = "x";
  parameter.kind = kind;
  parameter.low = low;
  parameter.high = high;
  parameter.logarithmic = logarithmic;
  return parameter;
}

TEST(SweepValue, TextsAreWhatTheyReadAs) {
  const std::pair<const char*, SweepValue> rows[] = {
      {"true", true},
      {"false", false},
      {"32", std::int64_t{32}},
      {"-7", std::int64_t{-7}},
      {"0.5", 0.5},
      {"1e-05", 1e-5},
      {"32.0", 32.0},
      {"lamb", std::string("lamb")},
      {"True", std::string("True")},
      {"inf", std::string("inf")},
      {"nan", std::string("nan")},
      {"", std::string()},
      {"9223372036854775808", 9223372036854775808.0}};
  for (const auto& [text, value] : rows) {
    EXPECT_EQ(value_of(text), value) << text;
    EXPECT_TRUE(same_value(value_of(as_text(value)), value)) << text;
  }
  EXPECT_TRUE(same_value(std::int64_t{32}, 32.0));
  EXPECT_FALSE(same_value(std::int64_t{1}, true));
  EXPECT_FALSE(same_value("1", std::int64_t{1}));
  EXPECT_FALSE(same_value(std::int64_t{1}, std::int64_t{2}));
}

TEST(Space, AFaultIsThrownWithItsKey) {
  SweepParameter parameter = number(ParameterKind::Uniform, 1, 1);
  try {
    const Space space({parameter});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_EQ(error.key(), "x.high");
    EXPECT_THAT(error.what(), HasSubstr("x.high: is 1, and low is 1"));
  }
  parameter.high = 2;
  EXPECT_NO_THROW(Space({parameter}));
  EXPECT_EQ(fault_of({parameter, parameter})->message, "duplicate; remove one");
  SweepParameter other = number(ParameterKind::Integer, 1, 3);
  other.key = "y";
  parameter.when = {{"y", {std::int64_t{1}}}, {"y", {std::int64_t{1}}}};
  EXPECT_EQ(fault_of({parameter, other})->condition, "y");
  EXPECT_EQ(fault_of({parameter, other})->message, "duplicate; remove one");
  parameter.when.pop_back();
  EXPECT_FALSE(fault_of({parameter, other}).has_value());
  parameter.low = std::nan("");
  EXPECT_EQ(fault_of({parameter, other})->field, "low");
}

TEST(Space, ConditionsHoldTogether) {
  const Space space = mixed_space();
  const auto& all = space.parameters();
  const SweepParameter& above =
      *std::find_if(all.begin(), all.end(), [](const auto& each) { return each.key == "above"; });
  EXPECT_TRUE(is_active(above, {{"layers", std::int64_t{3}}, {"name", true}}));
  EXPECT_FALSE(is_active(above, {{"layers", std::int64_t{1}}, {"name", true}}));
  EXPECT_FALSE(is_active(above, {{"layers", std::int64_t{3}}, {"name", "adamw"}}));
  EXPECT_FALSE(is_active(above, {{"layers", std::int64_t{3}}}));
  EXPECT_FALSE(is_active(above, {{"name", true}}));  // layers itself is not active
}

TEST(Space, TheOrderOfTheFileIsOfNoMatter) {
  const Space space = mixed_space();
  std::vector<SweepParameter> turned(space.parameters().rbegin(), space.parameters().rend());
  const Space other(turned);
  for (int trial = 1; trial < 50; ++trial) {
    EXPECT_EQ(random_values(space, 3, trial), random_values(other, 3, trial));
  }
}

TEST(NumberScale, ReachesItsEndsAndNoFurther) {
  const NumberScale even(number(ParameterKind::Uniform, -1, 3));
  EXPECT_EQ(even.value(even.low()), SweepValue(-1.0));
  EXPECT_EQ(even.value(even.high()), SweepValue(3.0));
  const NumberScale logarithms(number(ParameterKind::LogUniform, 1e-5, 1e-1, true));
  EXPECT_NEAR(std::get<double>(logarithms.value(0.5 * (logarithms.low() + logarithms.high()))),
              1e-3, 1e-15);
  EXPECT_GE(std::get<double>(logarithms.value(logarithms.low())), 1e-5);
  EXPECT_LE(std::get<double>(logarithms.value(logarithms.high())), 1e-1);
  const NumberScale whole(number(ParameterKind::Integer, -2, 2));
  EXPECT_EQ(whole.low(), -2.5);
  EXPECT_EQ(whole.value(-2.5), SweepValue(std::int64_t{-2}));
  EXPECT_EQ(whole.value(-0.6), SweepValue(std::int64_t{-1}));
  EXPECT_EQ(whole.value(2.5), SweepValue(std::int64_t{2}));
  const NumberScale sizes(number(ParameterKind::Integer, 1, 8, true));
  EXPECT_NEAR(sizes.low(), std::log(0.5), 1e-15);
  EXPECT_EQ(sizes.value(std::log(2.6)), SweepValue(std::int64_t{3}));
}

// Each of the five values has one fifth; six standard deviations of a binomial with n = 50,000 are
// 6·√(50000·0.2·0.8) = 537.
TEST(PriorValue, IsEven) {
  constexpr int kDraws = 50'000;
  SweepParameter choice;
  choice.kind = ParameterKind::Choice;
  choice.choices = {"a", "b", "c", "d", "e"};
  std::map<std::string, int> choices, integers, fifths, decades;
  for (int trial = 0; trial < kDraws; ++trial) {
    const double u = draw({11, trial, 4}, 0).first;
    ++choices[as_text(prior_value(choice, u))];
    ++integers[as_text(prior_value(number(ParameterKind::Integer, -2, 2), u))];
    const SweepValue of_range = prior_value(number(ParameterKind::Uniform, 10, 15), u);
    ++fifths[std::to_string(std::floor(*number_in(of_range)))];
    const SweepValue of_decades = prior_value(number(ParameterKind::LogUniform, 1, 1e5, true), u);
    ++decades[std::to_string(std::floor(std::log10(*number_in(of_decades))))];
  }
  for (const auto* const counts : {&choices, &integers, &fifths, &decades}) {
    EXPECT_EQ(counts->size(), 5U);
    for (const auto& [value, count] : *counts) EXPECT_NEAR(count, kDraws / 5, 537) << value;
  }
}

// An integer on its logarithm has the share of log((k + ½) / (k − ½)).
TEST(PriorValue, SpreadsIntegersByTheirLogarithm) {
  constexpr int kDraws = 50'000;
  std::map<std::int64_t, int> counts;
  for (int trial = 0; trial < kDraws; ++trial) {
    const SweepValue value =
        prior_value(number(ParameterKind::Integer, 1, 4, true), draw({5, trial, 0}, 0).first);
    ++counts[std::get<std::int64_t>(value)];
  }
  for (int k = 1; k <= 4; ++k) {
    const double share = std::log((k + 0.5) / (k - 0.5)) / std::log(4.5 / 0.5);
    EXPECT_NEAR(counts[k], kDraws * share, 6 * std::sqrt(kDraws * share * (1 - share))) << k;
  }
}

TEST(Draws, DependOnEachPartOfTheirKey) {
  const UnitPair one = draw({1, 2, 3}, 4);
  EXPECT_EQ(one.first, draw({1, 2, 3}, 4).first);
  EXPECT_NE(one.first, one.second);
  for (const UnitPair& other : {draw({2, 2, 3}, 4), draw({std::uint64_t{1} << 40U | 1U, 2, 3}, 4),
                                draw({1, 3, 3}, 4), draw({1, 2, 4}, 4), draw({1, 2, 3}, 5)}) {
    EXPECT_NE(one.first, other.first);
    EXPECT_NE(one.second, other.second);
  }
}

TEST(Grid, VisitsEachPointOnce) {
  const Space space = mixed_space();
  const std::size_t size = grid_size(space, 100'000);
  std::vector<SweepValues> seen;
  for (std::size_t i = 0; i < size; ++i) {
    const auto point = grid_point(space, i);
    ASSERT_TRUE(point.has_value());
    EXPECT_EQ(std::count(seen.begin(), seen.end(), *point), 0);
    seen.push_back(*point);
  }
  EXPECT_FALSE(grid_point(space, size).has_value());
  // 4 rates · 3 decays · 4 sizes · (adamw, lamb with 2 betas, true with 2 betas and of the layers
  // 0 and 1, and 2 and 3 with two values of above).
  EXPECT_EQ(size, 4U * 3 * 4 * (1 + 2 + 2 * (2 + 2 * 2)));
  EXPECT_EQ(grid_size(space, 100), 100U);
  EXPECT_EQ(grid_size(Space(), 100), 1U);  // with nothing set
}

TEST(Grid, PointsAreEvenlySpacedWithBothEnds) {
  SweepParameter parameter = number(ParameterKind::LogUniform, 1e-5, 1e-2, true);
  parameter.points = 4;
  const double expected[] = {1e-5, 1e-4, 1e-3, 1e-2};
  const auto rates = grid_values(parameter, 100);
  ASSERT_EQ(rates.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(*number_in(rates[i]), expected[i], 1e-14 * expected[i] + 1e-18);
  }
  EXPECT_EQ(rates.front(), SweepValue(1e-5));
  EXPECT_EQ(rates.back(), SweepValue(1e-2));
  const auto values = [](SweepParameter of, int points) {
    of.points = points;
    std::vector<std::int64_t> all;
    for (const SweepValue& each : grid_values(of, 100)) all.push_back(std::get<1>(each));
    return all;
  };
  const SweepParameter even = number(ParameterKind::Integer, 0, 10);
  EXPECT_EQ(values(even, 3), (std::vector<std::int64_t>{0, 5, 10}));
  EXPECT_EQ(values(even, 0).size(), 11U);
  const SweepParameter sizes = number(ParameterKind::Integer, 1, 64, true);
  EXPECT_EQ(values(sizes, 4), (std::vector<std::int64_t>{1, 4, 16, 64}));
  // 1, 1.27, 1.62, 2.06, … rounded: each once.
  const SweepParameter few = number(ParameterKind::Integer, 1, 16, true);
  EXPECT_EQ(values(few, 13), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 8, 10, 13, 16}));
}

}  // namespace
}  // namespace regatta::orchestrator::sweeps
