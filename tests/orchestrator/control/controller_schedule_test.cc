// Each run has its own time, and its directory is waited for by nobody else.
#include <gmock/gmock.h>

#include <list>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/runs/run_records.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::JournalAuthor;

// What the controller wants done beside its loop is done when the test says so.
class ScheduleTest : public testing::Test {
 protected:
  ScheduleTest() {
    store_ = std::make_unique<store::Store>(folder_.path() / "state");
    open();
    rounds();
  }
  void open(int parallel = 1000, double submit_seconds = 20) {
    controller_.reset();
    waiting_.clear();
    control::ControllerOptions options;
    options.runs_directory = folder_.path() / "runs";
    options.parallel = parallel;
    options.submit_seconds = submit_seconds;
    options.beside = [this](const base::Path& directory, std::function<void()> work) {
      if (refuses) return false;
      waiting_.emplace_back(directory, std::move(work));
      return true;
    };
    controller_ = std::make_unique<control::Controller>(base::posix_file_system(), clock_, *store_,
                                                        scheduler_, options);
  }

  // Rounds, and between them whatever is not of the hung directories.
  void rounds(int count = 4) {
    for (int i = 0; i < count; ++i) {
      controller_->tick();
      for (auto work = waiting_.begin(); work != waiting_.end();) {
        const bool hangs = hung.count(work->first.filename().string()) > 0;
        if (!hangs) work->second();
        work = hangs ? std::next(work) : waiting_.erase(work);
      }
      clock_.now += 0.25;
    }
  }
  // Submitted as by a handler, whose own work is done at once.
  std::string add(const std::string& id) {
    store::NewRun run;
    run.id = id;
    run.name = id;
    run.config = "{}";
    run.created_utc = clock_.utc_seconds();
    const auto made = trainer::contract::RunDirectory::create(
        base::posix_file_system(), folder_.path() / "runs" / id, tests::run_file());
    run.directory = made.path().string();
    store_->add_run(run);
    return id;
  }
  runs::RunState state(const std::string& id) { return store_->run(id)->state; }
  trainer::contract::RunDirectory directory(const std::string& id) {
    return trainer::contract::RunDirectory::open(base::posix_file_system(),
                                                 store_->run(id)->directory);
  }

  std::set<std::string> hung;
  bool refuses = false;
  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  std::list<std::pair<base::Path, std::function<void()>>> waiting_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<control::Controller> controller_;
};

TEST_F(ScheduleTest, ARunStartedByHandElsewhereIsCancelledAtNoMoment) {
  const base::Path path = folder_.path() / "runs" / "far";
  const auto made =
      trainer::contract::RunDirectory::create(base::posix_file_system(), path, tests::run_file());
  trainer::contract::StartRecord record;
  record.host = "other-machine";
  JournalAuthor(made, clock_.utc_seconds()).start(0.1, 0, 77, record);
  std::map<base::Code, int> answers;
  const auto ask = [&] {
    try {
      (void)controller_->cancel("far");
      FAIL() << "nobody would end it";
    } catch (const base::Error& error) {
      ++answers[error.code()];
    }
  };
  while (answers[base::Code::Conflict] < 3) {
    clock_.now += 1;
    controller_->tick();
    ASSERT_NO_FATAL_FAILURE(ask());
    while (!waiting_.empty()) {
      waiting_.front().second();
      waiting_.pop_front();
      ASSERT_NO_FATAL_FAILURE(ask());
    }
    ASSERT_LT(clock_.now, 1000);
  }
  EXPECT_GT(answers[base::Code::NotFound], 0);
  EXPECT_GT(answers[base::Code::Retry], 0) << "found, and not yet visited";
  EXPECT_EQ(store_->run("far")->wanted, runs::Wanted::Observe);
}

class HungTest : public ScheduleTest {
 protected:
  HungTest() {
    add("dead");
    add("live");
    open();  // finds them in its store
    rounds();
    EXPECT_EQ(scheduler_.launches.size(), 2U);
  }
  std::string handle(const std::string& id) {
    return store_->launches(store_->run(id)->number).back().handle;
  }
  // In place of the fixture's controller, with what is done beside its loop; all is adopted.
  void open_with(double cancel_seconds, files::SideWork::Start beside) {
    controller_.reset();
    control::ControllerOptions options;
    options.runs_directory = folder_.path() / "runs";
    options.cancel_seconds = cancel_seconds;
    options.beside = std::move(beside);
    controller_ = std::make_unique<control::Controller>(base::posix_file_system(), clock_, *store_,
                                                        scheduler_, options);
    controller_->adopt();
    for (int i = 0; i < 4; ++i) controller_->tick();
    ASSERT_TRUE(controller_->adoption().done);
  }
};

