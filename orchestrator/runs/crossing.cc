#include "orchestrator/runs/crossing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"
#include "orchestrator/runs/crossing_constants.h"

namespace regatta::orchestrator::runs {
namespace {

constexpr std::size_t kFewestPast = 3;  // with two, Student's t is too wide to say anything
constexpr std::size_t kFewestPoints = 3;
constexpr std::size_t kMostPoints = 32;  // of the line
constexpr std::size_t kMostBests = 256;
constexpr double kLeastSpread = 0.01;          // of ln T: past runs that agree by chance
constexpr double kWidest = 6;                  // times the interval of a run whose predictions held
constexpr double kSignificance = 2;            // of the line's slope, in standard errors
constexpr double kTenth = 1.2815515655446004;  // standard deviations to a normal's 90 % quantile

struct Usable {
  std::vector<double> time;  // ln seconds
  std::vector<double> gap;
  std::vector<double> best;  // the least gap so far
  std::optional<double> crossing_seconds;
};

// Up to the evaluation that met the target.
Usable usable(const std::vector<EvaluationPoint>& points, double target, Better better) {
  Usable all;
  if (!std::isfinite(target) || target == 0) return all;
  const double sign = better == Better::Higher ? 1 : -1;
  double last = 0;
  for (const EvaluationPoint& point : points) {
    const double gap = sign * (target - point.value) / std::abs(target);
    if (!std::isfinite(point.seconds) || point.seconds <= last) continue;
    if (point.target_met) {
      all.crossing_seconds = point.seconds;
      break;
    }
    if (!std::isfinite(gap)) continue;
    last = point.seconds;
    all.time.push_back(std::log(point.seconds));
    all.gap.push_back(gap);
    all.best.push_back(all.best.empty() ? gap : std::min(gap, all.best.back()));
  }
  return all;
}

struct Ahead {  // of ln(T / t)
  double low = 0, centre = 0, high = 0;
  CrossingModel model = CrossingModel::OwnCurve;
};

// Both sides of an interval times a factor. Never in the past.
Ahead widened(const Ahead& ahead, double factor) {
  const double by = std::min(factor, kWidest);
  return {std::max(0.0, ahead.centre - by * (ahead.centre - ahead.low)),
          std::max(0.0, ahead.centre),
          std::max(0.0, ahead.centre + by * (ahead.high - ahead.centre)), ahead.model};
}

// How far a deviation goes beyond the interval's side that it is on; 1 is its end.
double score(const Ahead& ahead, double deviation) {
  constexpr double kLeastSide = 0.02;
  const double side = deviation > 0 ? ahead.high - ahead.centre : ahead.centre - ahead.low;
  return std::abs(deviation) / std::max(side, kLeastSide);
}

// A piecewise linear function through knots; constant outside.
template <std::size_t N>
double between(const std::array<double, N>& knots, const std::array<double, N>& values, double x) {
  if (x <= knots.front()) return values.front();
  if (x >= knots.back()) return values.back();
  const auto next = std::upper_bound(knots.begin(), knots.end(), x);
  const auto k = static_cast<std::size_t>(next - knots.begin());
  const double weight = (x - knots[k - 1]) / (knots[k] - knots[k - 1]);
  return values[k - 1] + weight * (values[k] - values[k - 1]);
}

std::optional<Ahead> ahead_by_mlperf(const Usable& run, std::size_t count) {
  const double gap = std::max(run.best[count - 1], std::exp(kGapKnots.front()));
  const double x = std::log(gap);
  if (gap > kWidestGap) return std::nullopt;
  std::size_t nearest = 0;
  for (std::size_t k = 1; k < kGapKnots.size(); ++k) {
    if (std::abs(kGapKnots[k] - x) < std::abs(kGapKnots[nearest] - x)) nearest = k;
  }
  const auto n = static_cast<double>(count);
  if (n < kFewestEvaluations[nearest] || n > kMostEvaluations[nearest]) return std::nullopt;
  const double centre =
      between(kGapKnots, kLevel, x) + between(kGapKnots, kPerCount, x) * std::log(n);
  return Ahead{centre + between(kGapKnots, kLowRest, x), centre,
               centre + between(kGapKnots, kHighRest, x), CrossingModel::Mlperf};
}

// ln of the share of its time that a past run had taken when its gap first was this small.
std::optional<double> share_at(const PastRun& past, double gap) {
  const auto& bests = past.bests;
  if (bests.empty()) return std::nullopt;
  std::size_t k = 0;
  while (k < bests.size() && bests[k].gap > gap) ++k;
  if (k == bests.size()) return 0.0;
  const double at = std::log(bests[k].share);
  if (k == 0) return at;
  const double before = std::log(bests[k - 1].share);
  return before + (at - before) * (bests[k - 1].gap - gap) / (bests[k - 1].gap - bests[k].gap);
}

double normal_share(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double normal_quantile(double share) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (normal_share(middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

// The 90 % quantile of Student's t (Hill 1970, "Algorithm 396", to 1 % from 2 degrees on).
double student_tenth(double degrees) {
  const double z = kTenth;
  const double g1 = (z * z * z + z) / 4;
  const double g2 = (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / 96;
  const double g3 = (3 * std::pow(z, 7) + 19 * std::pow(z, 5) + 17 * z * z * z - 15 * z) / 384;
  return z + g1 / degrees + g2 / (degrees * degrees) + g3 / (degrees * degrees * degrees);
}

std::optional<Ahead> ahead_by_past(const Usable& run, std::size_t count,
                                   const std::vector<PastRun>& past) {
  const double gap = run.best[count - 1];
  std::size_t at = count - 1;
  while (at > 0 && run.best[at - 1] == gap) --at;
  std::vector<double> ahead;
  for (const PastRun& each : past) {
    if (const auto share = share_at(each, gap)) {
      ahead.push_back(run.time[at] - run.time[count - 1] - *share);
    }
  }
  const auto runs = static_cast<double>(ahead.size());
  if (ahead.size() < kFewestPast) return std::nullopt;
  double mean = 0;
  for (const double each : ahead) mean += each / runs;
  double squares = 0;
  for (const double each : ahead) squares += (each - mean) * (each - mean);
  const double spread = std::max(kLeastSpread, std::sqrt(squares / (runs - 1)));
  const double sigma = student_tenth(runs - 1) * spread * std::sqrt(1 + 1 / runs) / kTenth;
  // The run has not crossed yet: what is left is the distribution beyond now. Where that is its
  // last tenth, this run is not like the past ones.
  const double gone = normal_share(-mean / sigma);
  if (!(gone < 0.9)) return std::nullopt;
  const auto quantile = [&](double share) {
    return mean + sigma * normal_quantile(gone + share * (1 - gone));
  };
  return Ahead{quantile(0.1), quantile(0.5), quantile(0.9), CrossingModel::PastRuns};
}

// How far away (in ln t, from the newest of the points) a straight line of gap over ln t through
// the newest third of them gets to `goal`; nothing when it does not clearly fall.
std::optional<double> line_distance(std::span<const double> time, std::span<const double> gap,
                                    double goal) {
  const std::size_t used = std::min(kMostPoints, std::max(kFewestPoints, (time.size() + 2) / 3));
  if (used > time.size()) return std::nullopt;
  const auto x = time.last(used);
  const auto y = gap.last(used);
  const auto n = static_cast<double>(used);
  double mean_x = 0, mean_y = 0, spread = 0, products = 0, squares = 0;
  for (std::size_t i = 0; i < used; ++i) {
    mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  for (std::size_t i = 0; i < used; ++i) {
    spread += (x[i] - mean_x) * (x[i] - mean_x);
    products += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (!(spread > 0)) return std::nullopt;
  const double slope = products / spread;
  for (std::size_t i = 0; i < used; ++i) {
    const double rest = y[i] - mean_y - slope * (x[i] - mean_x);
    squares += rest * rest;
  }
  const double error = std::sqrt(squares / (n - 2) / spread);
  if (!(slope < 0) || -slope < kSignificance * error) return std::nullopt;
  const double distance = mean_x + (goal - mean_y) / slope - x[used - 1];
  if (!(distance < kFarthestDistance)) return std::nullopt;
  return distance;
}

// The curves behind the constants had 8 to 60 evaluations, so none of them crossed sooner than one
// evaluation later. With more evaluations half of the line's distance bounds the lower end: what is
// linear in time gets there after about 0.6 of it.
Ahead by_distance(double distance) {
  constexpr double kSooner = 0.5;
  const double x = std::log(std::max(distance, std::exp(kDistanceKnots.front())));
  const double low = between(kDistanceKnots, kDistanceLow, x);
  return {std::clamp(kSooner * distance, 0.0, low), between(kDistanceKnots, kDistanceCentre, x),
          between(kDistanceKnots, kDistanceHigh, x), CrossingModel::OwnCurve};
}

// What lines through 2/3, 4/9, … of the evaluations so far said of when the present best would be
// reached, against when it was. Root mean square of the scores, with as much weight as two
// predictions that did as well as the constants say.
double own_misses(const Usable& run, std::size_t count) {
  constexpr double kPrior = 2;
  constexpr double kUsual = 1 / (kTenth * kTenth);  // mean square of a normal's scores
  const double best = run.best[count - 1];
  std::size_t reached = count - 1;
  while (reached > 0 && run.best[reached - 1] == best) --reached;
  double sum = kPrior * kUsual, weight = kPrior;
  for (std::size_t k = (reached + 1) * 2 / 3; k >= kFewestPoints; k = k * 2 / 3) {
    const auto distance =
        line_distance(std::span(run.time).first(k), std::span(run.gap).first(k), best);
    if (!distance) continue;
    const Ahead then = by_distance(*distance);
    const double off = score(then, run.time[reached] - run.time[k - 1] - then.centre);
    sum += off * off;
    weight += 1;
  }
  return std::sqrt(sum / (weight * kUsual));
}

std::optional<Ahead> ahead_by_own_curve(const Usable& run, std::size_t count) {
  const auto distance =
      line_distance(std::span(run.time).first(count), std::span(run.gap).first(count), 0);
  if (!distance) return std::nullopt;
  return widened(by_distance(*distance), std::max(1.0, own_misses(run, count)));
}

// By how much an earlier prediction of the same model and this one exclude each other: up to twice
// the earlier one's side is usual.
template <typename Model>
std::optional<Ahead> consistent(const Usable& run, std::size_t count, const Model& model) {
  const std::optional<Ahead> now = model(count);
  if (!now) return std::nullopt;
  double factor = 1;
  for (std::size_t k = count * 2 / 3; k >= 1; k = k * 2 / 3) {
    const std::optional<Ahead> then = model(k);
    if (!then) continue;
    const double moved = now->centre + run.time[count - 1] - then->centre - run.time[k - 1];
    factor = std::max(factor, score(*then, moved) / 2);
  }
  return widened(*now, factor);
}

struct Question {
  double target = 0;
  Better better = Better::Higher;
  const std::vector<PastRun>& past;
  std::string_view metric;
};

std::optional<Crossing> predict(const Usable& run, std::size_t count, const Question& question) {
  if (count == 0) return std::nullopt;
  std::optional<Ahead> ahead;
  if (question.past.size() >= kFewestPast) {
    ahead =
        consistent(run, count, [&](std::size_t k) { return ahead_by_past(run, k, question.past); });
  }
  if (!ahead && question.metric == kMlperfMetric && question.better == Better::Higher &&
      std::abs(question.target - kMlperfTarget) < kMlperfTargetNear) {
    ahead = consistent(run, count, [&](std::size_t k) { return ahead_by_mlperf(run, k); });
  }
  if (!ahead) ahead = ahead_by_own_curve(run, count);
  if (!ahead) return std::nullopt;
  const double now = std::exp(run.time[count - 1]);
  const Crossing crossing{now * std::exp(ahead->centre), now * std::exp(ahead->low),
                          now * std::exp(ahead->high), ahead->model};
  if (!std::isfinite(crossing.high)) return std::nullopt;
  return crossing;
}

}  // namespace

const char* name_of(CrossingModel model) {
  switch (model) {
    case CrossingModel::PastRuns:
      return "past runs";
    case CrossingModel::Mlperf:
      return "mlperf";
    case CrossingModel::OwnCurve:
      return "own curve";
  }
  base::check(false, "every model of the crossing has a name");
  return "";
}

std::optional<PastRun> past_run(const std::vector<EvaluationPoint>& points, double target,
                                Better better) {
  const Usable run = usable(points, target, better);
  if (!run.crossing_seconds) return std::nullopt;
  PastRun past;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < run.gap.size(); ++i) {
    if (run.gap[i] <= 0 || run.gap[i] >= best) continue;
    best = run.gap[i];
    past.bests.push_back({std::exp(run.time[i]) / *run.crossing_seconds, best});
  }
  if (past.bests.size() >= kMostBests) {
    const std::size_t every = past.bests.size() / kMostBests + 1;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < past.bests.size(); i += every) past.bests[kept++] = past.bests[i];
    past.bests.resize(kept);
  }
  past.bests.push_back({1, 0});
  return past;
}

std::optional<Crossing> predict_crossing(const std::vector<EvaluationPoint>& points, double target,
                                         Better better, const std::vector<PastRun>& past,
                                         std::string_view metric) {
  const Usable run = usable(points, target, better);
  const bool met = std::any_of(points.begin(), points.end(),
                               [](const EvaluationPoint& point) { return point.target_met; });
  if (met) return std::nullopt;
  return predict(run, run.time.size(), {target, better, past, metric});
}

std::vector<PastPrediction> earlier_predictions(const std::vector<EvaluationPoint>& points,
                                                double target, Better better,
                                                const std::vector<PastRun>& past,
                                                std::string_view metric) {
  const Usable run = usable(points, target, better);
  std::vector<PastPrediction> predictions;
  for (std::size_t count = 1; count <= run.time.size(); count *= 2) {
    const auto predicted = predict(run, count, {target, better, past, metric});
    if (!predicted) continue;
    PastPrediction each{std::exp(run.time[count - 1]), *predicted, std::nullopt};
    if (run.crossing_seconds) {
      each.held =
          predicted->low <= *run.crossing_seconds && *run.crossing_seconds <= predicted->high;
    } else if (std::exp(run.time.back()) > predicted->high) {
      each.held = false;
    }
    predictions.push_back(each);
  }
  return predictions;
}

}  // namespace regatta::orchestrator::runs
