#include "orchestrator/api/charts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/store/series.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRuns = 16, kMostSeries = 16;
constexpr std::size_t kMostFigures = 100'000;  // runs × series × buckets
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Wanted {
  std::string x;
  std::size_t buckets = 0;
  double from = -kInfinity, to = kInfinity;
};

// Where a row lies on the axis that was asked for.
class Axis {
 public:
  Axis(const runs::Run& run, const std::vector<runs::Attempt>& attempts, std::string x)
      : wall_(attempts),
        x_(std::move(x)),
        before_first_step_(wall_.origin_utc() - run.created_utc) {
    double hours = 0;
    for (const runs::Attempt& attempt : attempts) {
      hours_before_[attempt.row] = hours;
      hours += hours_of(attempt, attempt.last_seconds);
    }
  }
  [[nodiscard]] double at(const runs::Attempt& attempt, std::int64_t step, double seconds) const {
    if (x_ == "step") return static_cast<double>(step);
    if (x_ == "samples") return static_cast<double>(step) * attempt.batch_size;
    if (x_ == "device_hours") return hours_before_.at(attempt.row) + hours_of(attempt, seconds);
    const double wall = wall_.at(attempt.row, seconds);
    return x_ == "wall" ? wall : std::max(0.0, wall + before_first_step_);
  }

 private:
  static double hours_of(const runs::Attempt& attempt, double seconds) {
    if (!attempt.first_step_begin) return 0;
    return attempt.ranks * std::max(0.0, seconds - *attempt.first_step_begin) / 3600;
  }
  store::RunAxis wall_;
  std::string x_;
  double before_first_step_;
  std::map<runs::AttemptNumber, double> hours_before_;
};

struct Figure {
  double low = kInfinity, high = -kInfinity, last = 0;
  std::int64_t count = 0;
};
struct Bucket {
  int attempt = 0;
  bool abandoned = false;
  std::int64_t rows = 0, from_step = 0, to_step = 0;
  double from = 0, to = 0;
  std::vector<Figure> figures;
};

// Gives every row of an attempt, the same each time, with these series.
using Source = std::function<void(const runs::Attempt&, const std::vector<std::string>&,
                                  const store::StoreReads::TakeStep&)>;

// In the place of each attempt's steps: the smallest one that came after it. One that is not larger
// was trained again.
void make_smallest_after(std::vector<std::vector<std::int64_t>>* attempts) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (auto steps = attempts->rbegin(); steps != attempts->rend(); ++steps) {
    for (auto step = steps->rbegin(); step != steps->rend(); ++step) {
      smallest = std::min(smallest, std::exchange(*step, smallest));
    }
  }
}

void add(std::int64_t step, double x, const std::vector<double>& values, Bucket* bucket) {
  if (bucket->rows++ == 0) {
    bucket->from_step = step;
    bucket->from = x;
    bucket->figures.resize(values.size());
  }
  bucket->to_step = step;
  bucket->to = x;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    Figure& figure = bucket->figures[i];
    figure.low = std::min(figure.low, values[i]);
    figure.high = std::max(figure.high, values[i]);
    figure.last = values[i];
    ++figure.count;
  }
}

Json chart_json(const std::vector<std::string>& series, const std::vector<Bucket>& buckets,
                std::int64_t rows) {
  Json json{{"rows", rows}, {"buckets", Json::array()}, {"series", Json::object()}};
  for (const std::string& name : series) json["series"][name] = Json::array();
  for (const Bucket& bucket : buckets) {
    json["buckets"].push_back({{"attempt", bucket.attempt},
                               {"abandoned", bucket.abandoned},
                               {"rows", bucket.rows},
                               {"from_step", bucket.from_step},
                               {"to_step", bucket.to_step},
                               {"from", number(bucket.from)},
                               {"to", number(bucket.to)}});
    for (std::size_t i = 0; i < series.size(); ++i) {
      const Figure& figure = bucket.figures[i];
      const bool any = figure.count > 0;
      json["series"][series[i]].push_back({any ? Json(figure.low) : Json(),
                                           any ? Json(figure.high) : Json(),
                                           any ? Json(figure.last) : Json(), figure.count});
    }
  }
  return json;
}

