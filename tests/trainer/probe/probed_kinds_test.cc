// Steps of every kind of run, replayed.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "tests/trainer/probe/probed_run.h"
#include "tests/trainer/run/task_fixture.h"
#include "trainer/model/initial_weights.h"
#include "trainer/probe/numerics.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/samples/mixture.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;

class ProbedKinds : public ProbedRun {};

// Among the steps are some that look at the gradient's noise, and some behind those.
TEST_F(ProbedKinds, ABatchThatGrowsHasItsBits) {
  contract::RunConfig config = config_of(80);
  config.batch_size = 4;
  config.growth = contract::BatchGrowth::SquareRoot;
  config.max_batch = 24;
  config.statistics_every = 2;
  config.optimizer.learning_rate = 4e-3;
  config.checkpoint_every = 6;
  const contract::RunDirectory run = train(config);
  const auto steps = steps_of(run);
  std::int64_t most = 0;
  for (const auto& [step, record] : steps) {
    most = std::max(most, record.samples);
    if (step % 6 != 2 && step != steps.rbegin()->first) continue;
    const auto found = probe(run, step);
    EXPECT_EQ(found.at("loss").get<double>(), record.loss) << step;
    EXPECT_EQ(part(found, "samples").at("count"), record.samples) << step;
    EXPECT_EQ(part(found, "update").at("learning_rate").get<double>(), record.learning_rate);
  }
  EXPECT_GT(most, 4) << "it has grown";
  EXPECT_THROW((void)probe(run, steps.rbegin()->first + 1), base::Error) << "the run was over";
}

TEST_F(ProbedKinds, TasksHaveTheirBitsAndTheReferenceAgrees) {
  for (const Task task : {Task::QuestionAnswering, Task::Classification}) {
    const base::Path dataset = make_task_fixture(folder_.path() / contract::name_of(task), task);
    const contract::RunConfig config = contract::parse_run_config(
        task_run_file(task, dataset, 12, "fine_tuning: {label_smoothing: 0.1}\n"), "run");
    const contract::RunDirectory run = train(config, "run of " + contract::name_of(task));
    for (const std::int64_t step : {1, 11, 12}) {
      const auto found = probe(run, step);
      EXPECT_EQ(found.at("loss").get<double>(), steps_of(run).at(step).loss) << step;
      // Samples of a task are numbered; a step of 8 has 8 of them.
      std::vector<std::string> ids;
      for (const auto& each : part(found, "samples").at("each")) ids.push_back(each.at("id"));
      std::sort(ids.begin(), ids.end());
      EXPECT_EQ(std::unique(ids.begin(), ids.end()) - ids.begin(), 8);
      const probe::NumericsReport report =
          probe::compare_with_reference(disk(), base::system_clock(), {options_of(run, step), 512});
      EXPECT_TRUE(probe::far_off(report).empty()) << probe::to_text(report, true);
      EXPECT_NEAR(report.reference_loss, steps_of(run).at(step).loss, 1e-5);
      EXPECT_EQ(report.gradients.size(), part(found, "weights").at("tensors").size());
    }
  }
}

// A weight that is no number, as a broken device leaves one: what is known of the step is told,
// without a loss and an update.
TEST_F(ProbedKinds, AStepThatDivergesIsToldUpToThere) {
  const contract::RunConfig config = config_of(6);
  const contract::RunDirectory run = train(config);
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  run::CheckpointKeeper keeper(
      {disk(), base::system_clock(), run, contract::Fence(run, run.newest_epoch()), config, table,
       samples::Datasets::open(config.data).fingerprint(), "0123456789abcdef"});
  step::TrainingState state;
  state.parameters = model::initial_weights(table, 1, 1);
  const std::string broken = "bert.encoder.layer.1.intermediate.dense.weight";
  state.parameters[static_cast<std::size_t>(table.at(broken).offset)] = std::nanf("");
  state.first_moment.assign(state.parameters.size(), 0.0F);
  state.second_moment = state.first_moment;
  for (const auto& record : keeper.write(4, state.whole(table), std::nullopt)) {
    EXPECT_EQ(record.status, "written") << record.message;
  }
  const auto found = probe(run, 5);
  EXPECT_TRUE(found.at("loss").is_null());
  EXPECT_EQ(found.at("parts").back().at("part"), "gradients");
  const auto text = nlohmann::ordered_json::parse(found.dump());
  for (const char* const name : {"weights", "activations"}) {
    for (const auto& tensor : part(text, name).at("tensors")) {
      if (!tensor.at("norm").is_null()) continue;
      const auto first = tensor.at("name").get<std::string>();
      EXPECT_NE(first.find(broken), std::string::npos) << first << " is the first in " << name;
      break;
    }
  }
  const probe::NumericsReport report =
      probe::compare_with_reference(disk(), base::system_clock(), {options_of(run, 5), 512});
  EXPECT_FALSE(probe::far_off(report).empty());
  try {
    (void)probe(run, 6);
    ADD_FAILURE() << "there is no such step";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("is not finite at step 5"), std::string::npos);
  }
}

}  // namespace
}  // namespace regatta::tests
