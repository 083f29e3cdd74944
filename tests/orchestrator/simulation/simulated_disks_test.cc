// That the disks of the simulated world lose what real ones may lose, and nothing else.
#include <gmock/gmock.h>

#include "base/error.h"
#include "orchestrator/control/run_removal.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/simulation/crash_vfs.h"
#include "tests/orchestrator/simulation/memory_disk.h"
#include "tests/orchestrator/support.h"

namespace regatta::tests::simulation {
namespace {

using namespace orchestrator;

class MemoryDiskTest : public testing::Test {
 protected:
  MemoryDiskTest() { mount_.create_directory("/d"); }

  Chance chance_{1};
  Life life_;
  MemoryDisk disk_;
  Mount mount_{disk_, Mount::Writes::Unsynced, &life_, &chance_};
};

TEST_F(MemoryDiskTest, WhatIsSyncedSurvives) {
  mount_.sync_directory("/");
  for (int round = 0; round < 50; ++round) {
    const base::Path path = "/d/" + std::to_string(round);
    base::replace_file(mount_, path, "whole");
    disk_.lose_power(chance_);
    EXPECT_EQ(mount_.read(path, 100), "whole");
  }
}

TEST_F(MemoryDiskTest, WhatIsNotSyncedIsLostOrTorn) {
  mount_.sync_directory("/");
  int absent = 0, torn = 0, whole = 0;
  for (int round = 0; round < 300; ++round) {
    const base::Path path = "/d/" + std::to_string(round);
    mount_.open(path, base::FileSystem::Open::CreateNew)->append(std::string_view("0123456789"));
    disk_.lose_power(chance_);
    if (!mount_.exists(path)) {
      ++absent;
      continue;
    }
    const std::string left = mount_.read(path, 100);
    EXPECT_EQ(left, std::string("0123456789").substr(0, left.size()));
    ++(left.size() < 10 ? torn : whole);
  }
  EXPECT_GT(absent, 100);
  EXPECT_GT(torn, 80);
  EXPECT_GT(whole, 5);
}

TEST_F(MemoryDiskTest, ARenameIsUndoneAsAWhole) {
  mount_.sync_directory("/");
  base::replace_file(mount_, "/d/a", "old");
  int undone = 0;
  for (int round = 0; round < 100; ++round) {
    {
      const auto file = mount_.open("/d/b", base::FileSystem::Open::Truncate);
      file->append(std::string_view("new"));
      file->sync();
    }
    mount_.sync_directory("/d");
    mount_.rename("/d/b", "/d/a");
    disk_.lose_power(chance_);
    const bool moved = !mount_.exists("/d/b");
    undone += moved ? 0 : 1;
    EXPECT_EQ(mount_.read("/d/a", 10), moved ? "new" : "old");
    base::replace_file(mount_, "/d/a", "old");
  }
  EXPECT_GT(undone, 20);
  EXPECT_LT(undone, 80);
}

// The controller that moved it away was killed before that was on the disk.
TEST_F(MemoryDiskTest, ARunWhoseFilesWereRemovedDoesNotComeBack) {
  mount_.sync_directory("/");
  for (int round = 0; round < 100; ++round) {
    mount_.create_directory("/d/run");
    base::replace_file(mount_, "/d/run/run.json", "{}");
    mount_.sync_directory("/d");
    mount_.rename("/d/run", "/d/.removed-run-00");
    control::remove_moved(mount_, "/d/.removed-run-00");
    disk_.lose_power(chance_);
    ASSERT_FALSE(mount_.exists("/d/run")) << "round " << round;
    if (mount_.exists("/d/.removed-run-00")) mount_.remove_tree("/d/.removed-run-00");
  }
}

TEST_F(MemoryDiskTest, AnotherMachineSeesIt) {
  Mount other(disk_, Mount::Writes::Synced, nullptr, nullptr);
  const auto file = mount_.open("/d/a", base::FileSystem::Open::CreateNew);
  file->append(std::string_view("seen"));
  EXPECT_EQ(other.read("/d/a", 10), "seen");
}

TEST_F(MemoryDiskTest, AFullOneReadsAndRemoves) {
  base::replace_file(mount_, "/d/a", "there");
  mount_.fill(true);
  EXPECT_THROW(base::replace_file(mount_, "/d/b", "more"), base::Error);
  EXPECT_EQ(mount_.read("/d/a", 10), "there");
  EXPECT_FALSE(mount_.create_directory("/d"));
  mount_.remove_tree("/d");
  EXPECT_FALSE(mount_.exists("/d/a"));
}

TEST_F(MemoryDiskTest, TheDeadChangeNothing) {
  for (int step = 1; step < 10; ++step) {
    const base::Path path = "/d/" + std::to_string(step);
    life_.begin();
    life_.end_at(step);
    EXPECT_THROW(
        {
          while (true) base::replace_file(mount_, path, "text");
        },
        Killed);
    EXPECT_THROW(mount_.remove_tree("/d"), Killed);
  }
}

// A store as the controller has it.
class CrashVfsTest : public testing::Test {
 protected:
  store::NewRun run(const std::string& id) {
    store::NewRun run;
    run.id = run.name = run.directory = id;
    return run;
  }
  void open() { store_ = std::make_unique<store::Store>("/s", store::StoreOptions{vfs_.name()}); }
  // Without a last word of it.
  void die() {
    life_.end_at(1);
    (void)life_.step();
    store_.reset();
    vfs_.forget_locks();
    life_.begin();
  }

