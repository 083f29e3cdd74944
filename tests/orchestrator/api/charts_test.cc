// Charts of long runs against a plain walk over their rows.
#include "orchestrator/api/charts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "orchestrator/api/api.h"
#include "orchestrator/api/history_json.h"
#include "orchestrator/api/run_json.h"
#include "orchestrator/api/run_parts.h"
#include "orchestrator/store/roll_ups.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::JournalRecord;
using trainer::contract::StepRecord;

constexpr int kBatch = 16, kRanks = 4;
constexpr double kFirst = 1.7e9, kFirstStep = 2;  // of every attempt, and within it

struct Row {
  int attempt = 0;
  std::int64_t step = 0;
  double seconds = 0, loss = 0;
  bool abandoned = false;
  double x = 0;
};

class ChartsTest : public testing::Test {
 protected:
  ChartsTest() : store_(folder_.path()) {
    run_ = *store_.run(store_.add_run(new_run("long", kFirst - 100)));
    std::mt19937 dice(11);
    std::int64_t step = 1;
    for (int number = 1; number <= 3; ++number) {
      const int count = number == 2 ? 30'000 : 12'000;
      add_attempt(number, &step, count, &dice);
      step -= 1234;  // the next one goes on from an earlier checkpoint
    }
    std::int64_t smallest = 1 << 30;
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
      row->abandoned = row->step >= smallest;
      smallest = std::min(smallest, row->step);
    }
  }
  void add_attempt(int number, std::int64_t* step, int count, std::mt19937* dice) {
    runs::Attempt attempt;
    const auto row = store_.add_attempt(run_.number, number, "x" + std::to_string(number));
    for (const runs::Attempt& each : store_.attempts(run_.number)) {
      if (each.row == row) attempt = each;
    }
    attempt.started = true;
    attempt.start_utc = kFirst + 1e6 * number;
    attempt.first_step_begin = kFirstStep;
    attempt.batch_size = kBatch;
    attempt.ranks = kRanks;
    std::vector<JournalRecord> records;
    double seconds = kFirstStep;
    for (int i = 0; i < count; ++i) {
      seconds += number == 2 ? 1.5 : 0.04 + 1e-3 * static_cast<double>((*dice)() % 100);
      JournalRecord record = step_record(i, *step);
      record.seconds = seconds;
      auto& body = std::get<StepRecord>(record.body);
      body.loss = static_cast<double>((*dice)() % 100'000) / 7;
      records.push_back(record);
      rows_.push_back({number, *step, seconds, body.loss});
      if ((*dice)() % 5000 == 0) *step -= 40;  // a rollback
      ++*step;
    }
    attempt.last_seconds = seconds;
    lasting_[number] = seconds - kFirstStep;
    store_.append(run_, attempt, records);
  }
  double place_of(const Row& row, const std::string& x) const {
    if (x == "step") return static_cast<double>(row.step);
    if (x == "samples") return static_cast<double>(row.step * kBatch);
    const double within = row.seconds - kFirstStep;
    if (x == "wall") return 1e6 * (row.attempt - 1) + within;
    double before = 0;
    for (int number = 1; number < row.attempt; ++number) before += lasting_.at(number);
    return kRanks * (before + within) / 3600;
  }
  Json ask(std::map<std::string, std::string> query, const std::string& run = "long") {
    Request request{"GET", "/api/v1/metrics", std::move(query), {}, {}};
    request.query["runs"] = run;
    request.query["series"] = "loss";
    const auto call = find_route(Api::routes(), request, {"metrics"});
    store::Snapshot snapshot = store_.snapshot();
    const Response response = charts(snapshot, std::get<Call>(call));
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body).at("runs").at(0);
  }
  void check(const Json& chart, const std::vector<Row>& rows, int most) {
    ASSERT_EQ(chart["rows"], rows.size());
    const std::int64_t size = (static_cast<std::int64_t>(rows.size()) + most - 1) / most;
    std::size_t at = 0;
    for (std::size_t i = 0; i < chart["buckets"].size(); ++i) {
      const Json& bucket = chart["buckets"][i];
      const auto count = bucket["rows"].get<std::size_t>();
      ASSERT_LE(at + count, rows.size());
      const Row& first = rows[at];
      const Row& last = rows[at + count - 1];
      EXPECT_EQ(bucket["attempt"], first.attempt);
      EXPECT_EQ(bucket["from_step"], first.step);
      EXPECT_EQ(bucket["to_step"], last.step);
      EXPECT_NEAR(bucket["from"].get<double>(), first.x, 1e-6);
      EXPECT_NEAR(bucket["to"].get<double>(), last.x, 1e-6);
      double low = 1e300, high = -1e300;
      for (std::size_t j = at; j < at + count; ++j) {
        low = std::min(low, rows[j].loss);
        high = std::max(high, rows[j].loss);
        ASSERT_EQ(rows[j].attempt, first.attempt);
        ASSERT_EQ(bucket["abandoned"], rows[j].abandoned) << rows[j].step;
      }
      EXPECT_EQ(chart["series"]["loss"][i], Json({low, high, last.loss, count}));
      EXPECT_LE(static_cast<std::int64_t>(count), size + std::max<std::int64_t>(1, size / 2));
      at += count;
      const bool cut = at == rows.size() || rows[at].attempt != first.attempt ||
                       rows[at].abandoned != first.abandoned;
      if (!cut) {
        EXPECT_GE(static_cast<std::int64_t>(count), size);
      }
    }
    EXPECT_EQ(at, rows.size());
  }
  std::vector<Row> within(const std::string& x, double from, double to) const {
    std::vector<Row> rows;
    for (Row row : rows_) {
      row.x = place_of(row, x);
      if (row.x >= from && row.x <= to) rows.push_back(row);
    }
    return rows;
  }

  tests::TemporaryDirectory folder_;
  store::Store store_;
  runs::Run run_;
  std::vector<Row> rows_;
  std::map<int, double> lasting_;  // of an attempt, from its first step
};

