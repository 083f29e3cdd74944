#include "orchestrator/control/follower.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "orchestrator/api/run_json.h"
#include "orchestrator/store/series.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using tests::JournalAuthor;
using tests::TemporaryDirectory;

class FollowerTest : public testing::Test {
 protected:
  FollowerTest()
      : store_(folder_.path() / "state"),
        directory_(trainer::contract::RunDirectory::create(
            base::posix_file_system(), folder_.path() / "run", tests::run_file())),
        follower_(store_) {
    store::NewRun run;
    run.id = "run";
    run.name = "run";
    run.directory = directory_.path().string();
    run_ = *store_.run(store_.add_run(run));
  }

  // As the controller does: follow and store.
  control::Followed follow() {
    const control::Followed followed = follow_with(&follower_);
    store_.update_run(run_);
    return followed;
  }
  control::Followed follow_with(control::Follower* follower) {
    std::vector<runs::Attempt> attempts = store_.attempts(run_.number);
    const control::ReadingOrder order = follower->order(run_, attempts);
    return follower->take(&run_, &attempts, control::read_run(base::posix_file_system(), order));
  }
  // A controller that died and came back.
  void restart() { run_ = *store_.run(run_.number); }
  std::vector<std::int64_t> steps() {
    std::vector<std::int64_t> out;
    for (const store::StepRow& row : store_.steps(run_.number, 0, 100000)) out.push_back(row.step);
    return out;
  }

  TemporaryDirectory folder_;
  store::Store store_;
  trainer::contract::RunDirectory directory_;
  control::Follower follower_;
  orchestrator::runs::Run run_;
};

TEST_F(FollowerTest, ReadsWhatIsThere) {
  EXPECT_FALSE(follow().read_any);
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  journal.step(2.5, 1);
  journal.evaluation(3, 1, 0.2);
  journal.checkpoint(3.5, 1);
  EXPECT_TRUE(follow().read_any);
  const runs::RunSummary& summary = run_.summary;
  EXPECT_EQ(summary.step, 1);
  EXPECT_EQ(summary.steps, 100);
  EXPECT_EQ(summary.samples, 8);
  EXPECT_EQ(summary.target, 0.5);
  EXPECT_EQ(summary.baseline, 0.1);
  EXPECT_EQ(summary.value, 0.2);
  EXPECT_EQ(summary.loss, 1);
  EXPECT_EQ(summary.checkpoint, "step-1");
  EXPECT_DOUBLE_EQ(*summary.started_utc, 1002) << "the first step began half a second before 2.5";
  EXPECT_DOUBLE_EQ(*summary.samples_per_second, 16);
  EXPECT_DOUBLE_EQ(*summary.tokens_per_second, 1600);
  EXPECT_FALSE(follow().read_any);
}

TEST_F(FollowerTest, LeavesATornLineForLater) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  const std::string line = [&] {
    trainer::contract::StepRecord step;
    step.step = 1;
    step.seconds = 0.5;
    return journal.line(2, step);
  }();
  for (const char byte : line) {
    EXPECT_TRUE(steps().empty());
    journal.append(std::string(1, byte));
    follow();
    restart();
  }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(store_.attempts(run_.number).at(0).damaged, 0);
}

TEST_F(FollowerTest, SkipsAndCountsDamagedLines) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  journal.append("not json\n{\"sequence\": -4}\n\0binary\n");
  journal.step(2, 1);
  follow();
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1}));
  EXPECT_GE(store_.attempts(run_.number).at(0).damaged, 2);
}

TEST_F(FollowerTest, WhatCannotBeCountsAsDamagedAndMovesNothing) {
  JournalAuthor journal(directory_, 1000);
  trainer::contract::StartRecord start;
  start.metric = "mlm_accuracy";
  start.target = 0.5;
  journal.start(1, 0, 1, start);
  journal.step(2, 1);
  follow();
  const runs::RunSummary before = run_.summary;
  const std::string eval = R"(,"type":"eval","step":1,"target_met":true,"mlm_accuracy":)";
  journal.append(R"({"sequence":90,"seconds":3)" + eval + "7}\n");
  journal.append(R"({"sequence":91,"seconds":1e308)" + eval + "0.6}\n");
  journal.append("{\"sequence\":92,\"seconds\":4,\"type\":\"step\",\"step\":-3}\n");
  journal.append("{\"sequence\":93,\"type\":\"step\",\"step\":2,\"step_seconds\":-1e9}\n");
  follow();
  EXPECT_EQ(run_.summary.time_to_accuracy_seconds, std::nullopt);
  EXPECT_EQ(run_.summary.value, before.value);
  EXPECT_EQ(run_.summary.step, 1);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(store_.attempts(run_.number).at(0).damaged, 4);
}