  Chance chance_{3};
  Life life_;
  CrashVfs vfs_{life_, chance_};
  std::unique_ptr<store::Store> store_;
};

TEST_F(CrashVfsTest, AKilledProcessLosesNothingThatItHasCommitted) {
  for (int i = 0; i < 20; ++i) {
    open();
    EXPECT_EQ(store_->ids().size(), static_cast<std::size_t>(i));
    store_->add_run(run("run-" + std::to_string(i)));
    die();
  }
}

TEST_F(CrashVfsTest, ALossOfPowerTakesTheNewestCommitsOnly) {
  int lost = 0;
  std::size_t before = 0;
  for (int i = 0; i < 60; ++i) {
    open();
    const std::size_t there = store_->ids().size();
    EXPECT_GE(there, before);
    for (int more = 0; more < 3; ++more) {
      store_->add_run(run("run-" + std::to_string(i) + "-" + std::to_string(more)));
    }
    before = there;
    die();
    vfs_.lose_power();
    open();
    const std::size_t left = store_->ids().size();
    EXPECT_LE(left, there + 3);
    lost += left < there + 3 ? 1 : 0;
    store_.reset();
    before = left;
  }
  EXPECT_GT(lost, 10) << "nothing is ever lost: the simulation does not see what is not synced";
}

// It was written in a hurry, the controller was killed, and the next one has told somebody of it.
TEST_F(CrashVfsTest, WhatAKilledOneHadCommittedIsOnTheDiskOnceTheNextHasReadIt) {
  for (int i = 0; i < 40; ++i) {
    open();
    store_->add_run(run("run-" + std::to_string(i)));
    die();
    open();
    EXPECT_EQ(store_->ids().size(), static_cast<std::size_t>(i) + 1);
    die();
    vfs_.lose_power();
    open();
    EXPECT_EQ(store_->ids().size(), static_cast<std::size_t>(i) + 1);
    store_.reset();
  }
}

// The controller is killed within a cancellation, the next one answers that there was one.
TEST_F(CrashVfsTest, ACancellationThatWasReadStays) {
  int read = 0;
  for (int step = 1; step <= 100; ++step) {
    const std::string id = "run-" + std::to_string(step);
    open();
    const runs::RunNumber number = store_->add_run(run(id));
    store_->set_wanted(number, runs::Wanted::Run);  // that there is one is on the disk
    life_.end_at(step);
    try {
      store_->set_wanted(number, runs::Wanted::Cancel);
    } catch (const base::Error&) {
    }
    die();
    open();
    const runs::Wanted answered = store_->run(id)->wanted;
    read += answered == runs::Wanted::Cancel ? 1 : 0;
    die();
    vfs_.lose_power();
    open();
    ASSERT_EQ(store_->run(id)->wanted, answered) << "killed at step " << step;
    store_.reset();
  }
  EXPECT_GT(read, 5);
}

TEST_F(CrashVfsTest, ALogThatCannotBeSettledIsAnErrorInOneLine) {
  open();
  store_->add_run(run("run"));
  die();
  vfs_.fail_one_in(1);
  try {
    open();
    FAIL() << "it answers of what may be lost";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(), testing::StartsWith("cannot put the log of writes, "));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
  vfs_.fail_one_in(0);
  open();
  EXPECT_TRUE(store_->run("run"));
}

TEST_F(CrashVfsTest, StoreFailureIsTroubleForAWhile) {
  tests::SimulatedClock clock;
  store::StoreOptions options;
  options.vfs = vfs_.name();
  options.clock = &clock;
  store_ = std::make_unique<store::Store>("/s", options);
  EXPECT_EQ(store_->trouble(), std::nullopt);
  vfs_.fail_one_in(1);
  EXPECT_THROW(store_->add_run(run("refused")), base::Error);
  vfs_.fail_one_in(0);
  ASSERT_TRUE(store_->trouble());
  EXPECT_THAT(*store_->trouble(), testing::StartsWith("the controller cannot write its store: "));
  store_->add_run(run("taken"));
  EXPECT_TRUE(store_->trouble()) << "what failed may wait for its next try";
  clock.now += store::DiskTrouble::kSeconds + 1;
  EXPECT_EQ(store_->trouble(), std::nullopt);
}

TEST_F(CrashVfsTest, WhatAJobIsStartedForAndWishesAreOnTheDisk) {
  open();
  const runs::RunNumber number = store_->add_run(run("run"));
  store_->set_wanted(number, runs::Wanted::Run);
  for (int i = 1; i < 40; ++i) {
    runs::Launch launch;
    launch.number = i;
    launch.token = std::to_string(i);
    store_->put_launch(number, launch);
    const bool cancel = i % 2 == 0;
    if (cancel) store_->set_wanted(number, runs::Wanted::Cancel);
    die();
    vfs_.lose_power();
    open();
    EXPECT_EQ(store_->launches(number).size(), static_cast<std::size_t>(i));
    EXPECT_EQ(store_->run("run")->wanted, cancel ? runs::Wanted::Cancel : runs::Wanted::Run);
    if (cancel) store_->set_wanted(number, runs::Wanted::Run);
  }
}

TEST_F(CrashVfsTest, WhatIsTakenUpIsOnTheDisk) {
  open();
  const runs::RunNumber number = store_->add_run(run("run"));
  for (int i = 1; i < 20; ++i) {
    store_->set_wanted(number, runs::Wanted::Resume);
    runs::Run taken = *store_->run("run");
    taken.failures = i;
    EXPECT_TRUE(store_->take_up(taken));
    die();
    vfs_.lose_power();
    open();
    EXPECT_EQ(store_->run("run")->wanted, runs::Wanted::Run);
    EXPECT_EQ(store_->run("run")->failures, i);
  }
}

TEST_F(CrashVfsTest, AnInterruptedWriteIsDoneOrNotDone) {
  std::size_t runs = 0;
  for (int step = 1; step < 160; ++step) {
    open();
    EXPECT_GE(store_->ids().size(), runs);
    EXPECT_LE(store_->ids().size(), runs + 1);
    runs = store_->ids().size();
    life_.end_at(1 + step % 80);
    runs::Launch one, two;
    one.number = 1;
    two.number = 2;
    one.token = std::to_string(step) + "-1";
    two.token = std::to_string(step) + "-2";
    try {
      store_->add_run(run("run-" + std::to_string(step)), {one, two});
    } catch (const base::Error&) {
    }
    die();
    open();
    for (const std::string& id : store_->ids()) {
      EXPECT_EQ(store_->launches(store_->run(id)->number).size(), 2U) << id << ", all or nothing";
    }
    store_.reset();
  }
  EXPECT_GT(runs, 5U);
}

}  // namespace
}  // namespace regatta::tests::simulation
