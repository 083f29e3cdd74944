// What is asked of the controller for a sweep, and what is asked again after whatever went wrong.
#include <gmock/gmock.h>

#include "tests/orchestrator/control/sweep_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;

class SweepDriverTest : public SweepFixture {};

TEST_F(SweepDriverTest, AGridIsOneRunForEachPoint) {
  const std::string id = submit_sweep(grid(2));
  const auto record = play(id);
  EXPECT_EQ(record->state, SweepState::Done);
  ASSERT_EQ(record->trials.size(), 7U);
  EXPECT_EQ(most_at_once_, 2U);
  EXPECT_EQ(all_runs().size(), 7U);
  for (const TrialRecord& trial : record->trials) {
    EXPECT_EQ(trial.state, TrialState::Finished);
    const runs::Run made = run(trial.run);
    EXPECT_EQ(made.owner, "uid 7");
    EXPECT_THAT(made.tags, testing::ElementsAre("sweep-" + id));
    EXPECT_EQ(made.name, "rates-t" + std::to_string(trial.number));
    EXPECT_NEAR(rate(trial), 0.1 + 0.05 * (trial.number - 1), 1e-12);
    ASSERT_EQ(trial.reports.size(), 1U);
    EXPECT_NEAR(trial.reports[0].objective, 0.4 - std::abs(rate(trial) - 0.3) + 0.009, 1e-12);
    EXPECT_GT(trial.started_utc, 1.6e9);
    EXPECT_GT(trial.ended.value_or(0), trial.started_utc);
  }
  EXPECT_EQ(best_of(*record), 5);
  EXPECT_EQ(events("sweep.submitted").at(0).by, "uid 7");
  EXPECT_EQ(events("sweep.done").at(0).words, id);
}

TEST_F(SweepDriverTest, AshaPromotesBySteps) {
  const std::string id = submit_sweep(asha());
  const auto record = play(id);
  EXPECT_EQ(record->trials.size(), 27U);
  EXPECT_EQ(most_at_once_, 4U);
  EXPECT_EQ(all_runs().size(), 27U) << "a promoted trial goes on in its run";
  std::map<std::size_t, int> reports;
  for (const TrialRecord& trial : record->trials) {
    EXPECT_EQ(trial.state, TrialState::Finished) << trial.number << trial.reason;
    ++reports[trial.reports.size()];
    const std::int64_t steps = run(trial.run).summary.step;
    EXPECT_EQ(steps, trial.goal);
    EXPECT_EQ(attempts_[trial.run], static_cast<int>(trial.reports.size()));
    for (const sweeps::TrialReport& each : trial.reports) {
      const double expected =
          0.4 - std::abs(rate(trial) - 0.3) + static_cast<double>(each.budget) * 1e-4;
      EXPECT_NEAR(each.objective, expected, 1e-12) << trial.number << " at " << each.budget;
    }
    // The rate falls as it does over the last rung's steps, at every rung.
    EXPECT_EQ(trainer::contract::parse_run_config(run(trial.run).config, "r").optimizer.decay_steps,
              90);
  }
  EXPECT_GE(reports[2] + reports[3], 9);
  EXPECT_GE(reports[3], 3);
  // Objectives keep their order from rung to rung, so the best is the best.
  double best = 1;
  for (const TrialRecord& trial : record->trials)
    best = std::min(best, std::abs(rate(trial) - 0.3));
  EXPECT_EQ(std::abs(rate(record->trials.at(static_cast<std::size_t>(best_of(*record) - 1))) - 0.3),
            best);
}

