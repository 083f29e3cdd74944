// Checkpoints written beside training, by several ranks, and their agreement. Ranks are threads.
#include "trainer/run/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "tests/trainer/step/whole_state.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using checkpoint::CheckpointName;
using checkpoint::CheckpointStore;
using checkpoint::Status;

// The writer's thread asks how long its files take; while the gate is shut it waits for the answer.
class GateClock final : public base::Clock {
 public:
  GateClock() : owner_(std::this_thread::get_id()) {}
  [[nodiscard]] double monotonic_seconds() const override {
    std::unique_lock lock(mutex_);
    if (std::this_thread::get_id() == owner_) ++owners_reads_;
    if (std::this_thread::get_id() != owner_) changed_.wait(lock, [this] { return open_; });
    return base::system_clock().monotonic_seconds();
  }
  [[nodiscard]] double utc_seconds() const override { return base::system_clock().utc_seconds(); }
  void sleep(std::chrono::duration<double> duration) override {
    base::system_clock().sleep(duration);
  }
  [[nodiscard]] int owners_reads() const {
    const std::scoped_lock lock(mutex_);
    return owners_reads_;
  }
  void set_open(bool open) {
    const std::scoped_lock lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

 private:
  std::thread::id owner_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int owners_reads_ = 0;
  bool open_ = true;
};

class CheckpointWriterTest : public OnSmallDataset<60> {
 protected:
  static contract::RunConfig config(int ranks) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = 12;
    config.ranks = ranks;
    config.ranks_per_node = 1;
    config.sharding.optimizer = ranks > 1;
    return config;
  }

  // One rank of a run that saves: as Attempt has them.
  struct Rank {
    ranks::Communicator& ranks;
    step::TrainLoop& loop;
    run::CheckpointKeeper& keeper;
    run::CheckpointWriter& writer;
    step::Snapshot* snapshot;
    FaultyFileSystem& files;
    GateClock& clock;
    std::vector<contract::CheckpointRecord> records{};  // rank 0's

    void step(std::int64_t number) {
      loop.step(number);
      const step::StepFlags& agreed = loop.agreed();
      take(writer.follow({agreed.writing, agreed.write_failed}));
    }
    void save(std::int64_t number) {
      take(writer.settle());
      const double since = clock.monotonic_seconds();
      loop.snapshot(snapshot);
      writer.begin(number, snapshot != nullptr ? &snapshot->shard() : nullptr, 0.25, since);
    }
    // The newest checkpoint; its step, and the state.
    struct Found : step::TrainingState {
      std::int64_t step = 0;
    };
    std::optional<Found> read(std::vector<contract::CheckpointRecord>* skipped) {
      const contract::TensorTable& table = loop.model().table();
      const auto memory = cpu::make_cpu_device(1);
      step::Snapshot whole(*memory, table, trainer::step::whole_state(table), 0, 1, true);
      const auto resumed = keeper.load(&whole, skipped);
      if (!resumed) return std::nullopt;
      Found found;
      found.step = resumed->step;
      const auto copy = [&](const float* from) {
        return std::vector<float>(from, from + table.arena_size);
      };
      found.parameters = copy(whole.parameters());
      found.first_moment = copy(whole.first_moment());
      found.second_moment = copy(whole.second_moment());
      return found;
    }
    void take(const std::vector<contract::CheckpointRecord>& more) {
      records.insert(records.end(), more.begin(), more.end());
    }
  };

  // `node_ranks`: ThreadRanks' layout.
  void on_ranks(const contract::RunConfig& config, const std::function<void(Rank&)>& body,
                int node_ranks = 0) {
    const contract::TensorTable table = contract::make_tensor_table(config.model);
    contract::RunDirectory run = contract::RunDirectory::create(
        base::posix_file_system(), folder_.path() / "run", contract::to_json(config));
    const contract::Fence fence(run, run.take_epoch());
    checkpoints_ = run.checkpoints_path();
    ThreadRanks world(config.ranks, node_ranks);
    world.run([&](ranks::Communicator& ranks) {
      const auto device = cpu::make_cpu_device(1);
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets = step::buckets_per_layer(table);
      FaultyFileSystem files;
      GateClock clock;
      run::CheckpointKeeper keeper({files, clock, run, fence, config, table, "data", "cccc"});
      const bool sharded = config.sharding.optimizer && ranks.parts() > 1;
      const int writers = sharded ? ranks.parts() : 1;
      std::optional<step::Snapshot> snapshot;
      run::CheckpointWriter* mine = nullptr;
      step::TrainLoopOptions options;
      options.local_flags = [&mine] {
        const run::CheckpointWriter::Progress progress = mine->progress();
        step::StepFlags flags;
        flags.writing = progress.writing;
        flags.write_failed = progress.failed;
        return flags;
      };
      step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan,
                           samples::stream_of(source), options);
      step::TrainingState start;
      start.parameters = model::initial_weights(table, config.seed);
      loop.load(start);
      if (ranks.rank() < writers) {
        snapshot.emplace(*device, table, loop.pieces(), ranks.rank(), writers, ranks.rank() == 0);
      }
      run::CheckpointWriter writer(keeper, ranks.host(), clock, writers, -1);
      mine = &writer;
      Rank rank{ranks, loop, keeper, writer, snapshot ? &*snapshot : nullptr, files, clock};
      body(rank);
    });
  }
  [[nodiscard]] std::vector<checkpoint::Entry> entries() const {
    return CheckpointStore(base::posix_file_system(), checkpoints_).list();
  }

  TemporaryDirectory folder_;
  base::Path checkpoints_;
};

