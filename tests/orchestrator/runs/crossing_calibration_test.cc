// How often the predicted intervals hold: on real curves, and on random ones whose truth is known.
// The constants were fitted on these real curves, so what is measured here of "mlperf" is not held
// out; tests/bench/crossing_fit.py --check measures it cross-validated. "past runs" is: each run is
// predicted from others only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "orchestrator/runs/crossing.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator::runs {
namespace {

constexpr const char* kCurves = "data/mlperf_logs/curves.jsonl";

struct Curve {
  std::string round, system;
  double target = 0.72;
  Better better = Better::Higher;
  std::vector<EvaluationPoint> points;  // the last one met the target
};

// Each distinct curve of a successful run once: some were handed in again in a later round.
std::vector<Curve> real_curves() {
  std::istringstream lines(tests::file_text(tests::shared_path(kCurves)));
  std::vector<Curve> curves;
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    const auto run = nlohmann::json::parse(line);
    if (run["status"] != "success" || !seen.insert(run["evaluations"].dump()).second) continue;
    Curve curve{run["round"],
                run["submitter"].get<std::string>() + "/" + run["system"].get<std::string>(),
                run["target"],
                Better::Higher,
                {}};
    for (const auto& evaluation : run["evaluations"]) {
      const double value = evaluation[2];
      curve.points.push_back({evaluation[0], value, value >= curve.target});
      if (curve.points.back().target_met) break;
    }
    if (curve.points.back().target_met) curves.push_back(curve);
  }
  return curves;
}

// What was known at this share of the run: the evaluations so far, or the first one.
std::vector<EvaluationPoint> until(const Curve& curve, double share) {
  std::vector<EvaluationPoint> points{curve.points.front()};
  for (std::size_t i = 1; i + 1 < curve.points.size(); ++i) {
    if (curve.points[i].seconds > share * curve.points.back().seconds) break;
    points.push_back(curve.points[i]);
  }
  return points;
}

struct Tally {
  int asked = 0, held = 0, below = 0;
  std::vector<double> errors, widths;  // |ln(predicted / true)|, ln(high / low)
  std::map<CrossingModel, int> models;
  void count(const std::optional<Crossing>& crossing, double truth) {
    ++asked;
    if (!crossing) return;
    ++models[crossing->model];
    held += crossing->low <= truth * (1 + 1e-9) && truth <= crossing->high * (1 + 1e-9) ? 1 : 0;
    below += truth < crossing->low ? 1 : 0;
    errors.push_back(std::abs(std::log(crossing->seconds / truth)));
    widths.push_back(std::log(crossing->high / crossing->low));
  }
  [[nodiscard]] double coverage() const {
    return errors.empty() ? 0 : static_cast<double>(held) / static_cast<double>(errors.size());
  }
  [[nodiscard]] double answered() const {
    return static_cast<double>(errors.size()) / std::max(1, asked);
  }
  static double median(std::vector<double> values) {
    if (values.empty()) return NAN;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }
  void print(const std::string& name) const {
    std::printf("| %-28s | %5d | %4.0f %% | %.3f | %5.1f %% | %.2f |\n", name.c_str(), asked,
                100 * answered(), median(errors), 100 * coverage(), std::exp(median(widths)));
  }
};
void print_head() {
  std::printf("| at                           | asked | answered | error | held | high / low |\n");
}

// The line of earlier versions with two standard errors, for comparison.
std::optional<Crossing> line_of_earlier_versions(const std::vector<EvaluationPoint>& points,
                                                 double target) {
  const std::size_t used =
      std::min<std::size_t>({points.size(), 32, std::max<std::size_t>(3, (points.size() + 1) / 2)});
  if (used < 3) return std::nullopt;
  const auto n = static_cast<double>(used);
  std::vector<double> x, y;
  for (std::size_t i = points.size() - used; i < points.size(); ++i) {
    x.push_back(std::log(points[i].seconds));
    y.push_back(points[i].value);
  }
  double mean_x = 0, mean_y = 0, spread = 0, products = 0, squares = 0;
  for (std::size_t i = 0; i < used; ++i) mean_x += x[i] / n, mean_y += y[i] / n;
  for (std::size_t i = 0; i < used; ++i) {
    spread += (x[i] - mean_x) * (x[i] - mean_x);
    products += (x[i] - mean_x) * (y[i] - mean_y);
  }
  const double slope = products / spread;
  if (!(slope > 0)) return std::nullopt;
  for (std::size_t i = 0; i < used; ++i)
    squares += std::pow(y[i] - mean_y - slope * (x[i] - mean_x), 2);
  const double at = mean_x + (target - mean_y) / slope;
  const double last = points.back().seconds;
  if (at > std::log(last * 100)) return std::nullopt;
  const double error = std::sqrt(squares / (n - 2)) / slope *
                       std::sqrt(1 / n + (at - mean_x) * (at - mean_x) / spread);
  const auto clamped = [&](double log) { return std::clamp(std::exp(log), last, last * 100); };
  return Crossing{clamped(at), clamped(at - 2 * error), clamped(at + 2 * error), {}};
}