TEST_F(FollowerTest, ReadsInChunksOfBoundedSize) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  for (int i = 1; i <= 200; ++i) journal.step(1 + i, i);
  control::Follower small(store_, 2000);
  int calls = 1;
  while (follow_with(&small).more) ++calls;
  EXPECT_GT(calls, 10);
  EXPECT_EQ(steps().size(), 200U);
}

TEST_F(FollowerTest, PutsAttemptsOnOneTimeAxis) {
  JournalAuthor first(directory_, 1000);
  first.start(1);
  first.step(2, 1, 1.0);  // began at 1001
  first.step(3, 2, 1.0);
  follow();
  JournalAuthor second(directory_, 1060);
  second.start(2, 1);
  second.step(5, 2, 1.0);  // step 2 again, at 1065
  second.evaluation(6, 2, 0.6);
  second.end(7, 0);
  follow();
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 2}));
  ASSERT_TRUE(run_.summary.time_to_accuracy_seconds);
  EXPECT_DOUBLE_EQ(*run_.summary.time_to_accuracy_seconds, 65) << "1066 − 1001, down time included";
  EXPECT_DOUBLE_EQ(run_.summary.training_seconds, 3) << "the repeated step counts";
  EXPECT_DOUBLE_EQ(run_.summary.axis_seconds, 66);
  EXPECT_EQ(run_.summary.step, 2);
}

TEST_F(FollowerTest, ReadsAttemptsInOrderHoweverLateItComes) {
  JournalAuthor first(directory_, 1000);
  first.start(1);
  first.step(2, 1);
  JournalAuthor second(directory_, 1010);
  second.start(1, 1);
  second.step(2, 2);
  control::Follower small(store_, 700);
  while (follow_with(&small).more) {
  }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(run_.summary.step, 2);
}

TEST_F(FollowerTest, AnAttemptThatIsReadLateSetsNothingBack) {
  JournalAuthor first(directory_, 1000);
  first.start(1);
  first.step(2, 1);
  first.step(3, 2);
  first.checkpoint(4, 2);
  const base::Path aside = first.path().string() + ".aside";
  std::filesystem::rename(first.path(), aside);
  std::filesystem::create_directory(first.path());  // cannot be read
  JournalAuthor second(directory_, 1010);
  second.start(1, 2);
  second.step(2, 3);
  EXPECT_NE(follow().trouble, "");
  EXPECT_EQ(run_.summary.step, 3);
  EXPECT_EQ(run_.summary.checkpoint_step, -1);
  std::filesystem::remove(first.path());
  std::filesystem::rename(aside, first.path());
  EXPECT_EQ(follow().trouble, "");
  EXPECT_EQ(run_.summary.step, 3);
  EXPECT_EQ(run_.summary.samples, 24);
  EXPECT_EQ(run_.summary.checkpoint_step, 2) << "the newest that there is";
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{3, 1, 2}));
}

TEST_F(FollowerTest, RefreshComputesWhatACrashLeftOut) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  journal.step(2, 1, 1.0);
  journal.evaluation(11, 1, 0.7);
  (void)follow_with(&follower_);
  restart();  // the rows were written, the derived figures were not
  EXPECT_EQ(run_.summary.target, 0.5) << "what records say directly is written with them";
  EXPECT_FALSE(run_.summary.time_to_accuracy_seconds);
  follower_.refresh(&run_, store_.attempts(run_.number));
  ASSERT_TRUE(run_.summary.time_to_accuracy_seconds);
  EXPECT_DOUBLE_EQ(*run_.summary.time_to_accuracy_seconds, 10);
}