// Whoever is killed after any of its writes goes on as if nothing had been.
TEST_F(SweepDriverTest, OneThatIsKilledAgainAndAgainMakesNoRunTwice) {
  const std::string first = submit_sweep(asha());
  const auto undisturbed = play(first);
  const std::size_t runs_before = all_runs().size();
  const std::string second = submit_sweep(asha());
  const auto record = play(second, by_rate, [&](int i) {
    if (i % 2 == 0) restart();
  });
  EXPECT_EQ(all_runs().size(), runs_before + 27);
  ASSERT_EQ(record->trials.size(), undisturbed->trials.size());
  for (std::size_t i = 0; i < record->trials.size(); ++i) {
    EXPECT_EQ(record->trials[i].values, undisturbed->trials[i].values);
    EXPECT_EQ(record->trials[i].reports.front().objective,
              undisturbed->trials[i].reports.front().objective);
  }
  EXPECT_EQ(best_of(*record), best_of(*undisturbed));
}

// Every operation on the sweep's file fails once, and then for a while, in turn.
TEST_F(SweepDriverTest, ADiskThatFailsDelaysAndLosesNothing) {
  for (int n = 1; n <= 12; ++n) {
    const std::size_t before = all_runs().size();
    const std::string id = submit_sweep(grid(3));
    files_.fail_at(n, n % 2 == 0 ? tests::Fault::Once : tests::Fault::ForEver);
    int rounds = 0;
    const auto record = play(id, by_rate, [&](int) {
      if (++rounds == 3) files_.heal();
      if (rounds == 4) restart();
    });
    EXPECT_EQ(record->state, SweepState::Done) << n;
    EXPECT_EQ(all_runs().size(), before + 7) << n;
  }
}

TEST_F(SweepDriverTest, WhatIsNotWrittenIsNotBegun) {
  const std::string id = submit_sweep(grid(3));
  files_.fail_at(1, tests::Fault::ForEver);
  for (int i = 0; i < 3; ++i) driver_->step();
  EXPECT_TRUE(all_runs().empty());
  EXPECT_THAT(driver_->trouble(id), HasSubstr("operation"));
  files_.heal();
  driver_->step();
  EXPECT_EQ(all_runs().size(), 3U);
  EXPECT_EQ(driver_->trouble(id), "");
  // The runs are there, and their ids are not written: the next one asks by the same keys.
  const auto known = all_runs();
  (void)play(id, by_rate, [&](int i) {
    if (i == 0) files_.fail_at(1, tests::Fault::ForEver);
    if (i == 1) {
      files_.heal();
      restart();
    }
  });
  EXPECT_EQ(all_runs().size(), 7U);
  for (const std::string& each : known) EXPECT_EQ(all_runs().count(each), 1U);
}

TEST_F(SweepDriverTest, ALostStoreIsReadAgain) {
  const std::string id = submit_sweep(grid(3));
  const auto record = play(id, by_rate, [&](int i) {
    if (i != 1) return;
    driver_.reset();
    lose_the_store();
    ticks(5);
    begin();
  });
  EXPECT_EQ(record->state, SweepState::Done);
  EXPECT_EQ(all_runs().size(), 7U);
  EXPECT_EQ(best_of(*record), 5);
}

TEST_F(SweepDriverTest, RunsThatSomebodyCancelsOrRemovesHaveFailed) {
  const std::string id = submit_sweep(grid(2));
  hold_ = true;
  round(by_rate);
  (void)controller_->cancel(sweep(id)->trials[0].run, "uid 8");
  const auto record = play(id, by_rate, [&](int i) {
    if (i == 1) hold_ = false;
    if (i != 0) return;
    const std::string second = sweep(id)->trials[1].run;
    (void)controller_->cancel(second);
    for (int k = 0; k < 4; ++k) {
      ticks(3);
      train(by_rate);
    }
    (void)controller_->remove(second, {});
  });
  EXPECT_EQ(record->trials[0].state, TrialState::Failed);
  EXPECT_EQ(record->trials[0].reason, "its run was cancelled");
  EXPECT_EQ(record->trials[1].state, TrialState::Failed);
  EXPECT_EQ(record->trials[1].reason, "its run was removed");
  EXPECT_EQ(record->state, SweepState::Done);
  EXPECT_EQ(best_of(*record), 5);
}

