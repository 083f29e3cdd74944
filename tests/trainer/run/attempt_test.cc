// An attempt is whole once it is made: it may train, or end without having trained.
#include "trainer/run/attempt.h"

#include <gtest/gtest.h>

#include "checkpoint/store.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/ranks/borrowed_communicator.h"
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

// One rank whose digests of its own gradients are others than those of computing them again.
class OtherDigests : public ranks::HostCollectives {
 public:
  explicit OtherDigests(std::int64_t tensors) : of_tensors_(8 * tensors) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int ranks() const override { return 1; }
  void all_reduce_sum(double*, int) override {}
  void broadcast(void*, std::int64_t, int) override {}
  void all_gather(const void* bytes, std::int64_t count, void* all) override {
    ranks::SingleHost().all_gather(bytes, count, all);
    constexpr std::int64_t kOfTwo = 16;
    const bool of_own = count == of_tensors_ && calls_++ % 2 == 0;
    if (count == kOfTwo || of_own) static_cast<char*>(all)[0] ^= 1;
  }
  [[nodiscard]] ranks::Parcels all_to_all(const ranks::Parcels& to) override { return to; }
  void barrier() override {}

 private:
  std::int64_t of_tensors_;
  int calls_ = 0;
};
class OtherDigestsCommunicator : public ranks::BorrowedCommunicator {
 public:
  OtherDigestsCommunicator(ranks::Communicator& real, std::int64_t tensors)
      : BorrowedCommunicator(real), host_(tensors) {}
  [[nodiscard]] ranks::HostCollectives& host() override { return host_; }

 private:
  OtherDigests host_;
};

TEST_F(AttemptRunnerTest, OfCorruptedGradientsStopsOrWarnsAndTellsWhere) {
  const auto table = contract::make_tensor_table(config_.model);
  const auto tensors = std::ssize(table.tensors);
  std::optional<OtherDigestsCommunicator> other;
  options_.around = [&](ranks::Communicator& real) -> ranks::Communicator& {
    return other.emplace(real, tensors);
  };
  config_.guard.replay_every = 3;
  for (const bool stops : {true, false}) {
    config_.guard.on_corruption =
        stops ? contract::OnCorruption::Stop : contract::OnCorruption::Warn;
    const contract::RunDirectory run = make_run(stops ? "stops" : "warns");
    contract::EndRecord end;
    with_context(run, [&](const run::AttemptContext& context) {
      run::AttemptRunner attempt(context);
      end = attempt.run();
    });
    const auto chunk =
        contract::parse_journal(disk().read(run.journal_path(run.attempts().back()), kLimit));
    std::vector<contract::CorruptionRecord> told;
    std::int64_t steps = 0;
    for (const contract::JournalRecord& record : chunk.records) {
      if (const auto* each = std::get_if<contract::CorruptionRecord>(&record.body)) {
        told.push_back(*each);
      }
      steps += std::holds_alternative<contract::StepRecord>(record.body) ? 1 : 0;
    }
    ASSERT_FALSE(told.empty());
    const contract::CorruptionRecord& first = told[0];
    EXPECT_EQ(first.rank, 0);
    EXPECT_EQ(first.tensor, table.tensors[0].name);
    EXPECT_EQ(first.layer, "the head");
    EXPECT_FALSE(first.host.empty());
    EXPECT_NE(first.device.find("CPU"), std::string::npos) << first.device;
    EXPECT_LE(first.step, 3);
    const std::string who = "Silent corruption at step " + std::to_string(first.step) +
                            ": rank 0 on " + first.host + " (" + first.device +
                            ") computed wrong gradients, first in " + first.tensor +
                            " (the head; 1 tensor differ";
    EXPECT_EQ(first.message.substr(0, who.size()), who) << first.message;
    EXPECT_EQ(end.exit_code, stops ? 22 : 0);
    EXPECT_EQ(end.reason, stops ? "failed" : "steps");
    EXPECT_EQ(end.message, stops ? first.message : "");
    EXPECT_EQ(end.step, stops ? first.step - 1 : 4);
    EXPECT_EQ(steps, stops ? first.step - 1 : 4) << "a step that is stopped has no record";
  }
}

}  // namespace
}  // namespace regatta::tests