// A run whose accuracy (or F1) and loss follow the logarithm of the time, each up or down.
struct Course {
  const char* name;
  const char* metric;
  double target;
  double accuracy_slope;
  double loss_slope;
  bool gets_there;  // where the target is, at e⁵ seconds
  friend void PrintTo(const Course& each, std::ostream* out) { *out << each.name; }
};
class FollowedTarget : public FollowerTest, public testing::WithParamInterface<Course> {
 protected:
  [[nodiscard]] static double accuracy_at(double seconds) {
    return 0.6 + GetParam().accuracy_slope * (std::log(seconds) - 5);
  }
  [[nodiscard]] static double loss_at(double seconds) {
    return 2.5 + GetParam().loss_slope * (std::log(seconds) - 5);
  }
  // Evaluations at these seconds after the first step began; the last one met the target, or none.
  void journal(const std::vector<double>& seconds, bool is_met) {
    JournalAuthor journal(directory_, 1000);
    trainer::contract::StartRecord start;
    start.metric = GetParam().metric;
    start.target = GetParam().target;
    journal.add(1, start);
    journal.step(2, 1, 1.0);
    for (const double at : seconds) {
      trainer::contract::EvalRecord record;
      const double accuracy = accuracy_at(at), loss = loss_at(at);
      const bool pretrains = start.metric.starts_with("mlm_");
      record.mlm_accuracy = pretrains ? accuracy : std::nan("");
      record.mlm_loss = pretrains ? loss : std::nan("");
      if (!pretrains) record.metrics = {{"exact", 0.1}, {"f1", accuracy}, {"loss", loss}};
      record.target_met = is_met && at == seconds.back();
      journal.add(1 + at, record);
    }
    follow();
  }
};

TEST_P(FollowedTarget, IsPredictedWhereItsMetricGoesTheRightWay) {
  journal({10, 20, 40}, false);
  const runs::RunSummary& summary = run_.summary;
  const bool is_loss = std::string(GetParam().metric).ends_with("loss");
  EXPECT_EQ(summary.value, is_loss ? loss_at(40) : accuracy_at(40));
  EXPECT_FALSE(summary.time_to_accuracy_seconds);
  ASSERT_EQ(summary.crossing.has_value(), GetParam().gets_there);
  if (GetParam().gets_there) {
    EXPECT_LE(*summary.crossing_low, std::exp(5.0));
    EXPECT_GE(*summary.crossing_high, std::exp(5.0));
    EXPECT_LE(*summary.crossing_low, *summary.crossing);
    EXPECT_LE(*summary.crossing, *summary.crossing_high);
  }
}

// The trainer compares; whatever the figures, its word counts.
TEST_P(FollowedTarget, IsReachedWhenTheTrainerSaysSo) {
  journal({10, 20, 40}, true);
  ASSERT_TRUE(run_.summary.time_to_accuracy_seconds);
  EXPECT_DOUBLE_EQ(*run_.summary.time_to_accuracy_seconds, 40);
  EXPECT_FALSE(run_.summary.crossing) << "nothing is left to predict";
}

INSTANTIATE_TEST_SUITE_P(
    Metrics, FollowedTarget,
    testing::Values(Course{"accuracy_rises", "mlm_accuracy", 0.6, 0.1, 0.5, true},
                    Course{"accuracy_falls", "mlm_accuracy", 0.6, -0.1, -0.5, false},
                    Course{"loss_falls", "mlm_loss", 2.5, -0.1, -0.5, true},
                    Course{"loss_rises", "mlm_loss", 2.5, 0.1, 0.5, false},
                    Course{"f1_rises", "f1", 0.6, 0.1, 0.5, true},
                    Course{"f1_falls", "f1", 0.6, -0.1, -0.5, false},
                    Course{"task_loss_falls", "loss", 2.5, -0.1, -0.5, true},
                    Course{"task_loss_rises", "loss", 2.5, 0.1, 0.5, false}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(FollowerTest, ForgetsARemovedCheckpoint) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  journal.checkpoint(2, 10);
  follow();
  EXPECT_EQ(run_.summary.checkpoint_step, 10);
  journal.checkpoint(3, 10, "removed");
  follow();
  EXPECT_EQ(run_.summary.checkpoint, "");
  EXPECT_EQ(run_.summary.checkpoint_step, -1);
}

TEST_F(FollowerTest, ASkippedCheckpointIsNotTheNewest) {
  JournalAuthor first(directory_, 1000);
  first.start(1);
  first.checkpoint(2, 10);
  first.checkpoint(3, 20);
  JournalAuthor second(directory_, 2000);
  second.checkpoint(1, 20, "skipped");
  follow();
  EXPECT_EQ(run_.summary.checkpoint, "") << "nobody knows yet what it goes on from";
  EXPECT_EQ(run_.summary.checkpoint_step, -1);
  trainer::contract::StartRecord start;
  start.checkpoint = "step-10";
  second.start(2, 10, 1234, start);
  follow();
  EXPECT_EQ(run_.summary.checkpoint, "step-10");
  EXPECT_EQ(run_.summary.checkpoint_step, 10);
}

TEST_F(FollowerTest, TheNewestCheckpointIsTheLastThatWasWritten) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  journal.checkpoint(2, 10);
  journal.checkpoint(3, 20);
  journal.checkpoint(4, 10, "removed");  // by retention
  journal.checkpoint(5, 30, "failed");
  follow();
  EXPECT_EQ(run_.summary.checkpoint, "step-20");
  EXPECT_EQ(run_.summary.checkpoint_step, 20);
}