constexpr double kShares[] = {0.05, 0.2, 0.5};
std::string percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

TEST(CrossingCalibration, HoldsOnMlperfCurves) {
  REGATTA_NEED_SHARED(kCurves);
  const std::vector<Curve> curves = real_curves();
  ASSERT_EQ(curves.size(), 1576U);
  print_head();
  for (const double share : kShares) {
    Tally all, line;
    std::map<std::string, Tally> rounds;
    for (const Curve& curve : curves) {
      const auto points = until(curve, share);
      const double truth = curve.points.back().seconds;
      const auto crossing = predict_crossing(points, curve.target, curve.better, {});
      all.count(crossing, truth);
      rounds[curve.round].count(crossing, truth);
      line.count(line_of_earlier_versions(points, curve.target), truth);
    }
    all.print(percent(share));
    for (const auto& [round, tally] : rounds) {
      tally.print(percent(share) + " " + round);
      EXPECT_GE(tally.asked, 100);
      EXPECT_GE(tally.coverage(), 0.68) << round;
      EXPECT_LE(tally.coverage(), 0.97) << round;
    }
    line.print(percent(share) + ", line of before");
    EXPECT_GE(all.answered(), 0.999);
    EXPECT_GE(all.models[CrossingModel::Mlperf], 0.99 * all.asked);
    EXPECT_GE(all.coverage(), 0.75) << share;
    EXPECT_LE(all.coverage(), 0.85) << share;
    if (!line.errors.empty()) {
      EXPECT_LT(Tally::median(all.errors), Tally::median(line.errors) / 3);
    }
  }
}

// Runs of one system and round differ only by seed, as the past runs of a controller do.
TEST(CrossingCalibration, HoldsWithPastRunsOfTheSameSystem) {
  REGATTA_NEED_SHARED(kCurves);
  std::map<std::string, std::vector<Curve>> groups;
  for (const Curve& curve : real_curves()) groups[curve.round + curve.system].push_back(curve);
  print_head();
  for (const double share : kShares) {
    Tally few, all, without;
    for (const auto& [name, group] : groups) {
      if (group.size() < 6) continue;
      for (std::size_t i = 0; i < group.size(); ++i) {
        std::vector<PastRun> past;
        for (std::size_t k = 1; k < group.size(); ++k) {
          const Curve& other = group[(i + k) % group.size()];
          past.push_back(*past_run(other.points, other.target, other.better));
        }
        const auto points = until(group[i], share);
        const double truth = group[i].points.back().seconds;
        all.count(predict_crossing(points, group[i].target, group[i].better, past), truth);
        past.resize(3);
        few.count(predict_crossing(points, group[i].target, group[i].better, past), truth);
        without.count(predict_crossing(points, group[i].target, group[i].better, {}), truth);
      }
    }
    all.print(percent(share) + ", past runs: all others");
    few.print(percent(share) + ", past runs: 3");
    without.print(percent(share) + ", past runs: none");
    for (const Tally* tally : {&few, &all}) {
      EXPECT_GE(tally->coverage(), 0.75) << share;
      EXPECT_LE(tally->coverage(), 0.87) << share;
    }
    EXPECT_LT(Tally::median(all.errors), Tally::median(without.errors)) << share;
  }
}

// A family of runs that differ by seed: the same shape, other speed and other noise.
using Shape = std::function<double(double)>;  // of t from 0 to 1: progress from 0 to 1 and beyond
struct Family {
  const char* name;
  Shape shape;
};
const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"Gompertz",
       [](double t) { return std::exp(-6 * std::exp(-5 * t)) / std::exp(-6 * std::exp(-5.0)); }},
      {"square root", [](double t) { return std::sqrt(t); }},
      {"stretched exponential",
       [](double t) { return (1 - std::exp(-2 * std::pow(t, 0.6))) / (1 - std::exp(-2.0)); }},
      {"tanh", [](double t) { return std::tanh(2 * t) / std::tanh(2.0); }},
      {"two phases", [](double t) { return t < 0.5 ? 0.8 * t : 0.4 + 1.2 * (t - 0.5); }},
      {"saturating", [](double t) { return 1.3 * t / (t + 0.3); }},
      {"arc tangent", [](double t) { return std::atan(3 * t) / std::atan(3.0); }}};
  return all;
}