TEST_F(SweepDriverTest, AStopEndsItsRunsAndBeginsNone) {
  const std::string id = submit_sweep(grid(2));
  hold_ = true;
  round(by_rate);
  EXPECT_THROW(driver_->remove(id, ""), base::Error);
  EXPECT_TRUE(driver_->stop(id, "uid 9"));
  EXPECT_FALSE(driver_->stop(id, "uid 9"));
  try {
    driver_->remove(id, "");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is stopping; try again"));
  }
  const auto record = play(id);
  EXPECT_EQ(record->state, SweepState::Stopped);
  ASSERT_EQ(record->trials.size(), 2U);
  for (const TrialRecord& trial : record->trials) {
    EXPECT_EQ(trial.state, TrialState::Finished);
    EXPECT_EQ(trial.reason, "the sweep was stopped");
    EXPECT_EQ(run(trial.run).state, runs::RunState::Cancelled);
  }
  EXPECT_EQ(events("sweep.stop_asked").at(0).by, "uid 9");
  EXPECT_FALSE(driver_->stop(id, ""));
  driver_->remove(id, "uid 9");
  EXPECT_THROW((void)driver_->find(id), base::Error);
  EXPECT_EQ(all_runs().size(), 2U);
  restart();
  EXPECT_TRUE(driver_->all().empty());
}

// Asked for and not answered when it is stopped: it is found by its key.
TEST_F(SweepDriverTest, AStopFindsRunsWhoseIdsWereNotWritten) {
  hold_ = true;
  bool found = false;
  for (int n = 1; n <= 20 && !found; ++n) {
    const std::size_t before = all_runs().size();
    const std::string id = submit_sweep(grid(2));
    files_.fail_at(n, tests::Fault::ForEver);
    driver_->step();
    files_.heal();
    const std::size_t begun = all_runs().size() - before;
    found = begun == 2 && sweep(id)->trials.at(0).run.empty();
    EXPECT_TRUE(driver_->stop(id, ""));
    EXPECT_EQ(play(id)->state, SweepState::Stopped);
    EXPECT_EQ(all_runs().size(), before + begun) << n;
    EXPECT_TRUE(open_runs().empty()) << n;
  }
  EXPECT_TRUE(found) << "no write failed between a run and its id";
}

// A sweep that asks for thousands of runs leaves others their turn, and stops when it is told.
TEST_F(SweepDriverTest, AskingForManyRunsIsDoneInParts) {
  std::string text = asha();
  text.replace(text.find("trials: 27"), 10, "trials: 90");
  text.replace(text.find("concurrency: 4"), 14, "concurrency: 90");
  const std::string large = submit_sweep(text);
  const std::string small = submit_sweep(grid(2));
  EXPECT_TRUE(driver_->step());
  EXPECT_EQ(all_runs().size(), 16U + 2);
  EXPECT_TRUE(driver_->stop(large, ""));
  (void)driver_->step();
  EXPECT_EQ(all_runs().size(), 16U + 2);
  EXPECT_EQ(sweep(small)->trials.size(), 2U);
}

TEST_F(SweepDriverTest, SweepsThatCannotBeReadSayWhy) {
  (void)submit_sweep(grid(1));
  driver_.reset();
  const base::Path directory = control::sweeps_directory(folder_.path() / "runs");
  std::filesystem::rename(directory, folder_.path() / "away");
  tests::write_file(directory, "no directory");
  begin();
  try {
    (void)driver_->all();
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(), HasSubstr("the sweeps cannot be read: "));
  }
  EXPECT_THAT(driver_->faults(), testing::Contains(HasSubstr("cannot be read")));
  std::filesystem::remove(directory);
  std::filesystem::rename(folder_.path() / "away", directory);
  driver_->step();
  EXPECT_EQ(driver_->all().size(), 1U);
  EXPECT_TRUE(driver_->faults().empty());
}

