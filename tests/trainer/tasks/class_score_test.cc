#include "trainer/tasks/class_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::trainer {
namespace {

using nlohmann::json;
using tasks::ClassScore;
using tasks::ValueScore;
using ClassList = std::vector<std::int32_t>;
using ValueList = std::vector<double>;

constexpr double kRounding = 0x1p-53;  // relative, of one rounding

// Results by hand are fractions; Matthews of more than that are square roots of them.
TEST(ClassScore, TablesByHand) {
  struct Case {
    const char* name;
    int classes;
    ClassList truth;
    ClassList predicted;
    std::int64_t correct;
    double f1;
    double matthews;
  };
  const Case cases[] = {
      {"one example, right", 2, {1}, {1}, 1, 1.0, 0.0},
      {"one example, wrong", 2, {1}, {0}, 0, 0.0, 0.0},
      {"perfect", 2, {0, 1, 1}, {0, 1, 1}, 3, 1.0, 1.0},
      {"all wrong", 2, {0, 1, 1}, {1, 0, 0}, 0, 0.0, -1.0},
      {"never class 1", 2, {0, 1, 0, 1}, {0, 0, 0, 0}, 2, 0.0, 0.0},
      {"always class 1", 2, {0, 1, 0, 1}, {1, 1, 1, 1}, 2, 2.0 / 3, 0.0},
      {"neither side has class 1", 2, {0, 0}, {0, 0}, 2, 0.0, 0.0},
      {"constant truth", 2, {1, 1, 1, 1}, {1, 0, 1, 1}, 3, 6.0 / 7, 0.0},
      {"like tossing a coin", 2, {0, 0, 1, 1}, {0, 1, 0, 1}, 2, 0.5, 0.0},
      {"perfect of three", 3, {0, 1, 2, 2}, {0, 1, 2, 2}, 4, 1.0, 1.0},
      {"three, shifted", 3, {0, 1, 2}, {1, 2, 0}, 0, 0.0, -0.5},  // (0·3 − 3) / (9 − 3)
      {"a class that nobody has is not in the mean", 4, {0, 1, 1, 3}, {0, 1, 1, 3}, 4, 1.0, 1.0},
      {"a class that only predictions have is",
       3,
       {0, 0, 1, 1},
       {0, 2, 1, 1},
       3,
       (2.0 / 3 + 1 + 0) / 3,
       6 / std::sqrt(80.0)},  // (3·4 − (2·1 + 2·2)) / √((16−6)·(16−8))
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const ClassScore score = tasks::score_classes(one.truth, one.predicted, one.classes);
    EXPECT_EQ(score.examples, static_cast<std::int64_t>(one.truth.size()));
    EXPECT_EQ(score.correct, one.correct);
    EXPECT_EQ(score.accuracy,
              static_cast<double>(one.correct) / static_cast<double>(one.truth.size()));
    EXPECT_DOUBLE_EQ(score.f1, one.f1);
    EXPECT_DOUBLE_EQ(score.matthews, one.matthews);
  }
}

TEST(ClassScore, PublishedExamples) {
  // scikit-learn's documentation of accuracy_score, f1_score and matthews_corrcoef (classes -1
  // and 1 are 0 and 1 here); it prints 0.5, 0.26… and -0.33….
  EXPECT_EQ(tasks::score_classes(ClassList{0, 1, 2, 3}, ClassList{0, 2, 1, 3}, 4).accuracy, 0.5);
  EXPECT_NEAR(tasks::score_classes(ClassList{0, 1, 2, 0, 1, 2}, ClassList{0, 2, 1, 0, 0, 1}, 3).f1,
              0.2667, 5e-5);
  EXPECT_NEAR(tasks::score_classes(ClassList{1, 1, 1, 0}, ClassList{1, 0, 1, 1}, 2).matthews,
              -0.3333, 5e-5);
  // Wikipedia, "Phi coefficient": eight cats (1) and four dogs, of which three are taken wrongly.
  EXPECT_NEAR(tasks::score_classes(ClassList{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
                                   ClassList{0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1}, 2)
                  .matthews,
              0.478, 5e-4);
}

TEST(ClassScore, ManyExamplesDoNotOverflow) {
  const ClassList truth(3'000'000, 1);
  ClassList predicted = truth;
  predicted[7] = 0;
  EXPECT_EQ(tasks::score_classes(truth, predicted, 2).correct, 2'999'999);
  ClassList half(3'000'000);
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = static_cast<std::int32_t>(i % 3);
  EXPECT_EQ(tasks::score_classes(half, half, 3).matthews, 1.0);
}

TEST(ValueScore, TablesByHand) {
  struct Case {
    const char* name;
    ValueList truth;
    ValueList predicted;
    double error;
    std::optional<double> pearson;
    std::optional<double> spearman;
  };
  const Case cases[] = {
      {"one example", {2}, {5}, 9, {}, {}},
      {"equal", {0.1, 0.2, 0.7}, {0.1, 0.2, 0.7}, 0, 1.0, 1.0},
      {"a line", {1, 2, 3}, {2, 4, 6}, 14.0 / 3, 1.0, 1.0},
      {"backwards", {1, 2, 3}, {3, 2, 1}, 8.0 / 3, -1.0, -1.0},
      {"a curve", {0, 1, 2}, {0, 1, 4}, 4.0 / 3, 4 / std::sqrt(2 * 26 / 3.0), 1.0},
      {"constant predictions", {1, 2, 3}, {0.1, 0.1, 0.1}, (0.81 + 3.61 + 8.41) / 3, {}, {}},
      {"constant truth", {0.3, 0.3}, {1, 2}, (0.49 + 2.89) / 2, {}, {}},
      {"both zeros are equal", {0.0, -0.0}, {1, 2}, 2.5, {}, {}},
      {"unrelated", {0, 0, 1, 1}, {0, 1, 0, 1}, 0.5, 0.0, 0.0},
      // ranks 1 2.5 2.5 4 and 1 2 3 4
      {"ties",
       {1, 2, 2, 9},
       {1, 2, 3, 4},
       26.0 / 4,
       12 / std::sqrt(41 * 5.0),
       4.5 / std::sqrt(4.5 * 5)},
      {"very small", {1e-150, 3e-150}, {2e-150, 5e-150}, 2.5e-300, 1.0, 1.0},
      {"very large", {-1e150, 1e150}, {1e150, -1e150}, 4e300, -1.0, -1.0},
      {"far from zero", {1e15 + 1, 1e15 + 2, 1e15 + 3}, {1, 2, 3}, 1e30, 1.0, 1.0},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const ValueScore score = tasks::score_values(one.truth, one.predicted);
    EXPECT_EQ(score.examples, static_cast<std::int64_t>(one.truth.size()));
    EXPECT_DOUBLE_EQ(score.mean_squared_error, one.error);
    ASSERT_EQ(score.pearson.has_value(), one.pearson.has_value());
    ASSERT_EQ(score.spearman.has_value(), one.spearman.has_value());
    if (!one.pearson) continue;
    EXPECT_DOUBLE_EQ(*score.pearson, *one.pearson);
    EXPECT_DOUBLE_EQ(*score.spearman, *one.spearman);
  }
}

TEST(ValueScore, PublishedExamples) {
  // scikit-learn's documentation of mean_squared_error: 0.375.
  EXPECT_EQ(
      tasks::score_values(ValueList{3, -0.5, 2, 7}, ValueList{2.5, 0.0, 2, 8}).mean_squared_error,
      0.375);
  // SciPy's documentation of spearmanr, with a tie: 0.82078268….
  EXPECT_NEAR(*tasks::score_values(ValueList{1, 2, 3, 4, 5}, ValueList{5, 6, 7, 8, 7}).spearman,
              0.82078268, 5e-9);
  // Wikipedia, "Spearman's rank correlation coefficient": IQ and hours of television, -29/165.
  EXPECT_DOUBLE_EQ(*tasks::score_values(ValueList{106, 100, 86, 101, 99, 103, 97, 113, 112, 110},
                                        ValueList{7, 27, 2, 50, 28, 29, 20, 12, 6, 17})
                        .spearman,
                   -29.0 / 165);
  // Anscombe, "Graphs in Statistical Analysis" (The American Statistician 27, 1973): all 0.816.
  const ValueList x = {10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5};
  const ValueList fourth = {8, 8, 8, 8, 8, 8, 8, 19, 8, 8, 8};
  const ValueList quartet[] = {{8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68},
                               {9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74},
                               {7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73},
                               {6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89}};
  for (const ValueList& y : quartet) {
    EXPECT_NEAR(*tasks::score_values(&y == &quartet[3] ? fourth : x, y).pearson, 0.8165, 5e-4);
  }
}

TEST(ValueScore, PredictionsThatAreNoNumbersAreAnError) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1.1e150}) {
    try {
      (void)tasks::score_values(ValueList{1, 2, 3}, ValueList{1, bad, 3});
      ADD_FAILURE() << bad;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), testing::StartsWith("the prediction for example 2 is "));
    }
  }
}

