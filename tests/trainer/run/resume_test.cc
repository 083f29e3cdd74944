// An attempt at a run, within this process, that goes on where another's checkpoint is.
#include <gtest/gtest.h>

#include <fstream>

#include "base/clock.h"
#include "checkpoint/copy.h"
#include "checkpoint/store.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/contract/journal.h"
#include "trainer/run/training_run.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr std::uint64_t kLimit = std::uint64_t{1} << 30U;
constexpr std::int64_t kSteps = 8;

class Resume : public OnSmallDataset<60> {
 protected:
  static base::FileSystem& disk() { return base::posix_file_system(); }

  contract::RunDirectory make_run(const std::string& name = "run", std::int64_t steps = kSteps) {
    return contract::RunDirectory::create(disk(), folder_.path() / name,
                                          contract::to_json(config_of(steps)));
  }
  contract::RunConfig config_of(std::int64_t steps) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.data.path = (directory_->path() / "dataset").string();
    config.model.hidden = 16;
    config.model.feed_forward = 32;
    config.batch_size = 8;
    config.steps = steps;
    config.optimizer.schedule = schedule_;
    config.evaluate_every = 3;
    config.evaluate_samples = 8;
    config.checkpoint_every = 3;
    config.keep_last = 9;
    config.threads = 1;
    config.peak_tflops = 1;
    return config;
  }
  static void train_to_the_end(const contract::RunDirectory& run) {
    run::TrainingRunOptions options;
    options.variables = [](const char*) -> const char* { return nullptr; };
    ASSERT_EQ(run::train(disk(), base::system_clock(), run, options).code,
              contract::ExitCode::Finished);
  }
  // Of the last attempt.
  template <typename Record>
  static std::vector<Record> records_of(const contract::RunDirectory& run) {
    std::vector<Record> found;
    const auto chunk =
        contract::parse_journal(disk().read(run.journal_path(run.attempts().back()), kLimit));
    for (const contract::JournalRecord& record : chunk.records) {
      if (const auto* body = std::get_if<Record>(&record.body)) found.push_back(*body);
    }
    return found;
  }
  // By step.
  static std::map<std::int64_t, base::Path> checkpoints_of(const contract::RunDirectory& run) {
    std::map<std::int64_t, base::Path> found;
    for (const std::string& name : disk().list(run.checkpoints_path())) {
      const auto parsed = checkpoint::parse_checkpoint_name(name);
      if (parsed) found[parsed->step] = run.checkpoints_path() / name;
    }
    return found;
  }
  static std::string tensors_of(const base::Path& checkpoint) {
    return disk().read(checkpoint / "model.safetensors", kLimit) +
           disk().read(checkpoint / "optimizer.safetensors", kLimit);
  }

  // Losses of all attempts, by step.
  static std::map<std::int64_t, double> losses_of(const contract::RunDirectory& run) {
    std::map<std::int64_t, double> found;
    for (const contract::AttemptName& attempt : run.attempts()) {
      const auto chunk = contract::parse_journal(disk().read(run.journal_path(attempt), kLimit));
      for (const contract::JournalRecord& record : chunk.records) {
        if (const auto* step = std::get_if<contract::StepRecord>(&record.body)) {
          EXPECT_TRUE(found.emplace(step->step, step->loss).second) << step->step;
        }
      }
    }
    return found;
  }

  contract::ScheduleKind schedule_ = contract::ScheduleKind::Linear;
  TemporaryDirectory folder_;
};