TEST_F(SweepDriverTest, WhatNoRunCouldBeginWithIsRefused) {
  const std::string text = "from: {run: nobody}\n" + grid(1);
  try {
    (void)driver_->submit(text, std::nullopt, "");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::NotFound) << error.what();
  }
  EXPECT_TRUE(driver_->all().empty());
}

// Each trial would fail by it.
TEST_F(SweepDriverTest, PathsThatAreNotAbsoluteAreRefused) {
  const auto refused = [&](const std::string& text) {
    try {
      (void)driver_->preview(text);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("is not absolute"));
      return error.key();
    }
    return std::string();
  };
  const std::string good = grid(1) + "    data.path: {kind: choice, values: [/a, /b]}\n";
  EXPECT_EQ(refused(good), "");
  std::string bad = good;
  bad.replace(bad.find("/b"), 2, "./b");
  EXPECT_EQ(refused(bad), "sweep.parameters.data.path");
  bad = good;
  bad.replace(bad.find("/nowhere"), 8, "nowhere");
  EXPECT_EQ(refused(bad), "data.path");
  EXPECT_EQ(refused("from: a/model\n" + good), "from.path");
  // A text alone is a run's name, as in a run's file.
  EXPECT_EQ(driver_->preview("from: base\n" + good).file.run.from->run, "base");
}

// As of a run, what this machine does not see is told, and looked at in all datasets.
TEST_F(SweepDriverTest, ADatasetThatIsNotThereIsTold) {
  const auto accepted =
      driver_->submit(grid(1) + "    data.path: {kind: choice, values: [/nowhere/a, /nowhere/b]}\n",
                      std::nullopt, "");
  EXPECT_THAT(accepted.doubts, testing::ElementsAre(HasSubstr("no dataset in /nowhere/a"),
                                                    HasSubstr("no dataset in /nowhere/b")));
  std::vector<std::string> missing;
  for (const control::PreviewCheck& check : driver_->check(*accepted.sweep)) {
    if (check.name == "dataset" && check.good == false) missing.push_back(check.detail);
  }
  EXPECT_EQ(missing, accepted.doubts);
  EXPECT_THAT(driver_->submit(grid(1), std::nullopt, "").doubts,
              testing::ElementsAre(HasSubstr("no dataset in /nowhere ")));
}

TEST_F(SweepDriverTest, ARunThatWasRemovedIsSaid) {
  const std::string id = submit_sweep(grid(2));
  const auto record = play(id);
  const std::string best = record->trials.at(4).run;
  EXPECT_EQ(driver_->run_state(best), "succeeded");
  (void)controller_->remove(best, {});
  EXPECT_EQ(driver_->run_state(best), "removed");
  // What it had reached is as true as before.
  EXPECT_EQ(best_of(*sweep(id)), 5);
}

TEST_F(SweepDriverTest, OneKeyIsOneSweep) {
  const auto first = driver_->submit(grid(1), "key-1", "uid 7");
  EXPECT_TRUE(first.created);
  restart();
  const auto again = driver_->submit(grid(1), "key-1", "uid 7");
  EXPECT_FALSE(again.created);
  EXPECT_EQ(again.sweep->id, first.sweep->id);
  try {
    (void)driver_->submit(grid(2), "key-1", "uid 7");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
  }
  (void)controller_->submit(tests::run_file(), "key-2");
  EXPECT_THROW((void)driver_->submit(grid(1), "key-2", ""), base::Error);
}