TEST(ClassScoreDeath, WhatCallersPromise) {
  EXPECT_DEATH((void)tasks::score_classes(ClassList{}, ClassList{}, 2), "examples");
  EXPECT_DEATH((void)tasks::score_classes(ClassList{0}, ClassList{0, 1}, 2), "a prediction");
  EXPECT_DEATH((void)tasks::score_classes(ClassList{0}, ClassList{2}, 2), "from 0 to classes");
  EXPECT_DEATH((void)tasks::score_classes(ClassList{-1}, ClassList{0}, 2), "from 0 to classes");
  EXPECT_DEATH((void)tasks::score_classes(ClassList{0}, ClassList{0}, 1), "two classes");
  EXPECT_DEATH((void)tasks::score_values(ValueList{}, ValueList{}), "examples");
  EXPECT_DEATH((void)tasks::score_values(ValueList{std::nan("")}, ValueList{1}), "finite");
  EXPECT_DEATH((void)tasks::best_constant(ValueList{HUGE_VAL}), "finite");
}

// Every constant guess is tried for every metric.
TEST(BestConstant, NoConstantGuessIsBetter) {
  std::mt19937 random(20);
  for (int round = 0; round < 200; ++round) {
    const int classes = 2 + static_cast<int>(random() % 5);
    ClassList truth(1 + random() % 20);
    for (auto& label : truth) {
      label = static_cast<std::int32_t>(random() % static_cast<unsigned>(classes));
    }
    ClassScore best;
    for (std::int32_t guess = 0; guess < classes; ++guess) {
      const ClassScore score = tasks::score_classes(truth, ClassList(truth.size(), guess), classes);
      EXPECT_EQ(score.matthews, 0);
      best.correct = std::max(best.correct, score.correct);
      best.accuracy = std::max(best.accuracy, score.accuracy);
      best.f1 = std::max(best.f1, score.f1);
    }
    const ClassScore score = tasks::best_constant(truth, classes);
    EXPECT_EQ(score.examples, static_cast<std::int64_t>(truth.size()));
    EXPECT_EQ(score.correct, best.correct);
    EXPECT_EQ(score.accuracy, best.accuracy);
    EXPECT_EQ(score.f1, best.f1);
    EXPECT_EQ(score.matthews, 0);
  }
}

