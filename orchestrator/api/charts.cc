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
#include "orchestrator/control/request_error.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/runs/batch_of_attempt.h"
#include "orchestrator/runs/metrics.h"
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
    if (x_ == "samples") return static_cast<double>(runs::samples_after(attempt, step));
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

struct Bucket {
  int attempt = 0;
  bool abandoned = false;
  std::int64_t rows = 0, from_step = 0, to_step = 0;
  double from = 0, to = 0;
  std::vector<store::SeriesFigures> figures;
};

// A block of an attempt, and the smallest step that was trained after it: rows of one that is not
// larger were trained again.
struct Piece {
  const runs::Attempt* attempt = nullptr;
  store::StepBlock block;
  std::int64_t smallest_after = 0;
};
// What a block consists of; nothing where it is all there is.
using Parts =
    std::function<std::vector<store::StepBlock>(const runs::Attempt&, const store::StepBlock&)>;

// The pieces of one chart.
class Pieces {
 public:
  // In order.
  Pieces(std::vector<Piece> pieces, const Axis& axis, const Wanted& wanted, Parts parts)
      : pieces_(std::move(pieces)), axis_(axis), wanted_(wanted), parts_(std::move(parts)) {}

  // In order all that lie within the wanted range, with whether they were abandoned: wholly each,
  // and of at most so many rows, as far as parts are known.
  using Visit = std::function<void(const Piece&, bool abandoned)>;
  void each(std::int64_t most_rows, const Visit& visit) const {
    for (const Piece& piece : pieces_) walk(piece, most_rows, visit);
  }
  [[nodiscard]] double from(const Piece& piece) const {
    return axis_.at(*piece.attempt, piece.block.step, piece.block.seconds);
  }
  [[nodiscard]] double to(const Piece& piece) const {
    return axis_.at(*piece.attempt, piece.block.last_step, piece.block.last_seconds);
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): at most as deep as there are levels of blocks
  void walk(const Piece& piece, std::int64_t most_rows, const Visit& visit) const {
    const double from = this->from(piece), to = this->to(piece);
    if (to < wanted_.from || from > wanted_.to) return;
    const bool abandoned = piece.block.step >= piece.smallest_after;
    const bool whole = from >= wanted_.from && to <= wanted_.to &&
                       abandoned == (piece.block.last_step >= piece.smallest_after);
    if (!whole || piece.block.rows > most_rows) {
      const std::vector<store::StepBlock> parts = parts_(*piece.attempt, piece.block);
      for (const store::StepBlock& part : parts) {
        walk({piece.attempt, part, piece.smallest_after}, most_rows, visit);
      }
      if (!parts.empty()) return;
    }
    visit(piece, abandoned);
  }

  std::vector<Piece> pieces_;
  const Axis& axis_;
  const Wanted& wanted_;
  Parts parts_;
};

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
      const store::SeriesFigures& figures = bucket.figures[i];
      const bool any = figures.count > 0;
      json["series"][series[i]].push_back({any ? Json(figures.low) : Json(),
                                           any ? Json(figures.high) : Json(),
                                           any ? Json(figures.last) : Json(), figures.count});
    }
  }
  return json;
}

Json chart(const std::vector<std::string>& series, const Pieces& pieces, std::size_t most_buckets) {
  if (series.empty()) return chart_json(series, {}, 0);
  std::int64_t rows = 0;
  pieces.each(std::numeric_limits<std::int64_t>::max(),
              [&](const Piece& piece, bool) { rows += piece.block.rows; });
  const auto most = static_cast<std::int64_t>(most_buckets);
  const std::int64_t size = std::max<std::int64_t>(1, (rows + most - 1) / most);
  std::vector<Bucket> buckets;
  // With parts of half a bucket one has at most half as many rows again as it should have.
  pieces.each(std::max<std::int64_t>(1, size / 2), [&](const Piece& piece, bool abandoned) {
    if (buckets.empty() || buckets.back().rows >= size ||
        buckets.back().attempt != piece.attempt->number || buckets.back().abandoned != abandoned) {
      buckets.push_back({piece.attempt->number, abandoned, 0, piece.block.step, 0,
                         pieces.from(piece), 0, std::vector<store::SeriesFigures>(series.size())});
    }
    Bucket& bucket = buckets.back();
    bucket.rows += piece.block.rows;
    bucket.to_step = piece.block.last_step;
    bucket.to = pieces.to(piece);
    for (std::size_t i = 0; i < series.size(); ++i) bucket.figures[i].add(piece.block.figures[i]);
  });
  return chart_json(series, buckets, rows);
}

// "loss" and "mlm_loss" are of steps.
const std::vector<std::string>& evaluation_series() {
  static const std::vector<std::string> series = [] {
    std::vector<std::string> names{"metric", "evaluation_loss"};
    for (const std::string& name : runs::metric_names()) {
      if (runs::better_of(name) == runs::Better::Higher) names.push_back(name);
    }
    return names;
  }();
  return series;
}

