// What another process, or the machine's end, meets between any two operations of a writer, a
// pinner and a round of retention.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "base/error.h"
#include "checkpoint/pins.h"
#include "checkpoint/retention.h"
#include "checkpoint/tombstones.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using tests::always;
using tests::FaultyFileSystem;
using tests::sample_files;
using tests::SampleCheckpoint;
using tests::write_sample_shard;

constexpr double kNow = 1.7e9;
constexpr int kMostOperations = 500;

class InterleavingTest : public testing::Test {
 protected:
  std::string write(std::int64_t step) {
    const SampleCheckpoint sample(step, "aaaa");
    return store_.write(sample.contents, always).name;
  }
  // Calls `act` right before the n-th operation of `files`. False when it never came to that.
  template <typename Body>
  static bool at_operation(int n, FaultyFileSystem* files, const std::function<void()>& act,
                           const Body& body) {
    int operation = 0;
    files->set_before_each([&] {
      if (++operation == n) act();
    });
    body();
    files->set_before_each({});
    return operation >= n;
  }
  template <typename Body>
  static bool passes(const Body& body) {
    try {
      body();
      return true;
    } catch (const base::Error&) {
      return false;
    }
  }

  FaultyFileSystem files_;  // never fails here, and spares the disk the syncs
  tests::TemporaryDirectory directory_;
  CheckpointStore store_{files_, directory_.path() / "checkpoints"};
};

// Its writer may be on another machine than the one that commits and syncs the directory there.
TEST_F(InterleavingTest, AShardThatReturnedSurvivesACrash) {
  const SampleCheckpoint sample(100, "aaaa");
  files_.create_directory(store_.directory());
  files_.create_directory(store_.directory() / sample.name());
  for (const std::string& file : sample_files(2)) {
    FaultyFileSystem other;
    write_sample_shard({other, store_.directory()}, sample, file);
    other.crash(tests::Crash::LoseEverything);
  }
  store_.commit(sample.contents.manifest, sample_files(2), always, base::system_clock());
  EXPECT_TRUE(tests::load_sample(store_).whole);
}

TEST_F(InterleavingTest, AFailedCommitShowsNothing) {
  const SampleCheckpoint sample(100, "aaaa");
  for (const std::string& file : sample_files(2)) write_sample_shard(store_, sample, file);
  for (int n = 1;; ++n) {
    ASSERT_LT(n, kMostOperations);
    FaultyFileSystem faulty;
    faulty.fail_at(n, tests::Fault::Once);
    CheckpointStore store(faulty, store_.directory());
    const bool finished = passes([&] {
      store.commit(sample.contents.manifest, sample_files(2), always, base::system_clock());
    });
    ASSERT_EQ(store_.list().size(), 1U);
    EXPECT_EQ(store_.list()[0].status, finished ? Status::Valid : Status::Unfinished)
        << "operation " << n;
    if (finished && faulty.operations() < n) break;
    if (finished) store_.remove(sample.name());
  }
}

// The data goes with the last operation; the manifest must have gone before, also after a crash.
TEST_F(InterleavingTest, AHalfRemovedCheckpointIsUnfinished) {
  FaultyFileSystem sound, faulty;
  CheckpointStore(sound, store_.directory()).remove(write(100));
  EXPECT_TRUE(store_.list().empty());
  const std::string name = write(100);
  faulty.fail_at(sound.operations(), tests::Fault::ForEver);
  EXPECT_FALSE(passes([&] { CheckpointStore(faulty, store_.directory()).remove(name); }));
  faulty.crash(tests::Crash::LoseEverything);
  ASSERT_EQ(store_.list().size(), 1U);
  EXPECT_EQ(store_.list()[0].status, Status::Unfinished);
}

// Either the pin (or the mark of a reader) is refused, or the round leaves the checkpoint alone.
TEST_F(InterleavingTest, APinAtAnyMomentOfARoundHoldsOrIsRefused) {
  for (const bool reads : {false, true}) {
    int held_ones = 0;
    for (int n = 1;; ++n) {
      SCOPED_TRACE((reads ? "mark before operation " : "pin before operation ") +
                   std::to_string(n));
      ASSERT_LT(n, kMostOperations);
      files_.remove_tree(store_.directory());
      const std::string old = write(1);
      write(2);
      std::unique_ptr<ReadingMark> mark;
      bool held = false;
      const auto hold = [&] {
        held = passes([&] {
          if (reads) {
            mark = std::make_unique<ReadingMark>(files_, store_.directory(), old, "test", kNow);
          } else {
            pin(files_, store_.directory(), old, {"mine", kNow});
          }
        });
      };
      FaultyFileSystem other;
      CheckpointStore store(other, store_.directory());
      const bool met = at_operation(n, &other, hold, [&] {
        apply_retention(other, store, {1}, {"bbbb", kNow});
      });
      if (held) {
        EXPECT_EQ(store_.verify(old), std::nullopt);
        EXPECT_EQ(read_tombstones(files_, store_.directory()).count(old), 0U)
            << "its removal is called off";
      }
      held_ones += held ? 1 : 0;
      if (!met) break;
    }
    EXPECT_GT(held_ones, 0) << "or nothing was tried";
  }
}

// A tombstone that was there before the pin was is seen by whoever pins: who wrote it does not see
// the pin.
TEST_F(InterleavingTest, ARemovalAtAnyMomentIsSeenByWhoPins) {
  const std::string name = write(1);
  const base::Path& checkpoints = store_.directory();
  for (const bool reads : {false, true}) {
    int refused = 0;
    for (int n = 1;; ++n) {
      SCOPED_TRACE((reads ? "mark, operation " : "pin, operation ") + std::to_string(n));
      ASSERT_LT(n, kMostOperations);
      files_.remove_file(checkpoints / "removed.jsonl");
      bool was_there = false;
      const auto bury = [&] {
        was_there = reads ? read_marks(files_, checkpoints, kNow).count(name) != 0
                          : read_pins(files_, checkpoints).count(name) != 0;
        add_tombstones(files_, checkpoints, {{name, 1, kNow, "old", false, "aa"}});
      };
      FaultyFileSystem other;
      std::unique_ptr<ReadingMark> mark;
      bool held = false;
      const bool met = at_operation(n, &other, bury, [&] {
        held = passes([&] {
          if (reads) {
            mark = std::make_unique<ReadingMark>(other, checkpoints, name, "test", kNow);
          } else {
            pin(other, checkpoints, name, {"mine", kNow});
          }
        });
      });
      if (!met) {
        EXPECT_TRUE(held);
        (void)unpin(files_, checkpoints, name);
        break;
      }
      if (!was_there) {
        EXPECT_FALSE(held);
      }
      refused += held ? 0 : 1;
      if (!held) {
        EXPECT_TRUE(read_pins(files_, checkpoints).empty()) << "what was refused leaves nothing";
        EXPECT_TRUE(read_marks(files_, checkpoints, kNow).empty());
      }
      (void)unpin(files_, checkpoints, name);
    }
    EXPECT_GT(refused, 0) << "or nothing was tried";
  }
}

}  // namespace
}  // namespace regatta::checkpoint
