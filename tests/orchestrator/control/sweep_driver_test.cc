// Sweeps over runs that train as told: what is asked of the controller, and what is asked again
// after whatever went wrong.
#include "orchestrator/control/sweep_driver.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/store.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {
namespace {

using control::SweepDriver;
using control::SweepState;
using control::TrialRecord;
using sweeps::TrialState;
using testing::HasSubstr;
using tests::JournalAuthor;
using trainer::contract::RunConfig;

// How a run ends.
struct Ending {
  double accuracy = 0;
  std::string reason = "steps";
  int code = 0;
  std::int64_t steps = 0;  // 0: all
};

constexpr const char* kBegin = "name: rates\nsteps: 90\ndata: {path: /nowhere}\n";
constexpr const char* kRates =
    "    optimizer.learning_rate: {kind: uniform, low: 0.1, high: 0.4, points: 7}\n";

std::string grid(int concurrency, const std::string& more = "") {
  return std::string(kBegin) + more +
         "sweep:\n  method: grid\n  concurrency: " + std::to_string(concurrency) +
         "\n  objective: {direction: maximize}\n  parameters:\n" + kRates;
}

std::string asha() {
  return std::string(kBegin) +
         "sweep:\n  method: asha\n  trials: 27\n  concurrency: 4\n"
         "  objective: {direction: maximize}\n  budget: {min: 10, max: 90, factor: 3}\n"
         "  parameters:\n" +
         kRates;
}

class SweepDriverTest : public ControllerFixture {
 protected:
  SweepDriverTest() : ControllerFixture(100) { begin(); }

  void begin() {
    control::SweepDriverOptions options;
    options.pause_seconds = 0;
    driver_ = std::make_unique<SweepDriver>(files_, clock_, *controller_, options);
    driver_->step();
  }
  // The controller and its sweeps, killed and started again.
  void restart() {
    driver_.reset();
    close();
    open();
    begin();
  }
  std::string submit_sweep(const std::string& text) {
    return driver_->submit(text, std::nullopt, "uid 7").sweep->id;
  }
  SweepDriver::Shown sweep(const std::string& id) { return driver_->find(id); }
  std::vector<store::Event> events(const std::string& kind) {
    return store_->events_after({{kind}, {}, {}, {}}, 0, 100).events;
  }

  // The accuracy of a run grows with its steps and falls with its distance from 0.3.
  static Ending by_rate(const RunConfig& config) {
    const double steps = static_cast<double>(config.steps);
    return {0.4 - std::abs(config.optimizer.learning_rate - 0.3) + steps * 1e-4};
  }
  using Trainer = std::function<Ending(const RunConfig&)>;

  std::vector<runs::Run> open_runs() {
    std::vector<runs::Run> open;
    for (const runs::Run& run : store_->unfinished_runs()) {
      if (!runs::is_over(run.state)) open.push_back(run);
    }
    return open;
  }
  // Every launch trains as far as its run file says when it is looked at.
  void train(const Trainer& trainer) {
    for (std::size_t i = 0; i < scheduler_.launches.size(); ++i) {
      const std::string handle = "h" + std::to_string(i + 1);
      if (scheduler_.reports[handle].state != runs::ProcessState::Running) continue;
      const base::Path path = scheduler_.launches[i].run_directory;
      const auto directory = trainer::contract::RunDirectory::open(base::posix_file_system(), path);
      const RunConfig config =
          trainer::contract::parse_run_config(directory.run_json(), "run.json");
      const std::string& run = path.filename();
      if (std::count(scheduler_.stopped.begin(), scheduler_.stopped.end(), handle) > 0) {
        write_attempt(directory, config, trained_[run], {0.1, "stopped", 24, trained_[run] + 1});
        scheduler_.end(handle, 24);
        continue;
      }
      if (hold_) continue;
      Ending ending = trainer(config);
      if (ending.steps == 0) ending.steps = config.steps;
      write_attempt(directory, config, trained_[run], ending);
      trained_[run] = ending.steps;
      ++attempts_[run];
      scheduler_.end(handle, ending.code);
    }
  }
  void write_attempt(const trainer::contract::RunDirectory& directory, const RunConfig& config,
                     std::int64_t from, const Ending& ending) {
    JournalAuthor journal(directory, clock_.utc_seconds());
    trainer::contract::StartRecord start;
    start.attempt = journal.name().number;
    start.execution = journal.name().execution;
    start.process = 1234;
    start.steps = config.steps;
    start.batch_size = config.batch_size;
    start.first_step = from;
    start.metric = "mlm_accuracy";
    if (config.target) start.target = config.target->value.value_or(0.5);
    journal.add(0.1, start);
    journal.step(1, ending.steps);
    trainer::contract::EvalRecord evaluation;
    evaluation.step = ending.steps;
    evaluation.mlm_accuracy = ending.accuracy;
    evaluation.target_met = ending.reason == "target";
    journal.add(2, evaluation);
    const tests::SampleCheckpoint sample(ending.steps);
    checkpoint::CheckpointStore(base::posix_file_system(), directory.checkpoints_path())
        .write(sample.contents, tests::always);
    journal.checkpoint(3, ending.steps);
    trainer::contract::EndRecord end;
    end.reason = ending.reason;
    end.exit_code = ending.code;
    end.message = ending.code == 20 ? "no such dataset" : "";
    journal.add(4, end);
  }
  void round(const Trainer& trainer) {
    driver_->step();
    ticks(2);
    most_at_once_ = std::max(most_at_once_, open_runs().size());
    train(trainer);
    clock_.now += 10;
    ticks(3);
  }
  // Until it is over.
  SweepDriver::Shown play(
      const std::string& id, const Trainer& trainer = by_rate,
      const std::function<void(int)>& each = [](int) {}) {
    for (int i = 0; i < 400 && sweep(id)->state == SweepState::Running; ++i) {
      round(trainer);
      each(i);
    }
    EXPECT_NE(sweep(id)->state, SweepState::Running) << driver_->trouble(id);
    return sweep(id);
  }
  static double rate(const TrialRecord& trial) {
    return std::get<double>(trial.values.at("optimizer.learning_rate"));
  }
  static int best_of(const control::SweepRecord& record) {
    return sweeps::best_trial(record.file.sweep.settings, control::history_of(record)).value_or(0);
  }
  std::set<std::string> all_runs() {
    const std::vector<std::string> ids = store_->ids();
    return {ids.begin(), ids.end()};
  }

