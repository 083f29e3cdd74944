// What trials of a sweep have reached, and how they end.
#include <gmock/gmock.h>

#include "orchestrator/control/sweep_objective.h"
#include "tests/orchestrator/control/sweep_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;

class SweepTrialsTest : public SweepFixture {};

TEST_F(SweepTrialsTest, AFailureIsToldAndTakesNoPartInTheRanking) {
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

TEST_F(SweepTrialsTest, TimeToAccuracyIsOfThoseThatMeetTheirTarget) {
  const std::string text = std::string(kSweepBegin) + "target: {value: 0.5}\n" +
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
TEST_F(SweepTrialsTest, ATargetThatIsMetAtARungEndsTheTrial) {
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

// The time that a trial stands paused, or that a restart takes, is none of its own.
TEST_F(SweepTrialsTest, TimeToAccuracyIsTrainingTime) {
  const std::string file = "name: one\nsteps: 10\ndata: {path: /nowhere}\ntarget: {value: 0.5}\n";
  const std::string id = controller_->submit(file, std::nullopt).run.id;
  round(by_rate);
  ASSERT_EQ(state(id), runs::RunState::Succeeded);
  clock_.now += 600;
  (void)controller_->extend(id, R"({"steps": 30})");
  for (int i = 0; i < 4; ++i) {
    round([](const RunConfig&) { return Ending{0.6, "target", 0, 30}; });
  }
  ASSERT_EQ(state(id), runs::RunState::Succeeded);
  EXPECT_GT(run(id).summary.time_to_accuracy_seconds.value_or(0), 600);
  // From the first step (at 0.5 s) to the last record (4 s), and then to the evaluation (2 s).
  const double seconds =
      control::objective_of(*store_, run(id), sweeps::ObjectiveKind::TimeToAccuracy, 30);
  EXPECT_NEAR(seconds, 3.5 + 1.5, 1e-9);
}

// Of two that meet the target, the faster is better, whether its last step was that of a rung or
// not.
TEST_F(SweepTrialsTest, MeetingTheTargetAtARungIsMeetingIt) {
  std::string text = asha();
  text.insert(text.find("sweep:"), "target: {value: 0.5}\n");
  const auto record = play(submit_sweep(text), [](const RunConfig& config) {
    if (config.name == "rates-t3") return Ending{0.7, "target", 0, config.steps};
    if (config.name == "rates-t4") return Ending{0.6, "target", 0, config.steps - 1};
    return by_rate(config);
  });
  EXPECT_EQ(best_of(*record), 3);
}

TEST_F(SweepTrialsTest, OneThatDivergesLateIsNotBest) {
  const auto record = play(submit_sweep(asha()), [](const RunConfig& config) {
    if (config.steps == 90) return Ending{0.9, "diverged", 20, 60};
    Ending ending = by_rate(config);
    ending.accuracy += 0.3;
    return ending;
  });
  const int best = best_of(*record);
  ASSERT_GT(best, 0);
  EXPECT_NE(record->trials.at(static_cast<std::size_t>(best) - 1).reason, "diverged");
}

class RefusedPromotionTest : public SweepTrialsTest {
 protected:
  // Plays ASHA while trials near the best rate are not let go on. Each is promoted once, fails for
  // good, and the others take its place.
  void play_refusing(
      const std::string& why, const Trainer& trainer,
      const std::function<void(const TrialRecord&)>& refuse = [](const TrialRecord&) {},
      const std::function<void(int)>& each = [](int) {}) {
    const std::string id = submit_sweep(asha());
    const auto record = play(id, trainer, [&](int i) {
      for (const TrialRecord& trial : sweep(id)->trials) {
        if (is_refused(rate(trial)) && !trial.run.empty()) refuse(trial);
      }
      each(i);
    });
    EXPECT_EQ(record->state, SweepState::Done);
    std::size_t failed = 0;
    for (const TrialRecord& trial : record->trials) {
      if (trial.state != TrialState::Failed) continue;
      ++failed;
      EXPECT_TRUE(is_refused(rate(trial)));
      EXPECT_EQ(trial.goal, 30);
      EXPECT_THAT(trial.reason, HasSubstr(why));
    }
    EXPECT_GE(failed, 2U);
    EXPECT_EQ(events("sweep.trial_failed").size(), failed) << "each is told once";
    ASSERT_GT(best_of(*record), 0);
    const TrialRecord& best = record->trials.at(static_cast<std::size_t>(best_of(*record)) - 1);
    EXPECT_FALSE(is_refused(rate(best)));
    EXPECT_EQ(best.goal, 90);
  }
  static bool is_refused(double rate) { return std::abs(rate - 0.3) < 0.03; }
  base::Path directory_of(const TrialRecord& trial) { return folder_.path() / "runs" / trial.run; }
  // What somebody changes after its promotion.
  Ending end_at_20(const RunConfig& config) {
    (void)controller_->change(config.name, R"({"steps": 20})");
    Ending ending = by_rate(config);
    ending.steps = 20;
    return ending;
  }
};

TEST_F(RefusedPromotionTest, WithoutACheckpointATrialFailsOnce) {
  play_refusing(
      "has no checkpoint to go on from", by_rate,
      [&](const TrialRecord& trial) {
        std::filesystem::remove_all(directory_of(trial) / "checkpoints");
      },
      [&](int i) {
        if (i % 7 == 3) restart();
      });
}

TEST_F(RefusedPromotionTest, WithoutItsDirectoryATrialFailsOnce) {
  play_refusing("cannot go on: ", by_rate, [&](const TrialRecord& trial) {
    const auto known = store_->run(trial.run);
    if (known && known->state == runs::RunState::Succeeded && known->drained) {
      std::filesystem::remove_all(directory_of(trial));
    }
  });
}

TEST_F(RefusedPromotionTest, OneThatIsToEndEarlierFailsOnce) {
  play_refusing(
      "was changed to end after 20 steps, and the trial is to train 30; `regatta extend --steps "
      "30 ",
      [&](const RunConfig& config) {
        const bool refused = config.steps == 30 && is_refused(config.optimizer.learning_rate);
        return refused ? end_at_20(config) : by_rate(config);
      });
}

// Whoever does what the message says takes the trial up again.
TEST_F(RefusedPromotionTest, ARefusedTrialIsTakenUpWhenItsRunIsExtended) {
  const std::string id = submit_sweep(asha());
  bool changed = false;
  int extended = 0;
  const auto record = play(
      id,
      [&](const RunConfig& config) {
        if (changed || config.steps != 30) return by_rate(config);
        changed = true;
        return end_at_20(config);
      },
      [&](int) {
        for (const TrialRecord& trial : sweep(id)->trials) {
          if (extended > 0 || trial.state != TrialState::Failed) continue;
          EXPECT_TRUE(controller_->extend(trial.run, R"({"steps": 30})"));
          extended = trial.number;
        }
      });
  ASSERT_GT(extended, 0);
  const TrialRecord& trial = record->trials.at(static_cast<std::size_t>(extended) - 1);
  EXPECT_NE(trial.state, TrialState::Failed) << trial.reason;
  EXPECT_GE(trial.reports.size(), 2U);
}

// A disk that is full fails one after the other; whoever makes room and resumes them has lost none.
TEST_F(SweepTrialsTest, ManyFailuresInARowWaitAndAreTakenUpWhenResumed) {
  const std::string id = submit_sweep(grid(1));
  bool full = true;
  const Trainer trainer = [&](const RunConfig& config) {
    return full ? Ending{0.1, "error", 20, 10} : by_rate(config);
  };
  for (int i = 0; i < 12; ++i) round(trainer);
  // A minute passes after five.
  EXPECT_LT(sweep(id)->trials.size(), 7U);
  EXPECT_THAT(driver_->trouble(id), HasSubstr("the newest 5 trials failed"));
  EXPECT_THAT(driver_->faults(), testing::Contains(HasSubstr("stands still")));
  full = false;
  driver_->step();  // the newest has ended, too
  for (const TrialRecord& trial : sweep(id)->trials) {
    if (trial.state == TrialState::Failed) (void)controller_->resume(trial.run);
  }
  const auto record = play(id, trainer);
  ASSERT_EQ(record->trials.size(), 7U);
  for (const TrialRecord& trial : record->trials) {
    EXPECT_EQ(trial.state, TrialState::Finished) << trial.reason;
  }
  EXPECT_EQ(best_of(*record), 5);
  EXPECT_EQ(driver_->trouble(id), "");
}

TEST_F(SweepTrialsTest, OneThatStopsSaysNothingOfTrialsThatWouldBegin) {
  const std::string id = submit_sweep(grid(1));
  const Trainer fails = [](const RunConfig&) { return Ending{0.1, "error", 20, 10}; };
  for (int i = 0; i < 30 && driver_->trouble(id).empty(); ++i) round(fails);
  EXPECT_THAT(driver_->trouble(id), HasSubstr("the next one begins"));
  EXPECT_TRUE(driver_->stop(id, ""));
  EXPECT_EQ(driver_->trouble(id), "");
  EXPECT_EQ(play(id)->state, SweepState::Stopped);
}

}  // namespace
}  // namespace regatta::orchestrator
