#include "trainer/run/checkpoint_keeper.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "base/clock.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/pins.h"
#include "checkpoint/store.h"
#include "checkpoint/tombstones.h"
#include "tests/base/faulty_file_system.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::trainer {
namespace {

using Names = std::vector<std::string>;

contract::RunConfig small_run(const std::string& policy) {
  return contract::parse_run_config(
      "model: {layers: 1, hidden: 8, heads: 1, feed_forward: 8, max_positions: 8, vocabulary: 16}\n"
      "data: {path: /nowhere, max_length: 8}\ntarget: {metric: mlm_loss, value: 0.5}\n"
      "checkpoint: " +
          policy + "\n",
      "test");
}

class CheckpointKeeperTest : public testing::Test {
 protected:
  explicit CheckpointKeeperTest(
      const std::string& policy = "{keep_last: 1, keep_best: 1, keep_every: 10}")
      : config_(small_run(policy)),
        table_(contract::make_tensor_table(config_.model)),
        run_(contract::RunDirectory::create(files_, folder_.path() / "run",
                                            contract::to_json(config_))),
        keeper_({files_, base::system_clock(), run_, contract::Fence(run_, run_.take_epoch()),
                 config_, table_, "data-0", "cccc"}) {
    const auto size = static_cast<std::size_t>(table_.arena_size);
    state_.parameters.assign(size, 1);
    state_.first_moment.assign(size, 2);
    state_.second_moment.assign(size, 3);
  }

