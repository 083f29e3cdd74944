// An attempt is whole once it is made: it may train, or end without having trained.
#include "trainer/run/attempt.h"

#include <gtest/gtest.h>

#include "checkpoint/store.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/ranks/rank_agreement.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr std::uint64_t kLimit = std::uint64_t{1} << 30U;

class AttemptRunnerTest : public OnSmallDataset<60> {
 protected:
  static base::FileSystem& disk() { return base::posix_file_system(); }

  AttemptRunnerTest() {
    config_ = small_run_config(*dataset_);
    config_.data.path = (directory_->path() / "dataset").string();
    config_.model.hidden = 16;
    config_.model.feed_forward = 32;
    config_.batch_size = 8;
    config_.steps = 4;
    config_.evaluate_samples = 8;
    config_.checkpoint_every = 2;
    config_.threads = 1;
    config_.peak_tflops = 1;
    options_.variables = [](const char*) -> const char* { return nullptr; };
  }

  // What a process has of a run beside its attempt; the attempt is made by `body`.
  template <typename Body>
  void with_context(const contract::RunDirectory& directory, const Body& body) {
    contract::RunDirectory run = directory;
    plugins::RankGroup group(disk(), run.path(), config_, std::nullopt, {}, options_.variables);
    const contract::AttemptName name = run.create_attempt();
    const contract::Fence fence(run, run.take_epoch());
    run::JournalWriter journal(disk(), base::system_clock(), run, name, fence);
    body(run::AttemptContext{disk(), base::system_clock(), run, name, fence, journal, group,
                             config_, options_});
  }
  contract::RunDirectory make_run(const std::string& name) {
    return contract::RunDirectory::create(disk(), folder_.path() / name,
                                          contract::to_json(config_));
  }
  static std::string tensors_of(const contract::RunDirectory& run) {
    std::string tensors;
    for (const std::string& name : disk().list(run.checkpoints_path())) {
      const auto parsed = checkpoint::parse_checkpoint_name(name);
      if (!parsed || parsed->step != 4) continue;
      tensors += disk().read(run.checkpoints_path() / name / "model.safetensors", kLimit) +
                 disk().read(run.checkpoints_path() / name / "optimizer.safetensors", kLimit);
    }
    return tensors;
  }

  TemporaryDirectory folder_;
  contract::RunConfig config_;
  run::TrainingRunOptions options_;
};

TEST_F(AttemptRunnerTest, EndsWithoutHavingRun) {
  const contract::RunDirectory untouched = make_run("untouched");
  const contract::RunDirectory run = make_run("run");
  with_context(
      run, [](const run::AttemptContext& context) { const run::AttemptRunner attempt(context); });
  // It has said that it loads, and done nothing else to the run.
  const auto chunk =
      contract::parse_journal(disk().read(run.journal_path(run.attempts().back()), kLimit));
  ASSERT_EQ(chunk.records.size(), 1U);
  const auto* phase = std::get_if<contract::PhaseRecord>(&chunk.records[0].body);
  ASSERT_NE(phase, nullptr);
  EXPECT_EQ(phase->phase, "loading");
  EXPECT_FALSE(disk().exists(run.attempt_path(run.attempts().back()) / "environment.json"));
  EXPECT_EQ(tensors_of(run), "");

  // So the next one trains the same weights as in a run that never had it.
  for (const contract::RunDirectory& directory : {untouched, run}) {
    with_context(directory, [](const run::AttemptContext& context) {
      run::AttemptRunner attempt(context);
      const contract::EndRecord end = attempt.run();
      EXPECT_EQ(end.reason, "steps");
      EXPECT_EQ(end.step, 4);
    });
  }
  EXPECT_NE(tensors_of(run), "");
  EXPECT_EQ(tensors_of(run), tensors_of(untouched));
}

TEST_F(AttemptRunnerTest, CannotBeMadeWithoutItsDataset) {
  config_.data.path = (folder_.path() / "none").string();
  with_context(make_run("run"), [](const run::AttemptContext& context) {
    EXPECT_THROW(run::AttemptRunner attempt(context), ranks::AgreedError);
  });
}

}  // namespace
}  // namespace regatta::tests
