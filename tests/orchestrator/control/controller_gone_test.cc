// Runs whose directory is gone, or away.
#include <gmock/gmock.h>

#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;

class GoneTest : public ControllerFixture {
 protected:
  GoneTest() : ControllerFixture(1) {}
};

TEST_F(GoneTest, LetsGoOfARunWhoseDirectoryIsGone) {
  const std::string id = submit();
  (void)submit();
  std::filesystem::remove_all(run(id).directory);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Queued) << "perhaps it comes back";
  clock_.now += 61;
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Failed);
  EXPECT_THAT(run(id).error, HasSubstr("is gone"));
  EXPECT_EQ(store_->unfinished_runs().size(), 1U) << "the other one";

  // One that is under way is ended at the next visit.
  const std::string busy = store_->unfinished_runs()[0].id;
  const std::string waiting = submit();
  ASSERT_EQ(state(busy), runs::RunState::Starting);
  const std::string directory = run(busy).directory;
  std::filesystem::remove_all(directory);
  ticks(1);
  EXPECT_EQ(state(busy), runs::RunState::Stopping);
  EXPECT_EQ(run(busy).reason, "its directory " + directory + " is gone");
  EXPECT_THAT(scheduler_.killed, testing::ElementsAre("h1"));
  EXPECT_TRUE(scheduler_.stopped.empty()) << "it has nowhere to write a checkpoint";
  ticks(2);
  EXPECT_EQ(scheduler_.killed.size(), 1U) << "once";
  scheduler_.end_by_signal("h1", 9);
  ticks();
  EXPECT_EQ(state(busy), runs::RunState::Failed);
  EXPECT_EQ(run(busy).error, "its directory " + directory + " is gone");
  const orchestrator::runs::Launch launch = store_->launches(run(busy).number).at(0);
  EXPECT_TRUE(launch.over);
  EXPECT_EQ(launch.signal, 9);
  EXPECT_EQ(launch.words, run(busy).error);
  EXPECT_EQ(state(waiting), runs::RunState::Starting) << "its place is free";
}

// A name that is there may be a link to what is not mounted, and a runs directory without any run
// is not the one that had them.
TEST_F(GoneTest, WhatIsAwayIsNotGone) {
  const std::string id = submit();
  const std::string other = submit();
  ticks();
  const base::Path directory = run(id).directory;
  std::filesystem::rename(directory, folder_.path() / "aside");
  std::filesystem::create_symlink(folder_.path() / "not-mounted", directory);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  std::filesystem::remove(directory);
  std::filesystem::rename(run(other).directory, folder_.path() / "other");
  clock_.now += 100;
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Starting);
  EXPECT_EQ(state(other), runs::RunState::Queued);
  EXPECT_TRUE(scheduler_.killed.empty());
  std::filesystem::rename(folder_.path() / "aside", directory);
  std::filesystem::rename(folder_.path() / "other", run(other).directory);
  scheduler_.end("h1", 0);
  ticks();
  EXPECT_EQ(state(id), runs::RunState::Succeeded);
}

// Nor one whose job waits, or of whose job Slurm says nothing.
TEST_F(GoneTest, AJobWhoseDirectoryIsAwayIsLeftAlone) {
  for (const runs::ProcessState process :
       {runs::ProcessState::Waiting, runs::ProcessState::Unknown}) {
    const std::string id = submit();
    ticks();
    const std::string handle = "h" + std::to_string(scheduler_.launches.size());
    scheduler_.reports[handle].state = process;
    const base::Path directory = run(id).directory;
    std::filesystem::rename(directory, folder_.path() / "aside");
    std::filesystem::create_symlink(folder_.path() / "not-mounted", directory);
    for (int i = 0; i < 3; ++i) {
      ticks();
      clock_.now += 100;
    }
    EXPECT_FALSE(runs::is_over(state(id)));
    EXPECT_FALSE(store_->launches(run(id).number).back().over);
    EXPECT_TRUE(scheduler_.killed.empty());
    std::filesystem::remove(directory);
    std::filesystem::rename(folder_.path() / "aside", directory);
    scheduler_.end(handle, 0);
    ticks();
    EXPECT_EQ(state(id), runs::RunState::Succeeded);
  }
}

TEST_F(GoneTest, OneThatWaitsAndLosesItsDirectoryKeepsNobodyWaiting) {
  const std::string first = submit();
  const std::string second = submit();
  ticks();
  ASSERT_EQ(run(second).reason, "waits for a free slot (serve --parallel)");
  std::filesystem::remove_all(run(second).directory);
  ticks();
  EXPECT_EQ(state(second), runs::RunState::Queued) << "not given up yet";
  const std::string third = submit();
  scheduler_.end("h1", 0);
  ticks();
  EXPECT_EQ(state(first), runs::RunState::Succeeded);
  EXPECT_EQ(state(third), runs::RunState::Starting);
  clock_.now += 61;
  ticks();
  EXPECT_EQ(state(second), runs::RunState::Failed);
}

}  // namespace
}  // namespace regatta::orchestrator
