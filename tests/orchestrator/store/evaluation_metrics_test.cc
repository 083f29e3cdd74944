// What tasks other than pre-training are judged by, in the store and read from it.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "orchestrator/store/schema.h"
#include "orchestrator/store/series.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::store {
namespace {

using testing::ElementsAre, testing::IsEmpty, testing::IsNan, testing::Pair;
using Metrics = std::vector<trainer::contract::Metric>;

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

class EvaluationMetricsTest : public testing::Test {
 protected:
  void begin(const std::string& metric) {
    run_.summary.metric = metric;
    run_.number = store_.add_run(new_run(metric + "-" + std::to_string(++runs_)));
    add_attempt();
  }
  void add_attempt() {
    attempt_ = {};
    attempt_.number = ++attempts_;
    attempt_.row = store_.add_attempt(run_.number, attempt_.number, "0123456789abcdef");
    attempt_.started = true;
    attempt_.first_step_begin = 0;
    append(trainer::contract::StartRecord{});
  }
  void evaluate(const Metrics& metrics, double accuracy = kNotKnown, double loss = kNotKnown) {
    trainer::contract::EvalRecord record;
    record.mlm_accuracy = accuracy;
    record.mlm_loss = loss;
    record.metrics = metrics;
    append(record);
  }
  template <typename Body>
  void append(const Body& body) {
    trainer::contract::JournalRecord record;
    record.sequence = ++sequence_;
    record.seconds = static_cast<double>(sequence_);
    record.body = body;
    attempt_.last_seconds = record.seconds;
    store_.append(run_, attempt_, {record});
  }
  std::vector<EvaluationRow> rows() { return store_.evaluations(run_.number, 0); }
  std::vector<double> values() {
    std::vector<double> all;
    for (const EvaluationRow& row : rows()) all.push_back(row.value);
    return all;
  }

  const tests::TemporaryDirectory folder_;
  Store store_{folder_.path()};
  runs::Run run_;
  runs::Attempt attempt_;
  int runs_ = 0, attempts_ = 0;
  std::int64_t sequence_ = 0;
};

TEST_F(EvaluationMetricsTest, AreKeptWithTheValueOfTheRunsOwn) {
  begin("f1");
  evaluate({{"f1", 0.75}, {"exact", 0.5}, {"loss", kNotKnown}});
  const EvaluationRow row = rows().at(0);
  EXPECT_EQ(row.value, 0.75);
  EXPECT_THAT(row.metrics,
              ElementsAre(Pair("exact", 0.5), Pair("f1", 0.75), Pair("loss", IsNan())));
  EXPECT_THAT(row.mlm_accuracy, IsNan());
  EXPECT_THAT(row.mlm_loss, IsNan());
}

TEST_F(EvaluationMetricsTest, OfPretrainingAreNone) {
  begin("mlm_loss");
  evaluate({}, 0.25, 5);
  const EvaluationRow row = rows().at(0);
  EXPECT_EQ(row.value, 5);
  EXPECT_EQ(row.mlm_accuracy, 0.25);
  EXPECT_THAT(row.metrics, IsEmpty());
}

TEST_F(EvaluationMetricsTest, ThatARunIsJudgedByMayBeUnknown) {
  begin("f1");
  evaluate({{"accuracy", 0.5}});
  evaluate({});
  EXPECT_THAT(values(), ElementsAre(IsNan(), IsNan()));
}

// `regatta change` of the target's metric: the next attempt is judged by it, and so is what was.
TEST_F(EvaluationMetricsTest, OfEarlierAttemptsAreJudgedByTheNewOne) {
  begin("f1");
  evaluate({{"f1", 0.75}, {"exact", 0.5}, {"a\"b'", -0.5}});
  evaluate({}, 0.25, 5);
  for (const auto& [metric, first, second] :
       std::vector<std::tuple<std::string, double, double>>{{"exact", 0.5, kNotKnown},
                                                            {"mlm_accuracy", kNotKnown, 0.25},
                                                            {"mlm_loss", kNotKnown, 5},
                                                            {"a\"b'", -0.5, kNotKnown},
                                                            {"$", kNotKnown, kNotKnown},
                                                            {"f1", 0.75, kNotKnown}}) {
    run_.summary.metric = metric;
    add_attempt();
    const std::vector<double> now = values();
    EXPECT_TRUE(now.at(0) == first || (std::isnan(now[0]) && std::isnan(first))) << metric;
    EXPECT_TRUE(now.at(1) == second || (std::isnan(now[1]) && std::isnan(second))) << metric;
  }
}

TEST_F(EvaluationMetricsTest, AreWhatAChangedTargetIsComparedWith) {
  for (const auto& [metric, met] : std::vector<std::pair<std::string, std::vector<bool>>>{
           {"f1", {false, true}}, {"matthews", {false, true}}, {"loss", {true, false}}}) {
    begin(metric);
    evaluate({{metric, 0.25}});
    evaluate({{metric, 0.75}});
    run_.summary.target = 0.5;
    run_.changed_utc = 1;
    std::vector<bool> are;
    for (const runs::EvaluationPoint& point :
         evaluation_points(RunAxis(store_.attempts(run_.number)), rows(), run_)) {
      are.push_back(point.target_met);
    }
    EXPECT_EQ(are, met) << metric;
  }
}

TEST(EvaluationMetrics, OfOldStoresAreThoseOfTheirRuns) {
  const tests::TemporaryDirectory folder;
  {
    Database old(folder.path() / "store.sqlite", Database::Access::ReadWrite);
    for (int i = 0; i + 1 < kEvaluationMetricsVersion; ++i) old.execute(kVersions[i]);
    old.execute("PRAGMA user_version = " + std::to_string(kEvaluationMetricsVersion - 1));
    for (const char* metric : {"mlm_accuracy", "mlm_loss"}) {
      const std::string name = std::string("'") + metric + "'";
      old.execute(
          "INSERT INTO runs(id, name, config, directory, created_utc, wanted, body_digest, metric) "
          "VALUES(" +
          name + ", 'demo', '{}', " + name + ", 1, 0, 'd', " + name + ")");
      old.execute(
          "INSERT INTO evaluations(run, attempt, sequence, step, seconds, mlm_accuracy, mlm_loss, "
          "target_met) SELECT number, number, 1, 1, 1, 0.25, 5, 0 FROM runs WHERE id = " +
          name);
    }
  }
  Store store(folder.path());
  EXPECT_EQ(store.evaluations(store.run("mlm_accuracy")->number, 0).at(0).value, 0.25);
  EXPECT_EQ(store.evaluations(store.run("mlm_loss")->number, 0).at(0).value, 5);
}

}  // namespace
}  // namespace regatta::orchestrator::store
