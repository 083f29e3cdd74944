// A run is predicted by the finished runs of its kind that were there before it.
#include "orchestrator/store/predictions.h"

#include <gmock/gmock.h>

#include <cmath>

#include "orchestrator/store/series.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::store {
namespace {

constexpr double kTarget = 0.5;

class PredictionsTest : public testing::Test {
 protected:
  // A run whose accuracy is 0.5 · (seconds / pace)^0.7, evaluated every 2 % of `pace`, up to
  // `share` of it; over when that is 1.
  runs::Run add(const std::string& id, double created, double pace, double share,
                const std::string& kind = "kind", double target = kTarget,
                const std::string& forked_from = "") {
    NewRun made = new_run(id, created);
    made.kind = kind;
    made.forked_from = forked_from;
    made.summary.target = target;
    runs::Run run = *store_.run(store_.add_run(made));
    runs::Attempt attempt;
    attempt.row = store_.add_attempt(run.number, 1, "0123456789abcdef");
    attempt.number = 1;
    attempt.started = true;
    attempt.start_utc = created;
    attempt.first_step_begin = 0;
    std::vector<trainer::contract::JournalRecord> records;
    for (int i = 1; i <= std::lround(share * 50); ++i) {
      trainer::contract::EvalRecord evaluation;
      evaluation.step = i;
      evaluation.mlm_accuracy = 0.5 * std::pow(i / 50.0, 0.7);
      evaluation.target_met = evaluation.mlm_accuracy >= target;
      trainer::contract::JournalRecord record;
      record.sequence = i;
      record.seconds = pace * i / 50;
      record.body = evaluation;
      records.push_back(record);
      attempt.last_seconds = record.seconds;
    }
    if (share >= 1) {
      run.state = runs::RunState::Succeeded;
      run.ended_utc = created + pace;
      run.summary.time_to_accuracy_seconds = pace * std::pow(target / 0.5, 1 / 0.7);
    }
    store_.append(run, attempt, records);
    store_.update_run(run);
    return *store_.run(run.number);
  }
  std::optional<runs::Crossing> predicted(const runs::Run& run) {
    const auto points = evaluation_points(RunAxis(store_.attempts(run.number)),
                                          store_.evaluations(run.number, 0), run);
    return runs::predict_crossing(points, *run.summary.target, runs::better_of(run.summary.metric),
                                  past_runs(store_, run), run.summary.metric);
  }

  const tests::TemporaryDirectory folder_;
  Store store_{folder_.path()};
};

TEST_F(PredictionsTest, ByFinishedRunsOfItsKind) {
  for (int i = 0; i < 4; ++i) add("past-" + std::to_string(i), 1000 + i, 900 + 50 * i, 1);
  const runs::Run run = add("new", 5000, 3000, 0.3);
  EXPECT_EQ(past_runs(store_, run).size(), 4U);
  const auto crossing = predicted(run);
  ASSERT_TRUE(crossing);
  EXPECT_EQ(crossing->model, runs::CrossingModel::PastRuns);
  EXPECT_LE(crossing->low, 3000);
  EXPECT_GE(crossing->high, 3000);
  EXPECT_LT(crossing->high / crossing->low, 1.2) << "four equal shapes say it closely";
}

TEST_F(PredictionsTest, NotByOthers) {
  for (int i = 0; i < 3; ++i) {
    const std::string number = std::to_string(i);
    add("other-kind-" + number, 1000, 900, 1, "other");
    add("unknown-kind-" + number, 1000, 900, 1, "");
    add("later-" + number, 4500, 900, 1);         // ended after the run was submitted
    add("unfinished-" + number, 1000, 900, 0.9);  // nobody knows when it would have crossed
  }
  const runs::Run run = add("new", 5000, 3000, 0.3);
  EXPECT_TRUE(past_runs(store_, run).empty());
  const runs::Run unknown = add("unknown", 5000, 3000, 0.3, "");
  EXPECT_TRUE(past_runs(store_, unknown).empty());
}

TEST_F(PredictionsTest, ForksTakeAndGiveNone) {
  for (int i = 0; i < 3; ++i) add("past-" + std::to_string(i), 1000 + i, 900, 1);
  for (int i = 0; i < kMostPastRuns; ++i) {
    add("fork-" + std::to_string(i), 3000 + i, 10, 1, "kind", kTarget, "past-0");
  }
  EXPECT_EQ(past_runs(store_, add("new", 5000, 3000, 0.3)).size(), 3U);
  const runs::Run fork = add("newest-fork", 5000, 10, 0.3, "kind", kTarget, "past-0");
  EXPECT_TRUE(past_runs(store_, fork).empty());
}

TEST_F(PredictionsTest, TheNewestAndJudgedByTheTargetOfTheRun) {
  for (int i = 0; i < kMostPastRuns + 5; ++i) add("past-" + std::to_string(i), 1000 + i, 900, 1);
  EXPECT_EQ(past_runs(store_, add("new", 5000, 3000, 0.3)).size(),
            static_cast<std::size_t>(kMostPastRuns));
  // Half the target is met at 0.5^(1/0.7) of the way.
  const auto past = past_runs(store_, add("half", 5000, 3000, 0.1, "kind", 0.25));
  ASSERT_FALSE(past.empty());
  const double way = std::pow(0.5, 1 / 0.7);
  EXPECT_NEAR(past[0].bests.front().share, 0.02 / way, 0.02);
  EXPECT_TRUE(past_runs(store_, add("more", 5000, 3000, 0.1, "kind", 0.9)).empty())
      << "none of them got there";
}

TEST(KindOfARun, IsItsModelStartDataBatchAndMetric) {
  trainer::contract::RunConfig config;
  config.data.path = "/data";
  const std::string kind = kind_of(config);
  trainer::contract::RunConfig same = config;
  same.name = "other";
  same.seed = 9;
  same.steps = 7;
  same.optimizer.learning_rate *= 2;
  same.ranks = 8;
  EXPECT_EQ(kind_of(same), kind);
  for (const auto& change : std::vector<std::function<void(trainer::contract::RunConfig*)>>{
           [](auto* each) { each->model.hidden *= 2; }, [](auto* each) { each->data.path += "2"; },
           [](auto* each) { each->batch_size += 1; },
           [](auto* each) { each->from.emplace().path = "/model"; },
           [](auto* each) { each->model.task = trainer::contract::Task::QuestionAnswering; },
           [](auto* each) {
             each->target.emplace();
             each->target->metric = trainer::contract::TargetMetric::MlmLoss;
           }}) {
    trainer::contract::RunConfig other = config;
    change(&other);
    EXPECT_NE(kind_of(other), kind);
  }
}

}  // namespace
}  // namespace regatta::orchestrator::store