Json chart(const std::vector<runs::Attempt>& attempts, const Axis& axis, const Wanted& wanted,
           const std::vector<std::string>& series, const Source& source) {
  if (series.empty()) return chart_json(series, {}, 0);
  const auto lies_within = [&](double x) { return x >= wanted.from && x <= wanted.to; };
  std::vector<std::vector<std::int64_t>> after(attempts.size());
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    source(attempts[i], {}, [&](std::int64_t step, double seconds, const auto&) {
      after[i].push_back(step);
      if (lies_within(axis.at(attempts[i], step, seconds))) ++rows;
    });
  }
  make_smallest_after(&after);
  const auto most = static_cast<std::int64_t>(wanted.buckets);
  const std::int64_t size = std::max<std::int64_t>(1, (rows + most - 1) / most);
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    std::size_t row = 0;
    source(attempts[i], series,
           [&](std::int64_t step, double seconds, const std::vector<double>& values) {
             const bool abandoned = after[i][row++] <= step;
             const double x = axis.at(attempts[i], step, seconds);
             if (!lies_within(x)) return;
             if (buckets.empty() || buckets.back().rows == size ||
                 buckets.back().attempt != attempts[i].number ||
                 buckets.back().abandoned != abandoned) {
               buckets.emplace_back();
               buckets.back().attempt = attempts[i].number;
               buckets.back().abandoned = abandoned;
             }
             add(step, x, values, &buckets.back());
           });
  }
  return chart_json(series, buckets, rows);
}

// Those of evaluations are moved out.
std::vector<std::string> take_evaluation_series(std::vector<std::string>* series) {
  std::vector<std::string> taken;
  for (const char* const name : {"mlm_accuracy", "evaluation_loss"}) {
    if (std::erase(*series, name) > 0) taken.emplace_back(name);
  }
  return taken;
}

Json run_charts(store::StoreReads& store, const runs::Run& run, const Wanted& wanted,
                std::vector<std::string> series) {
  const std::vector<std::string> of_evaluations = take_evaluation_series(&series);
  const std::vector<runs::Attempt> attempts = store.attempts(run.number);
  const Axis axis(run, attempts, wanted.x);
  const auto evaluations = of_evaluations.empty() ? std::vector<store::EvaluationRow>()
                                                  : store.evaluations(run.number, 0);
  const Source steps = [&](const runs::Attempt& attempt, const auto& names, const auto& take) {
    store.each_step(attempt.row, names, take);
  };
  const Source tests = [&](const runs::Attempt& attempt, const auto& names, const auto& take) {
    std::vector<double> values;
    for (const store::EvaluationRow& row : evaluations) {
      if (row.attempt != attempt.row) continue;
      values.clear();
      for (const std::string& name : names) {
        values.push_back(name == "mlm_accuracy" ? row.mlm_accuracy : row.mlm_loss);
      }
      take(row.step, row.seconds, values);
    }
  };
  return {{"id", run.id},
          {"steps", chart(attempts, axis, wanted, series, steps)},
          {"evaluations", chart(attempts, axis, wanted, of_evaluations, tests)}};
}

std::optional<Response> refuse_end(const Call& call, const char* name, double* end) {
  const auto text = call.text(name);
  if (!text) return std::nullopt;
  const auto value = base::parse_number(*text);
  if (!value || !std::isfinite(*value)) {
    return parameter_problem(name, std::string(name) + " is '" +
                                       base::printable(text->substr(0, 50)) + "'; use a number");
  }
  *end = *value;
  return std::nullopt;
}

}  // namespace

Response charts(store::StoreReads& store, const Call& call) {
  Wanted wanted{*call.text("x"), static_cast<std::size_t>(call.integer("buckets"))};
  if (auto refused = refuse_end(call, "from", &wanted.from)) return *refused;
  if (auto refused = refuse_end(call, "to", &wanted.to)) return *refused;
  const std::vector<std::string> names = call.words("runs");
  if (names.empty() || names.size() > kMostRuns ||
      std::find(names.begin(), names.end(), "") != names.end()) {
    return parameter_problem("runs", "runs has " + std::to_string(names.size()) +
                                         " ids or an empty one; use 1 to " +
                                         std::to_string(kMostRuns) + " with commas between them");
  }
  std::vector<std::string> series = call.words("series");
  std::vector<std::string> sorted = series;
  std::sort(sorted.begin(), sorted.end());
  if (series.size() > kMostSeries ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return parameter_problem("series", "series has " + std::to_string(series.size()) +
                                           " names; use at most " + std::to_string(kMostSeries) +
                                           ", each once");
  }
  if (names.size() * series.size() * wanted.buckets > kMostFigures) {
    return parameter_problem("buckets",
                             "runs x series x buckets is " +
                                 std::to_string(names.size() * series.size() * wanted.buckets) +
                                 "; use at most " + std::to_string(kMostFigures));
  }
  Json list = Json::array();
  for (const std::string& name : names) {
    list.push_back(run_charts(store, control::find_run(store, name), wanted, series));
  }
  return json_response(200, {{"x", wanted.x}, {"runs", std::move(list)}});
}

}  // namespace regatta::orchestrator::api