// Training goes on while the file is being written, and changes nothing in it.
TEST_F(CheckpointWriterTest, WritesTheStateOfItsStepBesideLaterSteps) {
  on_ranks(config(1), [&](Rank& rank) {
    for (int step = 1; step <= 3; ++step) rank.step(step);
    const step::TrainingState then = whole_state(rank.ranks, rank.loop);
    rank.clock.set_open(false);
    rank.save(3);
    for (int step = 4; step <= 8; ++step) rank.step(step);
    EXPECT_EQ(rank.writer.step_under_way(), 3);
    EXPECT_EQ(rank.writer.saved_step(), -1);
    EXPECT_TRUE(rank.records.empty());
    rank.clock.set_open(true);
    rank.take(rank.writer.settle());
    EXPECT_EQ(rank.writer.saved_step(), 3);
    EXPECT_EQ(rank.writer.step_under_way(), -1);
    ASSERT_EQ(rank.records.size(), 1U);
    const contract::CheckpointRecord& record = rank.records[0];
    EXPECT_EQ(record.status, "written");
    EXPECT_EQ(record.step, 3);
    EXPECT_GT(record.copy_seconds, 0);
    EXPECT_GE(record.stall_seconds, record.copy_seconds);
    EXPECT_GE(record.seconds, record.write_seconds + record.sync_seconds);
    EXPECT_GT(record.write_seconds, 0);
    EXPECT_GT(record.sync_seconds, 0);
    std::vector<contract::CheckpointRecord> skipped;
    const auto found = rank.read(&skipped);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->step, 3);
    EXPECT_EQ(found->parameters, then.parameters);
    EXPECT_EQ(found->first_moment, then.first_moment);
    EXPECT_EQ(found->second_moment, then.second_moment);
  });
}

TEST_F(CheckpointWriterTest, HasOneInFlight) {
  on_ranks(config(1), [&](Rank& rank) {
    rank.step(1);
    rank.clock.set_open(false);
    rank.save(1);
    rank.step(2);
    std::thread opener([&, before = rank.clock.owners_reads()] {
      while (rank.clock.owners_reads() == before) std::this_thread::yield();  // it waits now
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      rank.clock.set_open(true);
    });
    rank.save(2);  // waits for the first
    opener.join();
    ASSERT_EQ(rank.records.size(), 1U);
    EXPECT_GE(rank.records[0].stall_seconds, 0.04) << "the wait is told";
    EXPECT_LT(rank.records[0].copy_seconds, rank.records[0].stall_seconds) << "and is not a copy";
    rank.take(rank.writer.settle());
    EXPECT_EQ(entries().size(), 2U);
  });
}

// Sharded by four ranks, flat and in two nodes; visible only once all have told that they are done.
TEST_F(CheckpointWriterTest, RanksAgreeOnAWholeCheckpoint) {
  for (const int node_ranks : {0, 2}) {
    SCOPED_TRACE(node_ranks);
    std::mutex mutex;
    std::map<int, std::int64_t> moved_at;  // the step after which rank r knew
    on_ranks(
        config(4),
        [&](Rank& rank) {
          const bool last = rank.ranks.rank() == rank.ranks.parts() - 1;
          rank.step(1);
          rank.step(2);
          const step::TrainingState then = whole_state(rank.ranks, rank.loop);
          if (last) rank.clock.set_open(false);
          rank.save(2);
          for (int step = 3; step <= 5; ++step) rank.step(step);
          EXPECT_EQ(rank.writer.step_under_way(), 2);
          if (rank.ranks.rank() == 0) {
            while (entries().empty()) std::this_thread::yield();
            EXPECT_EQ(entries().at(0).status, Status::Unfinished);
          }
          rank.ranks.host().barrier();
          if (last) rank.clock.set_open(true);
          int step = 5;
          while (rank.writer.step_under_way() >= 0 && step < 2000) rank.step(++step);
          EXPECT_EQ(rank.writer.saved_step(), 2);
          {
            const std::scoped_lock lock(mutex);
            moved_at[rank.ranks.rank()] = step;
          }
          if (rank.ranks.rank() != 0) {
            EXPECT_TRUE(rank.records.empty());
            return;
          }
          ASSERT_EQ(rank.records.size(), 1U);
          EXPECT_EQ(rank.records[0].status, "written") << rank.records[0].message;
          EXPECT_EQ(entries().at(0).manifest->step, 2);
          EXPECT_EQ(entries().at(0).manifest->value, 0.25) << "what the best are kept by";
          std::vector<contract::CheckpointRecord> skipped;
          const auto found = rank.read(&skipped);
          ASSERT_TRUE(found.has_value()) << (skipped.empty() ? "" : skipped[0].message);
          EXPECT_EQ(found->parameters, then.parameters);
          EXPECT_EQ(found->first_moment, then.first_moment);
          EXPECT_EQ(found->second_moment, then.second_moment);
        },
        node_ranks);
    ASSERT_EQ(moved_at.size(), 4U);
    for (const auto& [rank, step] : moved_at) EXPECT_EQ(step, moved_at[0]) << rank;
    const auto parts = static_cast<std::size_t>(node_ranks == 0 ? 4 : 2);
    EXPECT_EQ(entries().at(0).manifest->files.size(), 1 + parts);
    base::posix_file_system().remove_tree(folder_.path() / "run");
  }
}