TEST_F(ChartsTest, OfLongRunsAreExact) {
  for (const char* const x : {"step", "samples", "wall", "device_hours"}) {
    const double end = place_of(rows_.back(), x);
    for (const int buckets : {1, 20, 300, 2000}) {
      const Json whole = ask({{"x", x}, {"buckets", std::to_string(buckets)}});
      check(whole["steps"], within(x, -1, 1e300), buckets);
      // Between two rows.
      const double from = std::floor(0.31 * end) + 0.013, to = std::floor(0.77 * end) + 0.013;
      const Json part = ask({{"x", x},
                             {"buckets", std::to_string(buckets)},
                             {"from", std::to_string(from)},
                             {"to", std::to_string(to)}});
      check(part["steps"], within(x, from, to), buckets);
    }
  }
}

TEST_F(ChartsTest, OfRolledUpRunsHaveEveryRow) {
  run_.state = runs::RunState::Failed;
  run_.ended_utc = 0;
  run_.drained = true;
  store_.update_run(run_);
  while (store_.roll_up(run_.number, {}, 40 * 86400.0)) {
  }
  const Json told = ask({{"buckets", "100"}});
  EXPECT_EQ(told["resolution_seconds"], 10);
  const Json& chart = told["steps"];
  EXPECT_EQ(chart["rows"], rows_.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < chart["buckets"].size(); ++i) {
    const auto count = chart["buckets"][i]["rows"].get<std::size_t>();
    double low = 1e300, high = -1e300;
    for (std::size_t j = at; j < at + count; ++j) {
      low = std::min(low, rows_.at(j).loss);
      high = std::max(high, rows_.at(j).loss);
    }
    EXPECT_EQ(chart["series"]["loss"][i], Json({low, high, rows_[at + count - 1].loss, count}));
    at += count;
  }
  EXPECT_EQ(at, rows_.size());
}

// The same rows are abandoned wherever they are shown, wherever a page of them begins.
TEST_F(ChartsTest, HistoryMarksWhatWasTrainedAgain) {
  store::Snapshot snapshot = store_.snapshot();
  std::size_t at = 0;
  std::int64_t cursor = 0;
  for (bool more = true; more;) {
    const Json page = history_json(snapshot, run_, cursor, 9999);
    for (const Json& row : page["rows"]) {
      ASSERT_LT(at, rows_.size());
      ASSERT_EQ(row["step"], rows_[at].step);
      ASSERT_EQ(row["abandoned"], rows_[at].abandoned) << at << ", step " << rows_[at].step;
      ++at;
    }
    cursor = page["cursor"];
    more = page["more"];
  }
  EXPECT_EQ(at, rows_.size());

  std::map<std::pair<std::int64_t, double>, bool> expected;
  for (const Row& row : rows_) expected[{row.step, row.loss}] = row.abandoned;
  int marked = 0;
  const Json metrics = metrics_json(snapshot, run_, 0, 2000);
  for (const Json& row : metrics["steps"]) {
    ASSERT_EQ(row[9], expected.at({row[0], row[2]})) << row;
    marked += row[9].get<bool>() ? 1 : 0;
  }
  EXPECT_GT(marked, 10);
}