TEST_F(FollowerTest, ARemovedCheckpointKeepsItsStep) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  trainer::contract::CheckpointRecord record;
  record.step = 200;
  record.name = "step-0000000200-0123456789abcdef";
  record.status = "written";
  journal.add(2, record);
  record.step = 800;  // after which it was removed
  record.status = "removed";
  journal.add(3, record);
  follow();
  const auto rows = api::checkpoints_json(store_, run_)["checkpoints"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["status"], "removed");
  EXPECT_EQ(rows[0]["step"], 200);
}

TEST_F(FollowerTest, IgnoresNumbersThatAreNone) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  trainer::contract::StepRecord step;
  step.step = 1;
  step.loss = NAN;
  step.seconds = 1;
  journal.add(2, step);
  follow();
  EXPECT_EQ(run_.summary.loss, std::nullopt);
  EXPECT_EQ(steps().size(), 1U);
}

// Shares of time and rates weigh by time; what is counted per step does not.
TEST(RecentFigures, WeighByTimeWhatIsAShareOfIt) {
  std::vector<store::StepRow> rows(2);
  rows[0].step_seconds = 3;
  rows[1].step_seconds = 1;
  rows[0].samples = rows[1].samples = 8;
  rows[0].mfu = rows[0].utilisation = rows[0].goodput = 0.4;
  rows[1].mfu = rows[1].utilisation = rows[1].goodput = 0.8;
  rows[0].imbalance = rows[0].moved_bytes = 2;
  rows[1].imbalance = rows[1].moved_bytes = 1;
  rows[0].exposed_seconds = 0.6;
  rows[1].exposed_seconds = 0.6;
  const store::RecentFigures figures = store::recent_figures(rows);
  EXPECT_DOUBLE_EQ(*figures.samples_per_second, 4);
  for (const auto& share : {figures.mfu, figures.utilisation, figures.goodput}) {
    EXPECT_DOUBLE_EQ(share.value(), (3 * 0.4 + 1 * 0.8) / 4);
  }
  EXPECT_DOUBLE_EQ(*figures.exposed_share, 1.2 / 4);
  EXPECT_DOUBLE_EQ(*figures.imbalance, 1.5);
  EXPECT_DOUBLE_EQ(*figures.moved_bytes, 1.5);
}