// A full disk under one rank: training goes on, the reason is told, nothing is left, and the next
// one is written.
TEST_F(CheckpointWriterTest, OneRanksFailureIsEveryones) {
  on_ranks(config(3), [&](Rank& rank) {
    rank.step(1);
    rank.save(1);
    rank.take(rank.writer.settle());
    EXPECT_EQ(rank.writer.saved_step(), 1);
    rank.step(2);
    if (rank.ranks.rank() == 2) rank.files.fail_at(3, Fault::ForEver);
    rank.save(2);
    int step = 2;
    while (rank.writer.step_under_way() >= 0 && step < 2000) rank.step(++step);
    EXPECT_EQ(rank.writer.saved_step(), 1) << "the one before stays the newest";
    rank.files.heal();
    rank.save(step);
    rank.take(rank.writer.settle());
    EXPECT_EQ(rank.writer.saved_step(), step);
    if (rank.ranks.rank() != 0) return;
    ASSERT_EQ(rank.records.size(), 3U);
    EXPECT_EQ(rank.records[1].status, "failed");
    EXPECT_NE(rank.records[1].message.find("rank 2"), std::string::npos) << rank.records[1].message;
    EXPECT_NE(rank.records[1].message.find("simulated"), std::string::npos)
        << rank.records[1].message;
    const auto found = entries();
    ASSERT_EQ(found.size(), 2U) << "what the others wrote of it is removed";
    EXPECT_EQ(found[0].step, step);
    EXPECT_EQ(found[1].step, 1);
  });
}

TEST_F(CheckpointWriterTest, AFailedManifestIsEveryonesToo) {
  on_ranks(config(2), [&](Rank& rank) {
    rank.step(1);
    rank.save(1);
    // All shards are there, and rank 0 has been told.
    int step = 1;
    while (rank.ranks.rank() == 0 && rank.writer.progress().writing) {
    }
    rank.ranks.host().barrier();
    if (rank.ranks.rank() == 0) rank.files.fail_at(4, Fault::ForEver);
    while (rank.writer.step_under_way() >= 0 && step < 2000) rank.step(++step);
    rank.files.heal();
    EXPECT_EQ(rank.writer.saved_step(), -1);
    if (rank.ranks.rank() != 0) return;
    ASSERT_EQ(rank.records.size(), 1U);
    EXPECT_EQ(rank.records[0].status, "failed");
    std::vector<contract::CheckpointRecord> skipped;
    EXPECT_FALSE(rank.read(&skipped).has_value());
  });
}

// With the moments in parts and without, by few ranks and many: what was saved is what is read.
TEST_F(CheckpointWriterTest, EveryLayoutReadsBackTheSame) {
  struct Row {
    int ranks;
    bool sharded;
    int node_ranks;
  };
  for (const Row& row : {Row{1, true, 0}, Row{2, false, 0}, Row{3, true, 0}, Row{4, true, 2}}) {
    contract::RunConfig c = config(row.ranks);
    c.sharding.optimizer = row.sharded;
    on_ranks(
        c,
        [&](Rank& rank) {
          for (int step = 1; step <= 3; ++step) rank.step(step);
          const step::TrainingState then = whole_state(rank.ranks, rank.loop);
          rank.save(3);
          rank.take(rank.writer.settle());
          if (rank.ranks.rank() != 0) return;
          std::vector<contract::CheckpointRecord> skipped;
          const auto found = rank.read(&skipped);
          ASSERT_TRUE(found.has_value()) << row.ranks;
          EXPECT_EQ(found->parameters, then.parameters) << row.ranks;
          EXPECT_EQ(found->first_moment, then.first_moment) << row.ranks;
          EXPECT_EQ(found->second_moment, then.second_moment) << row.ranks;
        },
        row.node_ranks);
    base::posix_file_system().remove_tree(folder_.path() / "run");
  }
}

}  // namespace
}  // namespace regatta::tests