// Of two runs, one of which pre-trains; each is judged by its own metric.
TEST(EvaluationCharts, HaveEveryMetric) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();
  const auto evaluate = [&](const std::string& id, const std::string& metric,
                            const trainer::contract::EvalRecord& evaluation) {
    store::NewRun made = new_run(id);
    made.summary.metric = metric;
    const runs::Run run = *store.run(store.add_run(made));
    runs::Attempt attempt;
    attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
    JournalRecord record;
    record.body = evaluation;
    store.append(run, attempt, {record});
  };
  trainer::contract::EvalRecord evaluation;
  evaluation.mlm_accuracy = 0.25;
  evaluation.mlm_loss = 5;
  evaluate("pretrains", "mlm_loss", evaluation);
  evaluation.mlm_accuracy = evaluation.mlm_loss = kNotKnown;
  evaluation.metrics = {{"f1", 0.75}, {"exact", 0.5}, {"loss", 1.5}, {"pearson", -0.5}};
  evaluate("answers", "f1", evaluation);
  Request request{"GET", "/api/v1/metrics", {}, {}, {}};
  request.query = {{"runs", "pretrains,answers"},
                   {"series",
                    "metric,evaluation_loss,mlm_accuracy,exact,f1,accuracy,matthews,pearson,"
                    "spearman"}};
  store::Snapshot snapshot = store.snapshot();
  const auto call = find_route(Api::routes(), request, {"metrics"});
  const Response response = charts(snapshot, std::get<Call>(call));
  ASSERT_EQ(response.status, 200) << response.body;
  const Json told = Json::parse(response.body)["runs"];
  const auto last = [&](std::size_t run, const char* series) {
    return told.at(run)["evaluations"]["series"].at(series).at(0).at(2);
  };
  const std::map<std::string, std::array<Json, 2>> expected{
      {"metric", {5.0, 0.75}},           {"evaluation_loss", {5.0, 1.5}},
      {"mlm_accuracy", {0.25, nullptr}}, {"exact", {nullptr, 0.5}},
      {"f1", {nullptr, 0.75}},           {"accuracy", {nullptr, nullptr}},
      {"matthews", {nullptr, nullptr}},  {"pearson", {nullptr, -0.5}},
      {"spearman", {nullptr, nullptr}}};
  for (const auto& [series, values] : expected) {
    EXPECT_EQ(last(0, series.c_str()), values[0]) << series;
    EXPECT_EQ(last(1, series.c_str()), values[1]) << series;
  }
  for (const char* unknown : {"loss2", "nsp_accuracy", "F1"}) {
    request.query["series"] = unknown;
    EXPECT_TRUE(std::holds_alternative<Response>(find_route(Api::routes(), request, {"metrics"})))
        << unknown;
  }
}

// A run of evaluations at these steps, one attempt after another, and which of them are abandoned.
struct Evaluated {
  std::int64_t first_step = 0;
  std::vector<std::int64_t> steps;
  std::vector<bool> abandoned;
};