  tests::FaultyFileSystem files_;
  std::unique_ptr<SweepDriver> driver_;
  bool hold_ = false;  // runs train on and on
  std::size_t most_at_once_ = 0;
  std::map<std::string, std::int64_t> trained_;  // steps, by run
  std::map<std::string, int> attempts_;
};

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

TEST_F(SweepDriverTest, AFailureIsToldAndTakesNoPartInTheRanking) {
  const std::string id = submit_sweep(grid(2));
  const auto record = play(id, [](const RunConfig& config) {
    if (config.name == "rates-t5") return Ending{0.99, "error", 20, 10};
    if (config.name == "rates-t4") return Ending{0.99, "diverged", 20, 10};
    return by_rate(config);
  });
  EXPECT_EQ(record->state, SweepState::Done);
  const TrialRecord& failed = record->trials[4];
  EXPECT_EQ(failed.state, TrialState::Failed);
  EXPECT_THAT(failed.reason, HasSubstr("no such dataset"));
  // Bad luck of its values, and not of the machine.
  const TrialRecord& diverged = record->trials[3];
  EXPECT_EQ(diverged.state, TrialState::Finished);
  EXPECT_EQ(diverged.reason, "diverged");
  EXPECT_EQ(best_of(*record), 6);
  ASSERT_EQ(events("sweep.trial_failed").size(), 1U);
  EXPECT_EQ(events("sweep.trial_failed")[0].run, failed.run);
  EXPECT_THAT(events("sweep.trial_failed")[0].words, HasSubstr("trial 5: "));
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

TEST_F(SweepDriverTest, TimeToAccuracyIsOfThoseThatMeetTheirTarget) {
  const std::string text = std::string(kBegin) + "target: {value: 0.5}\n" +
                           "sweep:\n  method: grid\n  objective: {kind: time_to_accuracy}\n"
                           "  concurrency: 7\n  parameters:\n" +
                           kRates;
  const auto record = play(submit_sweep(text), [](const RunConfig& config) {
    const bool met = config.name == "rates-t2" || config.name == "rates-t6";
    return met ? Ending{0.6, "target", 0, 40} : Ending{0.2};
  });
  for (const TrialRecord& trial : record->trials) {
    const bool met = trial.number == 2 || trial.number == 6;
    ASSERT_EQ(trial.reports.size(), 1U);
    EXPECT_EQ(std::isfinite(trial.reports[0].objective), met) << trial.number;
    EXPECT_EQ(trial.reason, met ? "met its target" : "");
  }
  EXPECT_NEAR(record->trials[1].reports[0].objective, 1.5, 0.6) << "seconds since its first step";
  EXPECT_THAT(best_of(*record), testing::AnyOf(2, 6));
}

// Under ASHA one that meets its target at a rung has ended, and is not asked to go on.
TEST_F(SweepDriverTest, ATargetThatIsMetAtARungEndsTheTrial) {
  std::string text = asha();
  text.insert(text.find("sweep:"), "target: {value: 0.5}\n");
  const auto record = play(submit_sweep(text), [](const RunConfig& config) {
    if (config.optimizer.learning_rate > 0.35) return Ending{0.6, "target", 0, config.steps};
    return by_rate(config);
  });
  int met = 0;
  for (const TrialRecord& trial : record->trials) {
    EXPECT_EQ(trial.state, TrialState::Finished) << trial.reason;
    if (rate(trial) <= 0.35) continue;
    ++met;
    EXPECT_EQ(trial.reason, "met its target");
    EXPECT_EQ(attempts_[trial.run], 1);
  }
  EXPECT_GT(met, 0);
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
  EXPECT_EQ(play(good)->state, SweepState::Done);
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
