// `regatta submit --after`: a run begins when the runs that it names have succeeded.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/api/explain.h"
#include "orchestrator/control/dependencies.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::JournalAuthor;
using Names = std::vector<std::string>;

class AfterTest : public ControllerFixture {
 protected:
  AfterTest() : ControllerFixture(2) {}

  std::string submit_after(const Names& after) {
    return controller_->submit(tests::run_file(), std::nullopt, after).run.id;
  }
  // The launch of this run, in the order of launches.
  std::string handle_of(const std::string& id) {
    for (std::size_t i = 0; i < scheduler_.launches.size(); ++i) {
      if (scheduler_.launches[i].run_directory == base::Path(run(id).directory)) {
        return "h" + std::to_string(i + 1);
      }
    }
    return "";
  }
  void end(const std::string& id, int code) {
    scheduler_.end(handle_of(id), code);
    ticks(4);
  }
  std::size_t directories() const {
    std::size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator(folder_.path() / "runs")) {
      count += each.is_directory() ? 1 : 0;
    }
    return count;
  }
};

TEST_F(AfterTest, BeginsWhenTheOthersHaveSucceeded) {
  const std::string first = submit();
  const std::string second = submit();
  const std::string last = submit_after({first, second, first});
  EXPECT_EQ(run(last).after, (Names{first, second}));
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  JournalAuthor journal(directory(first), clock_.utc_seconds());
  journal.start(0.1);
  journal.step(1, 41);
  ticks();
  clock_.now += 5;
  ticks();
  EXPECT_EQ(run(last).reason,
            "waits for " + first + ", which is training (step 41 of 100), and for 1 more run");
  EXPECT_EQ(run(last).wait.category, "dependency");
  EXPECT_EQ(run(last).wait.clears, "by itself");
  end(first, 0);
  ASSERT_EQ(state(first), runs::RunState::Succeeded);
  EXPECT_THAT(run(last).reason, HasSubstr("waits for " + second + ", which is starting"));
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  end(second, 0);
  EXPECT_EQ(state(last), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 3U);
  ticks(20);
  EXPECT_EQ(scheduler_.launches.size(), 3U) << "once";
  // Nothing is left to wait for.
  const std::string later = submit_after({last, first});
  end(last, 0);
  EXPECT_EQ(state(later), runs::RunState::Starting);
}

// A client that lost the answer asks again, perhaps much later.
TEST_F(AfterTest, TheSameKeyIsTheSameRunWhateverBecameOfTheOthers) {
  const std::string first = submit();
  ticks();
  const auto ask = [&] { return controller_->submit(tests::run_file(), "key", {first}); };
  const std::string second = ask().run.id;
  end(first, 0);
  ASSERT_EQ(state(second), runs::RunState::Starting);
  (void)controller_->remove(first, {});
  const auto again = ask();
  EXPECT_EQ(again.run.id, second);
  EXPECT_FALSE(again.created);
}

TEST_F(AfterTest, TakesNoPlaceWhileItWaits) {
  const std::string first = submit();
  ticks();
  for (int i = 0; i < 5; ++i) (void)submit_after({first});
  const std::string free = submit();
  ticks();
  EXPECT_EQ(state(free), runs::RunState::Starting);
  EXPECT_EQ(scheduler_.launches.size(), 2U);
  end(first, 0);
  EXPECT_EQ(scheduler_.launches.size(), 3U) << "one place is free for five";
}