TEST_F(HungTest, CostsItsOwnRunOnly) {
  hung = {"dead"};
  JournalAuthor journal(directory("live"), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 1);
  rounds();
  EXPECT_EQ(state("live"), runs::RunState::Running);
  EXPECT_EQ(store_->run("live")->summary.step, 1);
  journal.end(2, 0);
  scheduler_.end(handle("live"), 0);
  rounds();
  EXPECT_EQ(state("live"), runs::RunState::Succeeded);
  EXPECT_EQ(state("dead"), runs::RunState::Starting);
  const auto of_dead = std::count_if(waiting_.begin(), waiting_.end(), [](const auto& work) {
    return work.first.filename() == "dead";
  });
  EXPECT_EQ(of_dead, 1) << "one at a time";
}

TEST_F(HungTest, ItsRunCanBeEndedAllTheSame) {
  hung = {"dead"};
  rounds();
  store_->set_wanted(store_->run("dead")->number, runs::Wanted::Cancel);
  open();  // as good as being told
  clock_.now += 10;
  rounds();
  clock_.now += 10;
  rounds();
  EXPECT_THAT(scheduler_.stopped, testing::Contains(handle("dead")));
  EXPECT_EQ(state("dead"), runs::RunState::Stopping);
}

// A cancellation waits a while for a directory to note it.
TEST_F(HungTest, WhoWaitsForItKeepsNobodyElse) {
  std::mutex mutex;
  std::vector<std::function<void()>> never;
  open_with(600, [&](const base::Path& directory, std::function<void()> work) {
    if (directory.filename() != "dead") {
      work();
    } else {
      const std::scoped_lock lock(mutex);
      never.push_back(std::move(work));
    }
    return true;
  });
  const std::size_t before = never.size();
  std::atomic<bool> over = false;
  std::jthread waits([this, &over] {
    EXPECT_TRUE(controller_->cancel("dead"));
    over = true;
  });
  ASSERT_TRUE(tests::eventually([&] {
    const std::scoped_lock lock(mutex);
    return never.size() > before;
  }));
  EXPECT_TRUE(controller_->cancel("live"));
  const std::string next = controller_->submit(tests::run_file(), "key").run.id;
  (void)controller_->submit(tests::run_file(), "other", {"live", next});
  EXPECT_FALSE(over) << "they have waited for it, or it for nobody";
  std::vector<std::function<void()>> works;
  {
    const std::scoped_lock lock(mutex);
    works.swap(never);
  }
  for (const auto& work : works) work();
  waits.join();
  EXPECT_EQ(store_->run("dead")->wanted, runs::Wanted::Cancel);
  controller_.reset();
}

TEST_F(HungTest, ACancellationWaitsTwoSecondsForItAndCountsAllTheSame) {
  bool dead = false;
  std::vector<std::function<void()>> never;
  open_with(control::ControllerOptions().cancel_seconds,
            [&](const base::Path&, std::function<void()> work) {
              if (dead) {
                never.push_back(std::move(work));
              } else {
                work();
              }
              return true;
            });
  dead = true;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(controller_->cancel("dead"));
  EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 2);
  EXPECT_EQ(store_->run("dead")->wanted, runs::Wanted::Cancel);
  controller_.reset();
}

