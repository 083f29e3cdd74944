#include "tests/trainer/probe/probed_run.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "checkpoint/store.h"
#include "trainer/probe/step_probe.h"
#include "trainer/run/training_run.h"

namespace regatta::tests {

using trainer::contract::RunConfig;
using trainer::contract::RunDirectory;
using trainer::contract::StepRecord;

RunConfig ProbedRun::config_of(std::int64_t steps) {
  RunConfig config = small_run_config(*dataset_);
  config.data.path = (directory_->path() / "dataset").string();
  config.model.hidden = 16;
  config.model.feed_forward = 32;
  config.batch_size = 8;
  config.steps = steps;
  config.optimizer.warmup_steps = 2;
  config.evaluate_every = steps;
  config.evaluate_samples = 8;
  config.checkpoint_every = 3;
  config.keep_last = 9;
  config.threads = 1;
  config.statistics_every = 2;  // so that some steps look at the noise
  config.peak_tflops = 1;
  return config;
}

RunDirectory ProbedRun::train(const RunConfig& config, const std::string& name) {
  RunDirectory run =
      RunDirectory::create(disk(), folder_.path() / name, trainer::contract::to_json(config));
  trainer::run::TrainingRunOptions options;
  options.variables = [](const char*) -> const char* { return nullptr; };
  EXPECT_EQ(trainer::run::train(disk(), base::system_clock(), run, options).code,
            trainer::contract::ExitCode::Finished);
  return run;
}

std::map<std::int64_t, StepRecord> ProbedRun::steps_of(const RunDirectory& run) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30U;
  std::map<std::int64_t, StepRecord> found;
  for (const trainer::contract::AttemptName& attempt : run.attempts()) {
    const auto chunk =
        trainer::contract::parse_journal(disk().read(run.journal_path(attempt), kMostBytes));
    for (const trainer::contract::JournalRecord& record : chunk.records) {
      if (const auto* step = std::get_if<StepRecord>(&record.body)) found[step->step] = *step;
    }
  }
  return found;
}

base::Path ProbedRun::checkpoint_of(const RunDirectory& run, std::int64_t step) {
  for (const std::string& name : disk().list(run.checkpoints_path())) {
    const auto parsed = checkpoint::parse_checkpoint_name(name);
    if (parsed && parsed->step == step) return run.checkpoints_path() / name;
  }
  ADD_FAILURE() << "no checkpoint of step " << step;
  return {};
}

trainer::probe::ReplayOptions ProbedRun::options_of(const RunDirectory& run, std::int64_t step,
                                                    const std::vector<std::string>& changes) {
  trainer::probe::ReplayOptions options;
  options.run = run.path();
  options.step = step;
  for (const std::string& change : changes) {
    options.changes.push_back(trainer::probe::parse_key_value(change));
  }
  return options;
}

nlohmann::ordered_json ProbedRun::probe(const RunDirectory& run, std::int64_t step,
                                        const std::vector<std::string>& changes) {
  return trainer::probe::probe_step(disk(), base::system_clock(), options_of(run, step, changes));
}

const nlohmann::ordered_json& ProbedRun::part(const nlohmann::ordered_json& probe,
                                              const std::string& name) {
  for (const nlohmann::ordered_json& each : probe.at("parts")) {
    if (each.at("part") == name) return each;
  }
  ADD_FAILURE() << "no part " << name;
  return probe;
}

}  // namespace regatta::tests