TEST(BestConstant, TheMeanHasTheErrorOfTheVariance) {
  const ValueScore score = tasks::best_constant(ValueList{1, 2, 3, 6});
  EXPECT_EQ(score.mean_squared_error, 3.5);  // of 3: (4 + 1 + 0 + 9) / 4
  EXPECT_FALSE(score.pearson || score.spearman);
  EXPECT_EQ(tasks::best_constant(ValueList{0.1, 0.1, 0.1}).mean_squared_error, 0);
}

// What each rounding may cost, relative to `exact`.
void expect_rounded(double value, const json& exact, int roundings, const std::string& what) {
  ASSERT_TRUE(exact.is_number()) << what;
  EXPECT_LE(std::abs(value - exact.get<double>()),
            roundings * kRounding * std::max(std::abs(exact.get<double>()), 0x1p-1000))
      << what << " of " << value << " is " << exact;
}

// Random examples with many ties, beside fractions (class_score.py). Half of the predictions are
// those of the truth, so that scores are of all sizes.
json random_cases(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<int>(random() % n); };
  json cases = json::array();
  for (int round = 0; round < 300; ++round) {
    const int classes = 2 + below(5);
    json truth;
    json predicted;
    for (int n = 1 + below(40); n > 0; --n) {
      truth.push_back(below(static_cast<std::size_t>(classes)));
      predicted.push_back(below(2) == 0 ? truth.back().get<int>()
                                        : below(static_cast<std::size_t>(classes)));
    }
    cases.push_back({{"classes", classes}, {"truth", truth}, {"predicted", predicted}});
  }
  for (int round = 0; round < 300; ++round) {
    json truth;
    json predicted;
    const double step = below(2) == 0 ? 0.2 : 1.0;  // not all are binary fractions
    const auto levels = static_cast<std::size_t>(2 + below(12));
    for (int n = 1 + below(40); n > 0; --n) {
      truth.push_back(step * below(levels));
      predicted.push_back(below(2) == 0 ? truth.back().get<double>() : step * below(levels));
    }
    cases.push_back({{"classes", 0}, {"truth", truth}, {"predicted", predicted}});
  }
  return cases;
}