  Names write(std::int64_t step, double loss) {  // what was removed for it
    Names removed;
    for (const contract::CheckpointRecord& record :
         keeper_.write(step, state_.whole(table_), loss)) {
      EXPECT_NE(record.status, "failed") << record.message;
      if (record.status == "removed") removed.push_back(record.name);
    }
    return removed;
  }
  static std::string name(std::int64_t step) {
    return checkpoint::CheckpointName{step, "cccc"}.text();
  }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory folder_;
  contract::RunConfig config_;
  contract::TensorTable table_;
  contract::RunDirectory run_;
  run::CheckpointKeeper keeper_;
  step::TrainingState state_;
};

TEST_F(CheckpointKeeperTest, KeepsByTheRunFilesPolicy) {
  EXPECT_EQ(write(1, 9), Names{});
  EXPECT_EQ(write(2, 3), Names{name(1)}) << "the lowest loss is the best";
  EXPECT_EQ(write(3, 5), Names{});
  EXPECT_EQ(write(10, 6), Names{name(3)});
  EXPECT_EQ(write(11, 7), Names{}) << "step 10 is one of every 10";
  EXPECT_EQ(write(12, 2), (Names{name(2), name(11)}));
  const auto tombstones = checkpoint::read_tombstones(files_, run_.checkpoints_path());
  EXPECT_EQ(tombstones.size(), 4U);
  EXPECT_EQ(tombstones.at(name(11)).why, "not among the latest 1, nor the best 1, nor at every 10");
}

TEST_F(CheckpointKeeperTest, RespectsPinsAndReaders) {
  const base::Path checkpoints = run_.checkpoints_path();
  write(1, 9);
  checkpoint::pin(files_, checkpoints, name(1), {"mine", 0});
  auto mark = std::make_unique<checkpoint::ReadingMark>(files_, checkpoints, name(1), "test",
                                                        base::system_clock().utc_seconds());
  EXPECT_EQ(write(2, 8), Names{});
  EXPECT_EQ(write(3, 7), Names{name(2)});
  EXPECT_TRUE(checkpoint::unpin(files_, checkpoints, name(1)));
  EXPECT_EQ(write(4, 6), Names{name(3)}) << "1 is still being read";
  mark.reset();
  EXPECT_EQ(write(5, 5), (Names{name(1), name(4)}));
}

TEST_F(CheckpointKeeperTest, ResumesBesidePinsMarksAndTombstones) {
  write(1, 9);
  write(2, 8);
  checkpoint::pin(files_, run_.checkpoints_path(), name(2), {"mine", 0});
  std::vector<contract::CheckpointRecord> skipped;
  const auto device = cpu::make_cpu_device(1);
  step::Snapshot whole(*device, table_, step::whole_state(table_), 0, 1, true);
  const auto resumed = keeper_.load(&whole, &skipped);
  ASSERT_TRUE(resumed.has_value());
  EXPECT_EQ(resumed->step, 2);
  EXPECT_TRUE(skipped.empty());
}

// A fork with another batch.size begins with a copy of a checkpoint that lists no batches.
TEST_F(CheckpointKeeperTest, KnowsTheBatchOfAnotherRunsCheckpoint) {
  write(20, 5);
  for (const int batch : {config_.batch_size, config_.batch_size + 4}) {
    contract::RunConfig config = config_;
    config.batch_size = batch;
    run::CheckpointKeeper other({files_, base::system_clock(), run_,
                                 contract::Fence(run_, run_.take_epoch()), config, table_, "data-0",
                                 "dddd"});
    const auto memory = cpu::make_cpu_device(1);
    step::Snapshot loaded(*memory, table_, step::whole_state(table_), 0, 1, true);
    std::vector<contract::CheckpointRecord> skipped;
    const auto resumed = other.load(&loaded, &skipped);
    ASSERT_TRUE(resumed);
    if (batch == config_.batch_size) {
      EXPECT_FALSE(resumed->growth) << "its own";
      continue;
    }
    const std::vector<checkpoint::BatchChange> batches{{1, config_.batch_size}};
    ASSERT_TRUE(resumed->growth);
    EXPECT_EQ(resumed->growth->batches, batches);
    EXPECT_EQ(resumed->growth->progress, 20);
  }
}

TEST_F(CheckpointKeeperTest, NotesWhatItFindsDamagedForThoseWhoList) {
  const base::Path checkpoints = run_.checkpoints_path();
  write(10, 9);
  write(20, 8);
  const base::Path model = checkpoints / name(20) / checkpoint::kModelFile;
  const std::string kept = files_.read(model, 1 << 20);
  std::string flipped = kept;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  base::replace_file(files_, model, flipped);
  std::vector<contract::CheckpointRecord> skipped;
  const auto device = cpu::make_cpu_device(1);
  step::Snapshot whole(*device, table_, step::whole_state(table_), 0, 1, true);
  EXPECT_EQ(keeper_.load(&whole, &skipped)->step, 10);
  ASSERT_EQ(skipped.size(), 1U);
  const auto found = checkpoint::read_found_damage(files_, checkpoints);
  ASSERT_EQ(found.count(name(20)), 1U);
  EXPECT_EQ(found.at(name(20)), skipped[0].message);

  base::replace_file(files_, model, kept);
  EXPECT_EQ(keeper_.load(&whole, &skipped)->step, 20) << "it was restored";
  EXPECT_TRUE(checkpoint::read_found_damage(files_, checkpoints).empty());
}

// Where a run goes back to: whole, finite, and under a name of its own when it comes there again.
class RollbackTest : public CheckpointKeeperTest {
 protected:
  RollbackTest() : CheckpointKeeperTest("{every: 7, keep_last: 10}") {}
  std::optional<run::Resumed> back(std::int64_t step) {
    skipped_.clear();
    return keeper_.load_before(step, &whole_, &skipped_);
  }
  std::unique_ptr<device::Device> device_ = cpu::make_cpu_device(1);
  step::Snapshot whole_{*device_, table_, step::whole_state(table_), 0, 1, true};
  std::vector<contract::CheckpointRecord> skipped_;
};

TEST_F(RollbackTest, LoadsTheNewestWhoseNumbersAreAllFinite) {
  EXPECT_FALSE(back(3).has_value()) << "a run without checkpoints";
  write(7, 1.5);
  std::int64_t step = 7;
  for (std::vector<float>* values :
       {&state_.parameters, &state_.first_moment, &state_.second_moment}) {
    values->front() = std::numeric_limits<float>::infinity();
    write(step += 7, 1);
    values->front() = 4;
  }
  const auto found = back(30);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 7);
  EXPECT_EQ(found->metric, 1.5);
  ASSERT_EQ(skipped_.size(), 3U);
  EXPECT_EQ(skipped_[0].name, name(28));
  EXPECT_EQ(skipped_[0].message, "not all of its numbers are finite");
  EXPECT_EQ(whole_.shard().parameters[0], 1) << "the state of step 7";
  EXPECT_THROW((void)back(7), base::Error) << "none is left, and the run is not a new one";
}

TEST_F(RollbackTest, WhatIsWrittenAfterItSaysSoInNameAndManifest) {
  write(7, 1);
  write(14, 1);
  keeper_.keep_rollbacks({{17, 14}});
  EXPECT_EQ(back(16)->step, 7) << "14 was tried";
  keeper_.keep_rollbacks({{17, 14}, {16, 7}});
  EXPECT_EQ(write(14, 1), Names{}) << "the older one of step 14 stays as it is";
  EXPECT_EQ(back(21)->name, "step-0000000014-ccccr2");
  EXPECT_EQ(back(21)->rollbacks, (std::vector<checkpoint::Rollback>{{17, 14}, {16, 7}}));
  std::vector<contract::CheckpointRecord> skipped;
  EXPECT_EQ(keeper_.load(&whole_, &skipped)->rollbacks.size(), 2U) << "a resume goes on from it";
}

}  // namespace
}  // namespace regatta::trainer
