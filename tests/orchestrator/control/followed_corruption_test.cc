// What the controller makes of a rank that computed wrong numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "orchestrator/control/follower.h"
#include "orchestrator/slurm/node_suspicion.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using tests::JournalAuthor;
using tests::TemporaryDirectory;

trainer::contract::CorruptionRecord corruption_of(int rank, const std::string& host) {
  trainer::contract::CorruptionRecord record;
  record.step = 2;
  record.rank = rank;
  record.host = host;
  record.message = "Silent corruption at step 2";
  return record;
}

TEST(FollowedCorruption, IsToldOnceAndOfARankThatIsNamed) {
  const TemporaryDirectory folder;
  store::Store store(folder.path() / "state");
  const auto directory = trainer::contract::RunDirectory::create(
      base::posix_file_system(), folder.path() / "run", tests::run_file());
  control::Follower follower(store);
  store::NewRun added;
  added.id = added.name = "run";
  added.directory = directory.path().string();
  runs::Run run = *store.run(store.add_run(added));
  const auto follow = [&] {
    std::vector<runs::Attempt> attempts = store.attempts(run.number);
    const control::ReadingOrder order = follower.order(run, attempts);
    return follower.take(&run, &attempts, control::read_run(base::posix_file_system(), order));
  };
  JournalAuthor journal(directory, 1000);
  journal.start(1);
  journal.add(2, corruption_of(1, "node02"));
  journal.add(3, corruption_of(-1, "node01, node02"));
  journal.add(4, trainer::contract::AlarmRecord{3, "gradient_norm", "", 50, 2, 60, "Large."});
  journal.add(5, trainer::contract::LossScaleRecord{});
  const control::Followed followed = follow();
  ASSERT_EQ(followed.corruption.size(), 1U);
  EXPECT_EQ(followed.corruption[0].host, "node02");
  EXPECT_EQ(followed.corruption[0].attempt, 1);
  EXPECT_EQ(followed.corruption[0].message, "Silent corruption at step 2");
  EXPECT_EQ(followed.corruption[0].utc, 1002);
  EXPECT_TRUE(follow().corruption.empty()) << "once";
  EXPECT_EQ(store.newest_warnings(run.number, 9).size(), 2U) << "an alarm is an event alone";
}

// While the attempt still runs, where it only warns; and the early end of one that stops is laid on
// that node alone, which the next launch leaves out.
class CorruptedNode : public ControllerFixture {
 protected:
  CorruptedNode() : ControllerFixture(100) {}
  std::vector<slurm::Avoided> suspects() {
    return slurm::suspicions(store_->node_events(), clock_.utc_seconds(), {});
  }
};

TEST_F(CorruptedNode, IsSuspectedAtOnceAndTakesAllTheBlame) {
  const std::string id = submit();
  ticks();
  scheduler_.reports["h1"].nodes = "node[01-04]";
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0.1);
  journal.add(1, corruption_of(1, "node02"));
  ticks();
  ASSERT_EQ(suspects().size(), 1U);
  EXPECT_EQ(suspects()[0].node, "node02");
  EXPECT_NEAR(suspects()[0].score, 1, 0.05);
  EXPECT_THAT(suspects()[0].why, testing::StartsWith("a rank computed wrong numbers under " + id));
  EXPECT_EQ(state(id), runs::RunState::Running);
  journal.end(5, 22, "Silent corruption at step 2");
  scheduler_.reports["h1"].state = runs::ProcessState::Gone;
  clock_.now += 30;
  ticks();
  ASSERT_EQ(suspects().size(), 1U) << "the others have no share";
  EXPECT_NEAR(suspects()[0].score, 1, 0.05) << "once";
  clock_.now += 60;
  ticks();
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  EXPECT_THAT(scheduler_.launches[1].avoid, testing::ElementsAre("node02"));
}

}  // namespace
}  // namespace regatta::orchestrator
