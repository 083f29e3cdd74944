// What the controller makes of the journal of a run whose batch grows.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "orchestrator/control/follower.h"
#include "orchestrator/runs/batch_of_attempt.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using tests::JournalAuthor;
using tests::TemporaryDirectory;

class FollowedBatch : public testing::Test {
 protected:
  FollowedBatch()
      : store_(folder_.path() / "state"),
        directory_(trainer::contract::RunDirectory::create(
            base::posix_file_system(), folder_.path() / "run", tests::run_file())),
        follower_(store_) {
    store::NewRun run;
    run.id = run.name = "run";
    run.directory = directory_.path().string();
    run_ = *store_.run(store_.add_run(run));
  }
  void follow() {
    std::vector<runs::Attempt> attempts = store_.attempts(run_.number);
    const control::ReadingOrder order = follower_.order(run_, attempts);
    (void)follower_.take(&run_, &attempts, control::read_run(base::posix_file_system(), order));
    store_.update_run(run_);
  }
  // A controller that died and came back.
  void restart() { run_ = *store_.run(run_.number); }

  TemporaryDirectory folder_;
  store::Store store_;
  trainer::contract::RunDirectory directory_;
  control::Follower follower_;
  runs::Run run_;
};

// Samples are those of the steps, whose sizes differ; progress is what the trainer says.
TEST_F(FollowedBatch, ABatchThatGrowsCountsTheSamplesOfItsSteps) {
  JournalAuthor journal(directory_, 1000);
  trainer::contract::StartRecord start;
  start.batches = {{1, 8}};
  start.first_progress = 0;
  journal.start(1, 0, 1234, start);
  const auto step = [](std::int64_t number, std::int64_t samples, double progress) {
    trainer::contract::StepRecord record;
    record.step = number;
    record.loss = 1;
    record.samples = samples;
    record.seconds = 0.5;
    record.progress = progress;
    return record;
  };
  std::int64_t sum = 0;
  for (int i = 1; i <= 9; ++i) {
    const int samples = i < 6 ? 8 : 16;
    sum += samples;
    if (i == 3) journal.add(3.5, trainer::contract::BatchRecord{6, 16, 40, 33});
    if (i == 4) journal.add(4.5, trainer::contract::BatchRecord{6, 16, 40, 33});  // once more
    journal.add(1 + i, step(i, samples, static_cast<double>(sum) / 8));
    follow();
    EXPECT_EQ(run_.summary.samples, sum) << i;
    EXPECT_EQ(run_.summary.batch_size, samples) << i;
    EXPECT_EQ(run_.summary.progress, static_cast<double>(sum) / 8) << i;
  }
  journal.evaluation(11, 9, 0.2);
  restart();
  follow();
  EXPECT_EQ(run_.summary.samples, 5 * 8 + 4 * 16);
  EXPECT_EQ(store_.attempts(run_.number).at(0).batches, (std::vector<std::string>{"1:8", "6:16"}));
  // The next attempt goes on from a checkpoint of step 7.
  JournalAuthor second(directory_, 2000);
  start.batches = {{1, 8}, {6, 16}};
  start.first_progress = 9;
  second.start(1, 7, 1234, start);
  follow();
  EXPECT_EQ(run_.summary.samples, 5 * 8 + 2 * 16);
  EXPECT_EQ(run_.summary.progress, 9);
}

TEST_F(FollowedBatch, WithoutGrowthStepsAreWhatIsCounted) {
  JournalAuthor journal(directory_, 1000);
  journal.start(1);
  journal.step(2, 1);
  follow();
  EXPECT_EQ(run_.summary.progress, std::nullopt);
  EXPECT_EQ(run_.summary.batch_size, 8);
  EXPECT_EQ(runs::steps_done(run_.summary), 1);
}

// A fork with another batch: its steps count their own samples, its parent's theirs.
TEST_F(FollowedBatch, AForkWithAnotherBatchCountsWhatItsParentHad) {
  JournalAuthor journal(directory_, 1000);
  trainer::contract::StartRecord start;
  start.batches = {{1, 8}, {11, 16}};
  journal.start(1, 10, 1234, start);
  journal.step(2, 11);
  journal.step(3, 12);
  follow();
  EXPECT_EQ(run_.summary.progress, std::nullopt);
  EXPECT_EQ(run_.summary.batch_size, 16);
  EXPECT_EQ(run_.summary.samples, 10 * 8 + 2 * 16);
}

// A store may hold what nobody wrote.
TEST(BatchOfAttempt, IsTheFirstBatchWhereItsTextIsNone) {
  runs::Attempt attempt;
  attempt.batch_size = 8;
  for (const std::vector<std::string>& texts : std::vector<std::vector<std::string>>{
           {}, {"1"}, {"1:8", "x:16"}, {"1:8", "5:8"}, {"2:8"}, {"1:8", "3:"}}) {
    attempt.batches = texts;
    EXPECT_EQ(runs::samples_after(attempt, 10), 80);
    EXPECT_EQ(runs::batch_at(attempt, 10), 8);
  }
  attempt.batches = {"1:8", "3:16"};
  EXPECT_EQ(runs::samples_after(attempt, 10), 2 * 8 + 8 * 16);
  EXPECT_EQ(runs::samples_after(attempt, 0), 0);
  EXPECT_EQ(runs::batch_at(attempt, 0), 8);
  runs::add_batch({3, 32, {}, 0}, &attempt);
  runs::add_batch({9, 16, {}, 0}, &attempt);
  EXPECT_EQ(attempt.batches, (std::vector<std::string>{"1:8", "3:16"})) << "neither grows";
}

}  // namespace
}  // namespace regatta::orchestrator