TEST_F(FollowerTest, TellsHowTheRanksDo) {
  JournalAuthor journal(directory_, 1000);
  journal.start_four_ranks(1);
  follow();
  const auto attempt = [&] { return store_.attempts(run_.number).at(0); };
  EXPECT_EQ(attempt().ranks, 4);
  EXPECT_EQ(attempt().ranks_per_node, 2);
  EXPECT_EQ(attempt().device, "cpu: \x1b[1mfour cores");
  EXPECT_EQ(attempt().peak_flops, 4e11);
  EXPECT_FALSE(attempt().slowest);
  EXPECT_FALSE(store_.timeline(attempt().row)) << "no step yet";
  for (int i = 1; i <= 3; ++i) journal.add(1 + i, JournalAuthor::step_of_four_ranks(i));
  journal.add(4.5, trainer::contract::HeartbeatRecord{4, 2, "forward", 0.5});
  follow();
  restart();
  const runs::RunSummary& summary = run_.summary;
  EXPECT_DOUBLE_EQ(*summary.mfu, 0.25);
  EXPECT_DOUBLE_EQ(*summary.utilisation, 0.875);
  EXPECT_DOUBLE_EQ(*summary.exposed_share, 0.1);
  EXPECT_DOUBLE_EQ(*summary.imbalance, 1.25);
  EXPECT_DOUBLE_EQ(*summary.moved_bytes, 200);
  EXPECT_DOUBLE_EQ(*summary.goodput, 12);
  EXPECT_DOUBLE_EQ(*summary.noise_scale, 603) << "the newest";
  EXPECT_DOUBLE_EQ(*summary.noise_scale_low, 503);
  EXPECT_DOUBLE_EQ(*summary.noise_scale_high, 803);
  EXPECT_DOUBLE_EQ(*summary.efficiency, 0.75);
  ASSERT_TRUE(attempt().slowest);
  EXPECT_EQ(attempt().slowest->rank, 2);
  EXPECT_EQ(attempt().slowest->step, 4);
  EXPECT_EQ(attempt().slowest->phase, "forward");
  EXPECT_EQ(attempt().slowest->phase_seconds, 0.5);
  EXPECT_EQ(attempt().slowest->utc, 1004.5);
  const auto timeline = store_.timeline(attempt().row);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->step, 3);
  EXPECT_EQ(timeline->bucket_bytes, (std::vector<double>{4096, 1024}));
  EXPECT_EQ(timeline->launched, (std::vector<double>{0.3, 0.4}));
  EXPECT_EQ(timeline->finished, (std::vector<double>{0.35, 0.45}));
  EXPECT_EQ(timeline->backward_seconds, 0.25);
  journal.end(6, 0);
  follow();
  EXPECT_FALSE(attempt().slowest) << "nobody is behind in an attempt that has ended";
}

TEST_F(FollowerTest, AfterATrialBucketsHaveTheWinnersSizes) {
  JournalAuthor journal(directory_, 1000);
  journal.start_four_ranks(1);
  journal.add(2, JournalAuthor::step_of_four_ranks(1));
  trainer::contract::TrialRecord trial;
  trial.step = 1;
  trial.cuts = {"default", "coarser"};
  trial.winner = "coarser";
  trial.bucket_bytes = {5120};
  journal.add(2.5, trial);
  follow();
  EXPECT_FALSE(store_.timeline(store_.attempts(run_.number).at(0).row))
      << "the step before had other buckets";
  trainer::contract::StepRecord step = JournalAuthor::step_of_four_ranks(2);
  step.bucket_launched = {0.3};
  step.bucket_finished = {0.45};
  journal.add(3, step);
  follow();
  restart();
  const auto timeline = store_.timeline(store_.attempts(run_.number).at(0).row);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->step, 2);
  EXPECT_EQ(timeline->bucket_bytes, (std::vector<double>{5120}));
  EXPECT_EQ(timeline->launched, (std::vector<double>{0.3}));
}

// Within an attempt: the step falls back, people are warned, and the attempt says why while it runs
// and when it is over.
TEST_F(FollowerTest, ARollbackTakesTheStepBackAndIsTold) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  for (const int step : {1, 2, 3}) journal.step(1 + step, step);
  trainer::contract::DivergenceRecord divergence;
  divergence.step = 4;
  divergence.action = "rollback";
  divergence.checkpoint = "step-2";
  divergence.checkpoint_step = 2;
  divergence.rollbacks = 1;
  divergence.message = "the loss is not finite at step 4";
  journal.add(5, divergence);
  follow();
  EXPECT_EQ(run_.summary.step, 2);
  EXPECT_EQ(run_.summary.samples, 16);
  EXPECT_EQ(run_.summary.loss, std::nullopt);
  const auto attempt = [&] { return store_.attempts(run_.number).at(0); };
  EXPECT_EQ(attempt().message, divergence.message);
  const auto warnings = store_.newest_warnings(run_.number, 9);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].message, divergence.message);
  journal.step(6, 3);
  journal.end(7, 0);
  follow();
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 3, 3}));
  EXPECT_EQ(run_.summary.step, 3);
  EXPECT_EQ(attempt().message, divergence.message) << "an end without words takes none away";
}