TEST(AbandonedEvaluations, AreThoseUpToWhichWasTrainedAgain) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  const runs::Run run = *store.run(store.add_run(new_run("evaluated")));
  const std::vector<Evaluated> attempts{
      // Rolled back to before 150; its second 300 is after where the next attempt began.
      {0, {100, 200, 300, 150, 200, 300}, {false, true, true, false, false, true}},
      // Goes on at 250, evaluates there, and ends where the next one goes on and evaluates again.
      {250, {250, 300, 400}, {false, false, false}},
      {400, {400, 500}, {false, false}},
  };
  std::vector<bool> expected;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    const auto row = store.add_attempt(run.number, number, "x" + std::to_string(number));
    runs::Attempt attempt;
    for (const runs::Attempt& each : store.attempts(run.number)) {
      if (each.row == row) attempt = each;
    }
    attempt.started = true;
    attempt.start_utc = kFirst + 1e6 * number;
    attempt.first_step = attempts[i].first_step;
    std::vector<JournalRecord> records;
    for (const std::int64_t step : attempts[i].steps) {
      JournalRecord record;
      record.sequence = static_cast<std::int64_t>(records.size());
      record.seconds = static_cast<double>(records.size());
      trainer::contract::EvalRecord evaluation;
      evaluation.step = step;
      evaluation.mlm_accuracy = 0.25;
      evaluation.mlm_loss = 5;
      record.body = evaluation;
      records.push_back(record);
    }
    store.append(run, attempt, records);
    expected.insert(expected.end(), attempts[i].abandoned.begin(), attempts[i].abandoned.end());
  }
  store::Snapshot snapshot = store.snapshot();
  for (const int limit : {1, 2, 4, 100}) {
    std::vector<bool> in_evaluations, in_history;
    for (Json page{{"cursor", 0}, {"more", true}}; page["more"].get<bool>();) {
      page = evaluations_json(snapshot, run, page["cursor"], limit);
      for (const Json& row : page["evaluations"]) in_evaluations.push_back(row["abandoned"]);
    }
    for (Json page{{"cursor", 0}, {"more", true}}; page["more"].get<bool>();) {
      page = history_json(snapshot, run, page["cursor"], limit);
      for (const Json& row : page["rows"]) in_history.push_back(row["abandoned"]);
    }
    EXPECT_EQ(in_evaluations, expected) << limit;
    EXPECT_EQ(in_history, expected) << limit;
  }
  std::vector<bool> in_metrics;
  const Json metrics = metrics_json(snapshot, run, 0, 10);
  for (const Json& row : metrics["evaluations"]) {
    in_metrics.push_back(row[4]);
  }
  EXPECT_EQ(in_metrics, expected);
}

// Of a run of which blocks of this level are all that is kept, three steps each: what lies partly
// within a range is drawn wholly, as nothing says how it was within.
class RolledUpCharts : public ChartsTest, public testing::WithParamInterface<int> {
 protected:
  static double loss_of(std::int64_t step) { return static_cast<double>(step * 37 % 101); }
  void add_blocks(int level) {
    run_ = *store_.run(store_.add_run(new_run("blocks", kFirst)));
    runs::Attempt attempt;
    attempt.row = store_.add_attempt(run_.number, 1, "x1");
    attempt.started = true;
    attempt.first_step_begin = 0;
    std::vector<JournalRecord> records;
    for (std::int64_t step = 1; step <= 3300; ++step) {
      records.push_back(step_record(step, step));
      records.back().seconds = static_cast<double>((step - 1) * (level / 3));
      std::get<StepRecord>(records.back().body).loss = loss_of(step);
    }
    store_.append(run_, attempt, records);
    run_.state = runs::RunState::Succeeded;
    run_.ended_utc = 0;
    run_.drained = true;
    store_.update_run(run_);
    while (store_.roll_up(run_.number, {}, 1000 * 86400.0)) {
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Levels, RolledUpCharts, testing::Values(60, 600));

TEST_P(RolledUpCharts, DrawABlockThatARangeBeginsOrEndsInWholly) {
  add_blocks(GetParam());
  ASSERT_EQ(store_.step_resolution(run_.number), GetParam());
  struct Range {
    std::int64_t from, to, first, last;
  };
  for (const Range& range :
       std::vector<Range>{{50, 50, 49, 51}, {50, 56, 49, 57}, {49, 51, 49, 51}, {1, 2, 1, 3}}) {
    const Json told = ask({{"from", std::to_string(range.from)},
                           {"to", std::to_string(range.to)},
                           {"buckets", "2000"}},
                          "blocks");
    EXPECT_EQ(told["resolution_seconds"], GetParam());
    const Json& chart = told["steps"];
    EXPECT_EQ(chart["rows"], range.last - range.first + 1);
    std::int64_t step = range.first;
    for (std::size_t i = 0; i < chart["buckets"].size(); ++i, step += 3) {
      EXPECT_EQ(chart["buckets"][i]["from_step"], step);
      EXPECT_EQ(chart["buckets"][i]["to_step"], step + 2);
      const std::array<double, 3> losses = {loss_of(step), loss_of(step + 1), loss_of(step + 2)};
      EXPECT_EQ(chart["series"]["loss"][i],
                Json({*std::min_element(losses.begin(), losses.end()),
                      *std::max_element(losses.begin(), losses.end()), losses.back(), 3}));
    }
    EXPECT_EQ(step, range.last + 1);
  }
}

}  // namespace
}  // namespace regatta::orchestrator::api