// Those of evaluations are moved out.
std::vector<std::string> take_evaluation_series(std::vector<std::string>* series) {
  std::vector<std::string> taken;
  for (const std::string& name : evaluation_series()) {
    if (std::erase(*series, name) > 0) taken.push_back(name);
  }
  return taken;
}

double figure_of(const store::EvaluationRow& row, const std::string& series) {
  const auto named = [&](const char* name) {
    const auto found = row.metrics.find(name);
    return found == row.metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
  };
  if (series == "metric") return row.value;
  if (series == "mlm_accuracy") return row.mlm_accuracy;
  if (series != "evaluation_loss") return named(series.c_str());
  return std::isfinite(row.mlm_loss) ? row.mlm_loss : named("loss");
}

void note_smallest_after(std::vector<Piece>* steps) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (auto piece = steps->rbegin(); piece != steps->rend(); ++piece) {
    piece->smallest_after = smallest;
    smallest = std::min(smallest, piece->block.step);
  }
}

// An attempt may evaluate again where the one before ended, which trains nothing again.
void note_smallest_after(const std::vector<runs::Attempt>& attempts,
                         std::vector<Piece>* evaluations) {
  std::int64_t in_later = std::numeric_limits<std::int64_t>::max();
  std::int64_t smallest = in_later;
  const runs::Attempt* attempt = attempts.empty() ? nullptr : &attempts.back();
  for (auto piece = evaluations->rbegin(); piece != evaluations->rend(); ++piece) {
    for (; attempt != piece->attempt; --attempt) {
      if (attempt->started) in_later = std::min(in_later, attempt->first_step + 1);
      smallest = in_later;
    }
    piece->smallest_after = smallest;
    smallest = std::min(smallest, piece->block.step);
  }
}

Json steps_chart(store::StoreReads& store, const std::vector<runs::Attempt>& attempts,
                 const Axis& axis, const Wanted& wanted, const std::vector<std::string>& series) {
  std::vector<Piece> pieces;
  for (const runs::Attempt& attempt : attempts) {
    if (series.empty()) break;
    for (store::StepBlock& block : store.step_blocks(attempt.row, series)) {
      pieces.push_back({&attempt, std::move(block), 0});
    }
  }
  note_smallest_after(&pieces);
  const Parts parts = [&](const runs::Attempt& attempt, const store::StepBlock& block) {
    return store.parts_of(attempt.row, block, series);
  };
  return chart(series, {std::move(pieces), axis, wanted, parts}, wanted.buckets);
}

Json evaluations_chart(store::StoreReads& store, const runs::Run& run,
                       const std::vector<runs::Attempt>& attempts, const Axis& axis,
                       const Wanted& wanted, const std::vector<std::string>& series) {
  std::vector<Piece> pieces;
  const auto rows =
      series.empty() ? std::vector<store::EvaluationRow>() : store.evaluations(run.number, 0);
  for (const runs::Attempt& attempt : attempts) {
    for (const store::EvaluationRow& row : rows) {
      if (row.attempt != attempt.row) continue;
      store::StepBlock block{0,        0, 0,           row.cursor,  row.step,
                             row.step, 1, row.seconds, row.seconds, {}};
      for (const std::string& name : series) {
        block.figures.push_back(store::SeriesFigures::of(figure_of(row, name)));
      }
      pieces.push_back({&attempt, std::move(block), 0});
    }
  }
  note_smallest_after(attempts, &pieces);
  const Parts none = [](const auto&, const auto&) { return std::vector<store::StepBlock>(); };
  return chart(series, {std::move(pieces), axis, wanted, none}, wanted.buckets);
}

Json run_charts(store::StoreReads& store, const runs::Run& run, const Wanted& wanted,
                std::vector<std::string> series) {
  const std::vector<std::string> of_evaluations = take_evaluation_series(&series);
  const std::vector<runs::Attempt> attempts = store.attempts(run.number);
  const Axis axis(run, attempts, wanted.x);
  return {{"id", run.id},
          {"resolution_seconds", store.step_resolution(run.number)},
          {"steps", steps_chart(store, attempts, axis, wanted, series)},
          {"evaluations", evaluations_chart(store, run, attempts, axis, wanted, of_evaluations)}};
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
  if (names.empty() || names.size() > kMostRuns) {
    return parameter_problem("runs", "runs has " + std::to_string(names.size()) +
                                         " ids; use 1 to " + std::to_string(kMostRuns) +
                                         " with commas between them");
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
    const runs::Run run =
        control::by_parameter("runs", [&] { return control::find_run(store, name); });
    list.push_back(run_charts(store, run, wanted, series));
  }
  return json_response(200, {{"x", wanted.x}, {"runs", std::move(list)}});
}

}  // namespace regatta::orchestrator::api