TEST_F(SweepDriverTest, IsFoundByIdAndByName) {
  const std::string id = submit_sweep(grid(1));
  EXPECT_EQ(driver_->find("rates")->id, id);
  const auto problem = [&](const std::string& name) {
    try {
      (void)driver_->find(name);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::NotFound);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(problem("rate"), HasSubstr("did you mean 'rates'?"));
  EXPECT_THAT(problem("\x1b[1m"), HasSubstr("no sweep '\\x1b[1m'"));
  (void)submit_sweep(grid(1));
  EXPECT_THAT(problem("rates"), HasSubstr("several sweeps are called 'rates'"));
}

TEST_F(SweepDriverTest, DamagedFilesAreLeftOut) {
  const std::string good = submit_sweep(grid(1));
  const base::Path directory = control::sweeps_directory(folder_.path() / "runs");
  const std::string text = base::posix_file_system().read(directory / (good + ".json"), 1 << 20);
  int number = 0;
  for (const std::string& damaged :
       {std::string("{"), std::string("[]"), std::string(""), std::string(100000, '['),
        text.substr(0, text.size() / 2), std::string("{\"format\": 2}"),
        std::string("{\"format\": \"\\u001b\"}")}) {
    tests::write_file(directory / ("bad-" + std::to_string(++number) + ".json"), damaged);
  }
  tests::write_file(directory / "copy.json", text);  // of another's name
  tests::write_file(directory / (good + ".json.tmp-0badcafe"), "{");
  std::filesystem::create_directory(directory / "folder.json");
  restart();
  EXPECT_FALSE(std::filesystem::exists(directory / (good + ".json.tmp-0badcafe")));
  ASSERT_EQ(driver_->all().size(), 1U);
  EXPECT_EQ(driver_->all()[0]->id, good);
  EXPECT_EQ(driver_->faults().size(), 9U);
  EXPECT_EQ(driver_->left_out(), driver_->faults());
  EXPECT_THAT(driver_->faults(), testing::Each(testing::Not(HasSubstr("json.exception"))));
  // Whoever asks for one of them learns what is wrong with it, and what to do.
  for (const char* const name : {"bad-1", "bad", "copy"}) {
    try {
      (void)driver_->find(name);
      FAIL();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Operator);
      EXPECT_THAT(error.what(), HasSubstr("json is left out: "));
      EXPECT_THAT(error.what(), HasSubstr("mend or remove the file, then start"));
    }
  }
  EXPECT_THROW((void)driver_->find("ba"), base::Error);
  EXPECT_EQ(play(good)->state, SweepState::Done);
  // As it says.
  for (int i = 1; i <= 7; ++i) {
    std::filesystem::remove(directory / ("bad-" + std::to_string(i) + ".json"));
  }
  std::filesystem::remove(directory / "copy.json");
  std::filesystem::remove(directory / "folder.json");
  restart();
  EXPECT_TRUE(driver_->faults().empty());
}

TEST(SweepRecord, IsReadBackAsItWasWritten) {
  control::SweepRecord record;
  record.id = "rates-ab12cd";
  record.created_utc = 1.7e9 + 0.125;
  record.owner = "uid 7";
  record.idempotency_key = "k";
  record.body_digest = "d";
  record.stops = true;
  record.state = SweepState::Stopped;
  record.ended_utc = 1.7e9 + 5;
  record.file = sweeps::parse_sweep_file(asha(), "a");
  control::carry_out(sweeps::StartTrial{1, {{"optimizer.learning_rate", 0.1 + 0.2}}, 10}, 5,
                     &record);
  record.trials[0].run = "rates-t1-00ff00";
  record.trials[0].reports = {{10, 0.1 + 0.2}, {30, std::nan("")}};
  control::carry_out(sweeps::StopTrial{1, sweeps::AfterStop::Keep}, 7, &record);
  EXPECT_EQ(record.trials[0].started_utc, 5);
  EXPECT_EQ(record.trials[0].ended, 7);
  const std::string text = control::text_of(record);
  const control::SweepRecord back = control::parse_sweep_record(text);
  EXPECT_EQ(control::text_of(back), text);
  EXPECT_EQ(back.trials[0].reports[0].objective, 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(back.trials[0].reports[1].objective));
  EXPECT_EQ(back.trials[0].state, TrialState::Paused);
  control::carry_out(sweeps::ContinueTrial{1, 30}, 9, &record);
  EXPECT_EQ(record.trials[0].ended, std::nullopt);
  EXPECT_EQ(record.trials[0].started_utc, 5);
}

}  // namespace
}  // namespace regatta::orchestrator