TEST_F(HungTest, ItsEndIsNoLossOfItsRun) {
  hung = {"dead"};
  rounds();
  scheduler_.end(handle("dead"), 0);
  for (int i = 0; i < 5; ++i) {
    clock_.now += 60;
    rounds();
  }
  EXPECT_FALSE(runs::is_over(state("dead"))) << "nobody knows what its journal says";
  JournalAuthor journal(directory("dead"), clock_.utc_seconds());
  journal.start(0.1);
  journal.end(1, 0);
  hung.clear();
  rounds(8);
  EXPECT_EQ(state("dead"), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

TEST_F(HungTest, WhatIsRefusedIsTriedAgain) {
  scheduler_.end(handle("dead"), 20);
  refuses = true;
  open();
  rounds();
  EXPECT_EQ(state("dead"), runs::RunState::Starting);
  EXPECT_FALSE(controller_->adoption().done);
  refuses = false;
  rounds(8);
  EXPECT_EQ(state("dead"), runs::RunState::Failed);
  EXPECT_TRUE(controller_->adoption().done);
}

TEST_F(ScheduleTest, NothingIsStartedBeforeTheRunsDirectoryWasRead) {
  hung = {"old"};
  const auto made = trainer::contract::RunDirectory::create(
      base::posix_file_system(), folder_.path() / "runs" / "old", tests::run_file());
  JournalAuthor journal(made, clock_.utc_seconds());
  journal.start(0.1);
  add("new");
  open(1);
  rounds();
  EXPECT_TRUE(scheduler_.launches.empty()) << "the old one may have the only place";
  EXPECT_FALSE(controller_->adoption().done);
  EXPECT_EQ(controller_->adoption().found, 1);
  clock_.now += 60;
  rounds();
  EXPECT_EQ(scheduler_.launches.size(), 1U) << "nobody waits for ever for one that hangs";
}

// The store is lost, and the runs directory takes its time.
TEST_F(ScheduleTest, NoRunIsShownAsQueuedForBeingReadLate) {
  const std::string id = add("works");
  const trainer::contract::RunDirectory works = directory(id);
  runs::Launch launch;
  launch.number = 1;
  launch.token = "0123456789abcdef";
  launch.handle = "h1";
  runs::write_launch(base::posix_file_system(), works.path(), launch);
  runs::write_submission(base::posix_file_system(), works.path(),
                         {id, 1, runs::Wanted::Run, std::nullopt, ""});
  scheduler_.reports["h1"] = {runs::ProcessState::Running, std::nullopt, std::nullopt};
  controller_.reset();
  store_.reset();
  std::filesystem::remove_all(folder_.path() / "state");
  store_ = std::make_unique<store::Store>(folder_.path() / "state");
  open();
  int seen = 0;
  for (int step = 0; step < 40; ++step) {
    controller_->tick();
    if (!waiting_.empty()) {  // one after the other, and a look in between
      waiting_.front().second();
      waiting_.pop_front();
    }
    const auto run = store_->run(id);
    if (!run) continue;
    ++seen;
    EXPECT_EQ(run->state, runs::RunState::Starting) << "at look " << seen;
  }
  EXPECT_GT(seen, 10);
  EXPECT_TRUE(scheduler_.launches.empty());
}

TEST_F(ScheduleTest, AKeyWaitsUntilItsRunMayBeKnown) {
  hung = {"old"};
  (void)trainer::contract::RunDirectory::create(base::posix_file_system(),
                                                folder_.path() / "runs" / "old", tests::run_file());
  open();
  controller_->tick();
  const auto submit = [&] { return controller_->submit(tests::run_file(), "key").run.id; };
  try {
    (void)submit();
    FAIL() << "its run may be among those that are not read";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Retry);
    EXPECT_THAT(error.what(), HasSubstr("still being read"));
  }
  EXPECT_TRUE(store_->ids().empty());
}

// Places that come free together are given together: a reading of each directory takes a round.
TEST_F(ScheduleTest, AllFreePlacesAreGivenAtOnce) {
  constexpr int kPlaces = 8;
  open(kPlaces);
  for (int i = 0; i < 3 * kPlaces; ++i) {
    add("run-" + std::to_string(i));
    clock_.now += 0.01;
  }
  open(kPlaces);
  rounds(8);
  ASSERT_EQ(scheduler_.launches.size(), std::size_t{kPlaces});
  for (int i = 0; i < kPlaces; ++i) scheduler_.end("h" + std::to_string(i + 1), 0);
  int taken = 0;  // rounds since the places came free
  for (int round = 0; round < 200 && scheduler_.launches.size() < 2 * kPlaces; ++round) {
    controller_->round(clock_.now + 1e9);
    while (!waiting_.empty()) {
      waiting_.front().second();
      waiting_.pop_front();
    }
    clock_.now += 0.01;
    if (scheduler_.launches.size() > kPlaces) ++taken;
  }
  EXPECT_EQ(scheduler_.launches.size(), std::size_t{2 * kPlaces});
  EXPECT_LE(taken, 4);
  std::set<std::string> started;
  for (const runs::LaunchRequest& launch : scheduler_.launches) {
    started.insert(launch.run_directory.filename().string());
  }
  for (int i = 0; i < 2 * kPlaces; ++i) EXPECT_EQ(started.count("run-" + std::to_string(i)), 1U);
}

// A place is free again, and the run that comes first has a directory that hangs.
TEST_F(ScheduleTest, OneThatHangsLetsOthersHaveThePlace) {
  add("busy");
  clock_.now += 1;
  add("dead");
  clock_.now += 1;
  add("next");
  open(1);
  rounds(8);
  ASSERT_EQ(scheduler_.launches.size(), 1U);
  hung = {"dead"};
  rounds();
  scheduler_.end("h1", 0);
  rounds();
  EXPECT_EQ(state("busy"), runs::RunState::Succeeded);
  EXPECT_EQ(scheduler_.launches.size(), 1U) << "it comes first, and may answer yet";
  clock_.now += 10;
  rounds();
  EXPECT_EQ(state("next"), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
}

// Nobody was told of the run, so nothing of it is left.
TEST_F(ScheduleTest, ADirectoryThatComesTooLateIsRemoved) {
  open(1, 0.5);
  try {
    (void)controller_->submit(tests::run_file(), std::nullopt);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Retry);
  }
  ASSERT_EQ(waiting_.size(), 2U) << "its data was looked at, too";
  waiting_.back().second();
  EXPECT_FALSE(std::filesystem::exists(waiting_.back().first));
  EXPECT_TRUE(store_->unfinished_runs().empty());
}

TEST_F(ScheduleTest, ManyThatHangLeaveRoomForTheRest) {
  constexpr int kHung = 100;  // more than are read at once
  for (int i = 0; i < kHung; ++i) hung.insert(add("dead-" + std::to_string(i)));
  add("live");
  open();
  for (int i = 0; i < 5; ++i) {
    rounds();
    clock_.now += 10;
  }
  EXPECT_EQ(state("live"), runs::RunState::Starting);
}

// Old ones cost nothing, and of those that are open each has its turn.
TEST(Schedule, VisitsEachOpenRunAboutOnceAMillisecondOfThem) {
  const tests::TemporaryDirectory folder;
  tests::SimulatedClock clock;
  tests::ScriptedScheduler scheduler;
  store::Store store(folder.path() / "state");
  std::map<std::string, int> visits;
  control::ControllerOptions options;
  options.runs_directory = folder.path() / "runs";
  options.parallel = 1000;
  options.beside = [&](const base::Path& directory, const std::function<void()>& work) {
    ++visits[directory.filename().string()];
    work();
    return true;
  };
  constexpr int kOpen = 400;
  for (int i = 0; i < kOpen; ++i) {
    store::NewRun run;
    run.id = run.name = "run-" + std::to_string(i);
    run.config = "{}";
    run.wanted = runs::Wanted::Observe;
    run.state = runs::RunState::Starting;
    run.directory = (options.runs_directory / run.id).string();
    runs::Launch launch;
    launch.number = 1;
    launch.handle = "h";
    store.put_launch(store.add_run(run), launch);
    std::filesystem::create_directories(base::Path(run.directory) / "attempts");
    tests::write_file(base::Path(run.directory) / "run.json", "{}");
  }
  scheduler.reports["h"] = {runs::ProcessState::Running, std::nullopt, std::nullopt};
  control::Controller controller(base::posix_file_system(), clock, store, scheduler, options);
  controller.tick();
  visits.clear();
  const double begin = clock.now;
  while (clock.now < begin + 8) {
    controller.round(clock.now + 1);
    clock.now += 0.01;
  }
  int least = 1000, most = 0;
  for (const orchestrator::runs::Run& run : store.unfinished_runs()) {
    least = std::min(least, visits[run.id]);
    most = std::max(most, visits[run.id]);
  }
  EXPECT_GE(least, 15) << "8 s are 20 times 0.4 s";
  EXPECT_LE(most, 22);
}

}  // namespace
}  // namespace regatta::orchestrator