TEST_F(FollowerTest, AnAttemptsStartIsToldWithItsHostsAndItsFirstStep) {
  JournalAuthor journal(directory_, 1000);
  journal.add(0, trainer::contract::PhaseRecord{"loading"});
  follow();
  EXPECT_TRUE(store_.attempts(run_.number).at(0).started);
  store::EventFilter starts;
  starts.kinds = {"attempt.started"};
  EXPECT_TRUE(store_.events_after(starts, 0, 9).events.empty()) << "where, is not known";
  trainer::contract::StartRecord start;
  start.host = "vm";
  start.hosts = {"vm"};
  journal.start(1, 40, 1234, start);
  follow();
  journal.step(2, 41);
  journal.end(3, 0);
  follow();
  const auto told = store_.events_after(starts, 0, 9).events;
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].words, "vm");
  EXPECT_EQ(told[0].step, 40);
  EXPECT_EQ(told[0].utc, 1000);
  store::RunFilter on_node;
  on_node.node = "vm";
  EXPECT_EQ(store_.list(on_node).rows.size(), 1U);
}

TEST_F(FollowerTest, AnAttemptThatEndsBeforeItsStartRecordIsTold) {
  JournalAuthor journal(directory_, 1000);
  journal.add(0, trainer::contract::PhaseRecord{"loading"});
  follow();
  journal.end(1, 70);
  follow();
  std::vector<std::string> kinds;
  for (const store::Event& each : store_.events_after({}, 0, 9).events) {
    if (each.attempt) kinds.push_back(each.kind);
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"attempt.started", "attempt.ended"}));
}

TEST_F(FollowerTest, AnAttemptOnOneRankInheritsNothing) {
  JournalAuthor first(directory_, 1000);
  first.start_four_ranks(1);
  first.add(2, JournalAuthor::step_of_four_ranks(1));
  first.add(2.5, trainer::contract::HeartbeatRecord{2, 2, "forward", 0.5});
  follow();
  JournalAuthor second(directory_, 1010);
  second.start(1, 1);
  second.step(2, 2);
  follow();
  const runs::RunSummary& summary = run_.summary;
  for (const auto& figure :
       {summary.mfu, summary.utilisation, summary.exposed_share, summary.imbalance,
        summary.moved_bytes, summary.goodput, summary.noise_scale, summary.noise_scale_low,
        summary.noise_scale_high, summary.efficiency}) {
    EXPECT_EQ(figure, std::nullopt) << "an old trainer's journal, or one rank's, says none";
  }
  EXPECT_DOUBLE_EQ(*summary.samples_per_second, 16) << "throughput is of both";
  EXPECT_EQ(store_.attempts(run_.number).at(1).ranks, 1);
  EXPECT_FALSE(store_.timeline(store_.attempts(run_.number).at(1).row));
}

TEST_F(FollowerTest, TakesStrangeFiguresOfRanks) {
  JournalAuthor journal(directory_, 1000);
  trainer::contract::StartRecord start;
  start.ranks = -3;
  start.peak_flops = NAN;
  start.bucket_bytes = {-1};
  journal.start(1, 0, 1, start);
  trainer::contract::StepRecord step;
  step.step = 1;
  step.seconds = 0;
  step.mfu = NAN;
  step.utilisation = -1;
  step.bucket_launched = {NAN, 2, 3};
  step.bucket_finished = {1};
  journal.add(2, step);
  journal.add(3, trainer::contract::HeartbeatRecord{1, -7, std::string(100'000, 'x'), NAN});
  follow();
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(run_.summary.mfu, std::nullopt);
  EXPECT_EQ(run_.summary.utilisation, std::nullopt);
  const runs::Attempt attempt = store_.attempts(run_.number).at(0);
  EXPECT_EQ(attempt.ranks, 1);
  EXPECT_EQ(attempt.peak_flops, 0);
  const auto timeline = store_.timeline(attempt.row);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->launched.size(), 1U) << "as many as have both times";
  EXPECT_EQ(timeline->finished.size(), 1U);
}

TEST_F(FollowerTest, SurvivesStrangeNamesBetweenTheAttempts) {
  std::filesystem::create_directories(directory_.path() / "attempts" / "not-an-attempt");
  tests::write_file(directory_.path() / "attempts" / "3-0123456789abcdef", "a file");
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  EXPECT_TRUE(follow().read_any);
}

}  // namespace
}  // namespace regatta::orchestrator