TEST(ClassScore, AsInExactArithmetic) {
  const json cases = random_cases(11);
  const tests::TemporaryDirectory directory;
  std::ofstream(directory.path() / "cases.json") << cases;
  base::Command command;
  command.arguments = {"python3", "-B",
                       std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/tasks/class_score.py",
                       (directory.path() / "cases.json").string()};
  const base::Output output = base::run(command, 200);
  ASSERT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
  const json scores = json::parse(output.text);
  ASSERT_EQ(scores.size(), cases.size());
  int correlations = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].dump());
    const json& exact = scores[i];
    if (const int classes = cases[i]["classes"]; classes > 0) {
      const ClassScore score = tasks::score_classes(
          cases[i]["truth"].get<ClassList>(), cases[i]["predicted"].get<ClassList>(), classes);
      EXPECT_EQ(score.correct, exact["correct"].get<std::int64_t>());
      EXPECT_EQ(score.accuracy, exact["accuracy"].get<double>());
      expect_rounded(score.f1, exact["f1"], classes == 2 ? 0 : 2 * classes + 2, "F1");
      expect_rounded(score.matthews, exact["matthews"], 5, "Matthews");
      continue;
    }
    const ValueScore score = tasks::score_values(cases[i]["truth"].get<ValueList>(),
                                                 cases[i]["predicted"].get<ValueList>());
    expect_rounded(score.mean_squared_error, exact["mean_squared_error"], 2, "error");
    ASSERT_EQ(score.pearson.has_value(), !exact["pearson"].is_null());
    ASSERT_EQ(score.spearman.has_value(), !exact["spearman"].is_null());
    if (!score.pearson) continue;
    ++correlations;
    // Sums cancel: what is lost is relative to 1.
    EXPECT_NEAR(*score.pearson, exact["pearson"].get<double>(), 2 * kRounding);
    expect_rounded(*score.spearman, exact["spearman"], 2, "Spearman");
  }
  EXPECT_GT(correlations, 200);
}

}  // namespace
}  // namespace regatta::trainer
