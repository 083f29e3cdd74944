// Sweeps over runs that train as told.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/store.h"
#include "orchestrator/control/sweep_driver.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {

using control::SweepDriver;
using control::SweepState;
using control::TrialRecord;
using sweeps::TrialState;
using tests::JournalAuthor;
using trainer::contract::RunConfig;

// How a run ends.
struct Ending {
  double accuracy = 0;
  std::string reason = "steps";
  int code = 0;
  std::int64_t steps = 0;  // 0: all
};

inline constexpr const char* kSweepBegin = "name: rates\nsteps: 90\ndata: {path: /nowhere}\n";
inline constexpr const char* kRates =
    "    optimizer.learning_rate: {kind: uniform, low: 0.1, high: 0.4, points: 7}\n";

inline std::string grid(int concurrency, const std::string& more = "") {
  return std::string(kSweepBegin) + more +
         "sweep:\n  method: grid\n  concurrency: " + std::to_string(concurrency) +
         "\n  objective: {direction: maximize}\n  parameters:\n" + kRates;
}

inline std::string asha() {
  return std::string(kSweepBegin) +
         "sweep:\n  method: asha\n  trials: 27\n  concurrency: 4\n"
         "  objective: {direction: maximize}\n  budget: {min: 10, max: 90, factor: 3}\n"
         "  parameters:\n" +
         kRates;
}

class SweepFixture : public ControllerFixture {
 protected:
  SweepFixture() : ControllerFixture(100) { begin(); }

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

}  // namespace regatta::orchestrator