struct Otherwise {
  const char* name;
  int code;
  bool cancel;
  const char* words;
};
class EndsOtherwise : public AfterTest, public testing::WithParamInterface<Otherwise> {};
TEST_P(EndsOtherwise, WaitsForAResume) {
  const std::string first = submit();
  const std::string last = submit_after({first});
  ticks();
  if (GetParam().cancel) controller_->cancel(first);
  ticks();
  end(first, GetParam().code);
  ASSERT_TRUE(runs::is_over(state(first)));
  EXPECT_EQ(state(last), runs::RunState::Queued);
  EXPECT_EQ(run(last).reason, "waits for " + first + ", which " + GetParam().words +
                                  "; this run will not begin unless that one goes on and succeeds");
  EXPECT_EQ(run(last).wait.action,
            "`regatta resume " + first + "`, or `regatta cancel " + last + "`");
  EXPECT_EQ(run(last).wait.clears, "never");
  const api::RunParts parts = api::read_parts(*store_, run(last).number);
  EXPECT_THAT(api::explain_text(api::explain_json(run(last), parts, {}, std::nullopt, 0)),
              HasSubstr("now     it waits for " + first));
  controller_->resume(first);
  ticks();
  EXPECT_EQ(run(last).wait.clears, "by itself");
  scheduler_.end("h2", 0);
  ticks(4);
  EXPECT_EQ(state(first), runs::RunState::Succeeded);
  EXPECT_EQ(state(last), runs::RunState::Starting);
}
INSTANTIATE_TEST_SUITE_P(Controller, EndsOtherwise,
                         testing::Values(Otherwise{"stopped", 24, false, "was stopped"},
                                         Otherwise{"cancelled", 24, true, "was cancelled"},
                                         Otherwise{"failed", 20, false, "failed"}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(AfterTest, OutlivesTheControllerAndItsStore) {
  for (const bool store_is_lost : {false, true}) {
    const std::string first = submit();
    const std::string last = submit_after({first});
    ticks();
    const std::size_t launches = scheduler_.launches.size();
    if (store_is_lost) {
      lose_the_store();
    } else {
      close();
      open();
    }
    ticks(4);
    EXPECT_EQ(run(last).after, Names{first}) << store_is_lost;
    EXPECT_EQ(state(last), runs::RunState::Queued) << store_is_lost;
    EXPECT_EQ(scheduler_.launches.size(), launches);
    end(first, 0);
    EXPECT_EQ(state(last), runs::RunState::Starting) << store_is_lost;
    end(last, 0);
  }
}

TEST_F(AfterTest, SaysThatWhatItWaitsForWasRemoved) {
  const std::string first = submit();
  const std::string last = submit_after({first});
  ticks();
  end(first, 20);
  store_->remove_run(run(first));
  std::filesystem::remove_all(folder_.path() / "runs" / first);
  for (const bool store_is_lost : {false, true}) {
    if (store_is_lost) lose_the_store();
    ticks(4);
    EXPECT_EQ(state(last), runs::RunState::Queued);
    EXPECT_EQ(run(last).reason,
              "waits for " + first + ", which was removed, so this run will never begin");
    EXPECT_EQ(run(last).wait.action, "`regatta cancel " + last + "`");
  }
  controller_->cancel(last);
  ticks(4);
  EXPECT_EQ(state(last), runs::RunState::Cancelled);
}

TEST_F(AfterTest, CancelledItWaitsAgainWhenItIsResumed) {
  const std::string first = submit();
  const std::string last = submit_after({first});
  ticks();
  controller_->cancel(last);
  ticks(4);
  ASSERT_EQ(state(last), runs::RunState::Cancelled);
  controller_->resume(last);
  ticks(4);
  EXPECT_EQ(state(last), runs::RunState::Queued);
  EXPECT_EQ(scheduler_.launches.size(), 1U);
  end(first, 0);
  EXPECT_EQ(state(last), runs::RunState::Starting);
}

TEST_F(AfterTest, WhatHasBegunGoesOn) {
  const std::string first = submit();
  const std::string last = submit_after({first});
  ticks();
  end(first, 0);
  store_->remove_run(run(first));
  scheduler_.end(handle_of(last), 22);  // to be started again
  ticks(4);
  clock_.now += 100;
  ticks(4);
  EXPECT_EQ(scheduler_.launches.size(), 3U);
}

TEST_F(AfterTest, RefusesWhatCannotBeWaitedFor) {
  const std::string first = submit();
  const auto code = [&](const Names& after, const std::optional<std::string>& key = {}) {
    try {
      (void)controller_->submit(tests::run_file(), key, after);
      return base::Code::Developer;
    } catch (const base::Error& error) {
      return error.code();
    }
  };
  EXPECT_EQ(code({first, "nobody"}), base::Code::NotFound);
  EXPECT_EQ(code(Names(control::kMostAfter + 1, first)), base::Code::User);
  EXPECT_EQ(directories(), 1U);
  const auto made = controller_->submit(tests::run_file(), "key", {first});
  EXPECT_EQ(controller_->submit(tests::run_file(), "key", {first}).run.id, made.run.id);
  EXPECT_EQ(controller_->submit(tests::run_file(), "key", {first, first}).run.id, made.run.id);
  EXPECT_EQ(code({}, "key"), base::Code::Conflict);
  EXPECT_EQ(code({made.run.id}, "key"), base::Code::Conflict);
  EXPECT_EQ(directories(), 2U);
  // A name stands for the only run that has it.
  EXPECT_EQ(code({"demo"}), base::Code::NotFound) << "two runs have it";
}

TEST(Blockage, NamesFirstWhatNeedsSomebody) {
  const auto made = [](const std::string& id, runs::RunState state) {
    orchestrator::runs::Run run;
    run.id = id;
    run.state = state;
    return run;
  };
  const orchestrator::runs::Run run = made("mine", runs::RunState::Queued);
  const control::Dependency done{"done", made("done", runs::RunState::Succeeded)};
  const control::Dependency queued{"queued", made("queued", runs::RunState::Queued)};
  const control::Dependency failed{"failed", made("failed", runs::RunState::Failed)};
  const control::Dependency gone{"gone", std::nullopt};
  const control::Dependency unread{"unread", std::nullopt, true};
  EXPECT_FALSE(control::blockage_of(run, {}));
  EXPECT_FALSE(control::blockage_of(run, {done, done}));
  EXPECT_EQ(control::blockage_of(run, {done, queued})->reason, "waits for queued, which is queued");
  EXPECT_EQ(control::blockage_of(run, {unread, queued})->reason,
            "waits for unread, which has not been read yet, and for 1 more run");
  EXPECT_THAT(control::blockage_of(run, {queued, failed, done})->reason,
              HasSubstr("waits for failed, which failed; this run will not begin"));
  EXPECT_THAT(control::blockage_of(run, {queued, failed, gone})->reason,
              HasSubstr("waits for gone, which was removed, so this run will never begin, and for "
                        "2 more runs"));
  control::Dependency resumed = failed;
  resumed.run->wanted = runs::Wanted::Resume;
  EXPECT_EQ(control::blockage_of(run, {resumed})->reason, "waits for failed, which is queued");
}

}  // namespace
}  // namespace regatta::orchestrator