// A loss from 9 down to the target 3. Speed has a standard deviation of 15 %, values of 1 % of the
// way (or of what is given).
Curve random_run(const Family& family, std::mt19937_64& random, double noise, int evaluations) {
  std::normal_distribution<double> normal;
  Curve curve{"", family.name, 3, Better::Lower, {}};
  const double speed = std::exp(0.15 * normal(random));
  for (int i = 1; i < 40 * evaluations; ++i) {
    const double progress = family.shape(speed * i / evaluations) + noise * normal(random);
    const double value = 9 - 6 * progress;
    curve.points.push_back({60.0 * i, value, value <= curve.target});
    if (value <= curve.target) break;
  }
  return curve;
}

TEST(CrossingCalibration, HoldsWithPastRunsUnlikeMlperf) {
  constexpr int kRuns = 300;
  print_head();
  for (const std::size_t past_runs : {4U, 10U}) {
    Tally all;
    for (const Family& family : families()) {
      Tally tally;
      std::mt19937_64 random(7);
      for (int i = 0; i < kRuns; ++i) {
        std::vector<PastRun> past;
        while (past.size() < past_runs) {
          const Curve run = random_run(family, random, 0.01, 30);
          if (auto each = past_run(run.points, run.target, run.better)) past.push_back(*each);
        }
        const Curve run = random_run(family, random, 0.01, 30);
        if (!run.points.back().target_met) continue;
        for (const double share : kShares) {
          const auto crossing = predict_crossing(until(run, share), run.target, run.better, past);
          tally.count(crossing, run.points.back().seconds);
          all.count(crossing, run.points.back().seconds);
        }
      }
      tally.print(std::string(family.name) + ", " + std::to_string(past_runs) + " past");
      EXPECT_GE(tally.coverage(), 0.72) << family.name;
      EXPECT_GE(tally.answered(), 0.9) << family.name;
    }
    all.print("all, " + std::to_string(past_runs) + " past");
    EXPECT_GE(all.coverage(), 0.75);
    EXPECT_LE(all.coverage(), 0.85);
  }
}

TEST(CrossingCalibration, IsHonestOnOtherCurvesWithoutPastRuns) {
  constexpr int kRuns = 300;
  print_head();
  for (const Family& family : families()) {
    Tally tally;
    std::mt19937_64 random(11);
    for (int i = 0; i < kRuns; ++i) {
      const double noise = std::vector<double>{0, 0.003, 0.01, 0.03}[random() % 4];
      const Curve run = random_run(family, random, noise, 10 + static_cast<int>(random() % 50));
      if (!run.points.back().target_met) continue;
      for (const double share : kShares) {
        tally.count(predict_crossing(until(run, share), run.target, run.better, {}),
                    run.points.back().seconds);
      }
    }
    tally.print(family.name);
    EXPECT_GE(tally.coverage(), 0.7) << family.name;
    EXPECT_EQ(tally.models[CrossingModel::OwnCurve], static_cast<int>(tally.errors.size()));
  }
}

// Real curves that are not of the task: the same ones with another target.
TEST(CrossingCalibration, OnMlperfCurvesWithOtherTargets) {
  REGATTA_NEED_SHARED(kCurves);
  print_head();
  for (const double target : {0.5, 0.6, 0.65, 0.7, 0.71}) {
    Tally tally;
    for (Curve curve : real_curves()) {
      const auto met = std::find_if(curve.points.begin(), curve.points.end(),
                                    [&](const auto& point) { return point.value >= target; });
      curve.points.erase(met + 1, curve.points.end());
      curve.points.back().target_met = true;
      for (const double share : kShares) {
        tally.count(predict_crossing(until(curve, share), target, curve.better, {}),
                    curve.points.back().seconds);
      }
    }
    tally.print("target " + std::to_string(target).substr(0, 4));
    EXPECT_GE(tally.coverage(), 0.75) << target;
  }
}

}  // namespace
}  // namespace regatta::orchestrator::runs