TEST_F(Resume, TakesTheStepsAfterTheCheckpointsAndNoOther) {
  const contract::RunDirectory run = make_run();
  train_to_the_end(run);
  const auto whole = records_of<contract::StepRecord>(run);
  ASSERT_EQ(std::ssize(whole), kSteps);
  const std::map<std::int64_t, base::Path> saved = checkpoints_of(run);
  ASSERT_EQ(saved.size(), 3U) << "after steps 3, 6 and 8";
  const std::string last = tensors_of(saved.at(kSteps));

  for (const std::int64_t from : {6, 3, 0}) {
    for (const auto& [step, path] : checkpoints_of(run)) {
      if (step > from) disk().remove_tree(path);
    }
    train_to_the_end(run);
    const auto starts = records_of<contract::StartRecord>(run);
    ASSERT_EQ(starts.size(), 1U);
    EXPECT_EQ(starts[0].first_step, from);
    EXPECT_EQ(starts[0].checkpoint.empty(), from == 0);
    const auto steps = records_of<contract::StepRecord>(run);
    ASSERT_EQ(std::ssize(steps), kSteps - from) << "from " << from;
    for (std::int64_t i = 0; i < kSteps - from; ++i) {
      const contract::StepRecord& again = steps[static_cast<std::size_t>(i)];
      const contract::StepRecord& before = whole[static_cast<std::size_t>(from + i)];
      EXPECT_EQ(again.step, from + i + 1);
      EXPECT_EQ(again.loss, before.loss) << "step " << again.step << " from " << from;
      EXPECT_EQ(again.learning_rate, before.learning_rate) << "step " << again.step;
    }
    std::vector<std::int64_t> evaluated;
    for (const contract::EvalRecord& record : records_of<contract::EvalRecord>(run))
      evaluated.push_back(record.step);
    // That of the checkpoint's step may have been lost, and is repeated.
    std::vector<std::int64_t> expected = {0, 3, 6, kSteps};
    expected.erase(expected.begin(), std::find(expected.begin(), expected.end(), from));
    EXPECT_EQ(evaluated, expected) << "from " << from;
    EXPECT_EQ(records_of<contract::EndRecord>(run).at(0).step, kSteps);
    EXPECT_EQ(tensors_of(checkpoints_of(run).at(kSteps)), last) << "other bits from " << from;
  }
}

// The file alone says how far it goes: with a rate that does not depend on that, the same bits.
TEST_F(Resume, ARunOfTwiceTheStepsIsTheSameInOnePieceAndExtended) {
  schedule_ = contract::ScheduleKind::Constant;
  const contract::RunDirectory whole = make_run("whole", 2 * kSteps);
  train_to_the_end(whole);
  const contract::RunDirectory extended = make_run("extended", kSteps);
  train_to_the_end(extended);
  ASSERT_EQ(losses_of(extended).rbegin()->first, kSteps);
  base::replace_file(disk(), extended.path() / "run.json",
                     contract::to_json(config_of(2 * kSteps)));
  train_to_the_end(extended);
  EXPECT_EQ(std::ssize(losses_of(extended)), 2 * kSteps);
  EXPECT_EQ(losses_of(extended), losses_of(whole));
  EXPECT_EQ(tensors_of(checkpoints_of(extended).at(2 * kSteps)),
            tensors_of(checkpoints_of(whole).at(2 * kSteps)));
}

// The linear rate reaches its end at the last step, so an extension begins with a higher one.
TEST_F(Resume, ARateThatDependsOnTheStepsIsThatOfTheNewOnes) {
  const contract::RunDirectory run = make_run("run", kSteps);
  train_to_the_end(run);
  const double last = records_of<contract::StepRecord>(run).back().learning_rate;
  base::replace_file(disk(), run.path() / "run.json", contract::to_json(config_of(2 * kSteps)));
  train_to_the_end(run);
  const contract::RunDirectory whole = make_run("whole", 2 * kSteps);
  train_to_the_end(whole);
  const auto steps = records_of<contract::StepRecord>(run);
  EXPECT_GT(steps.front().learning_rate, last);
  EXPECT_EQ(steps.front().learning_rate,
            records_of<contract::StepRecord>(whole).at(kSteps).learning_rate);
}

TEST_F(Resume, AForkThatChangesNothingRepeatsItsParent) {
  const contract::RunDirectory parent = make_run("parent", kSteps);
  train_to_the_end(parent);
  for (const std::int64_t from : {3, 6}) {
    const base::Path origin = checkpoints_of(parent).at(from);
    const auto manifest = checkpoint::parse_manifest(
        disk().read(origin / checkpoint::kManifestFile, kLimit), "manifest.json");
    const contract::RunDirectory fork = contract::RunDirectory::create(
        disk(), folder_.path() / ("fork-" + std::to_string(from)), parent.run_json(), {},
        [&](const base::Path& directory) {
          checkpoint::copy_checkpoint(disk(), origin, manifest,
                                      directory / "checkpoints" / origin.filename());
        });
    train_to_the_end(fork);
    EXPECT_EQ(records_of<contract::StartRecord>(fork).at(0).first_step, from);
    std::map<std::int64_t, double> expected = losses_of(parent);
    expected.erase(expected.begin(), expected.upper_bound(from));
    EXPECT_EQ(losses_of(fork), expected);
    EXPECT_EQ(tensors_of(checkpoints_of(fork).at(kSteps)),
              tensors_of(checkpoints_of(parent).at(kSteps)));
  }
}

}  // namespace
}  // namespace regatta::tests
