// Retention on the disk: what goes, in which order, and what a cut in between leaves.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/pins.h"
#include "checkpoint/retention.h"
#include "checkpoint/tombstones.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using Names = std::vector<std::string>;
using Mode = RetentionRound::Mode;
using tests::always;
using tests::SampleCheckpoint;

class ApplyRetentionTest : public testing::Test {
 protected:
  Names names() const {
    Names found;
    for (const Entry& entry : store_.list()) found.push_back(entry.name);
    return found;
  }
  std::string write(std::int64_t step, const std::string& execution) {
    const SampleCheckpoint sample(step, execution);
    return store_.write(sample.contents, always).name;
  }

  Names apply(const RetentionPolicy& policy, Mode mode = Mode::Apply, double now = kNow) {
    return apply_retention(files_, store_, policy, {"bbbb", now, mode}).removed;
  }
  void flip_a_byte(const std::string& name) {
    std::fstream file(store_.directory() / name / kModelFile,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }

  static constexpr double kNow = 1.7e9;
  tests::FaultyFileSystem files_;  // never fails here, and spares the disk the syncs
  tests::TemporaryDirectory directory_;
  CheckpointStore store_{files_, directory_.path() / "checkpoints"};
};

TEST_F(ApplyRetentionTest, RemovesOldAndBrokenOnesOnly) {
  const std::string old = write(1, "aaaa");
  const std::string unfinished = write(2, "aaaa");
  const std::string damaged = write(3, "aaaa");
  const std::string ours = write(4, "bbbb");
  const std::string kept = write(5, "bbbb");
  const std::string newest = write(6, "bbbb");
  const std::string later = write(7, "aaaa");
  for (const std::string& name : {unfinished, ours, later}) {
    files_.remove_file(store_.directory() / name / kManifestFile);
  }
  base::replace_file(files_, store_.directory() / damaged / kManifestFile, "{");
  files_.create_directory(store_.directory() / "notes");

  EXPECT_EQ(apply({2}), (Names{old, unfinished, damaged}));
  EXPECT_EQ(names(), (Names{later, newest, kept, ours}));
  EXPECT_TRUE(files_.exists(store_.directory() / "notes"));
}

// Their manifests are whole, and their bytes are not.
TEST_F(ApplyRetentionTest, WhatWasFoundDamagedDoesNotCount) {
  const std::string a = write(10, "aaaa"), b = write(20, "aaaa");
  const std::string now = write(1, "bbbb");
  const RetentionRound round{"bbbb", kNow, Mode::Apply, {a, b}};
  EXPECT_EQ(apply_retention(files_, store_, {1}, round).removed, Names{});
  const std::string later = write(15, "bbbb");
  EXPECT_EQ(apply_retention(files_, store_, {1}, round).removed, (Names{now, a}));
  EXPECT_EQ(names(), (Names{b, later}));
}

TEST_F(ApplyRetentionTest, WhatTheRunHasGoneBackBeyondGoesFirst) {
  const std::string left = write(30, "aaaa"), kept = write(10, "aaaa");
  SampleCheckpoint since(20, "bbbbr1");
  since.contents.manifest.rollbacks = {{32, 10}};
  const std::string newest = store_.write(since.contents, always).name;
  EXPECT_EQ(apply({2}), Names{left});
  EXPECT_EQ(names(), (Names{newest, kept}));
}

TEST_F(ApplyRetentionTest, RemovesNothingWhenNothingIsValid) {
  const std::string only = write(1, "aaaa");
  files_.remove_file(store_.directory() / only / kManifestFile);
  EXPECT_TRUE(apply({1}).empty());
  EXPECT_EQ(names(), Names{only});
}

TEST_F(ApplyRetentionTest, NeverReachesThroughALink) {
  const std::string newest = write(9, "aaaa");
  const base::Path outside = directory_.path() / "outside";
  std::filesystem::copy(store_.directory() / newest, outside);
  const std::string link = CheckpointName{1, "aaaa"}.text();
  std::filesystem::create_directory_symlink(outside, store_.directory() / link);
  store_.remove(link);
  EXPECT_FALSE(files_.exists(store_.directory() / link));
  EXPECT_EQ(files_.list(outside).size(), 5U);
}

TEST_F(ApplyRetentionTest, RemoveTakesCheckpointNamesOnly) {
  write(1, "aaaa");
  for (const char* name : {"", ".", "..", "../checkpoints", "/", "step-1", "step-0000000001-",
                           "step-0000000001-a/b", "step-0000000001-..", "notes"}) {
    EXPECT_THROW(store_.remove(name), base::Error) << name;
  }
  EXPECT_EQ(names().size(), 1U);
  EXPECT_NO_THROW(store_.remove(CheckpointName{77, "gone"}.text()));
}

TEST_F(ApplyRetentionTest, LeavesTombstones) {
  const std::string old = write(1, "aaaa");
  write(2, "aaaa");
  EXPECT_EQ(apply({1}, Mode::Plan), Names{});
  EXPECT_TRUE(read_tombstones(files_, store_.directory()).empty());
  EXPECT_EQ(names().size(), 2U) << "a plan removes nothing";
  EXPECT_EQ(apply({1}), Names{old});
  const auto tombstones = read_tombstones(files_, store_.directory());
  ASSERT_EQ(tombstones.size(), 1U);
  EXPECT_EQ(tombstones.at(old).step, 1);
  EXPECT_EQ(tombstones.at(old).utc_seconds, kNow);
  EXPECT_EQ(tombstones.at(old).why, "not among the latest 1");
  EXPECT_EQ(apply({1}), Names{}) << "once is enough";
  const std::string line = files_.read(store_.directory() / "removed.jsonl", 10000);
  EXPECT_EQ(line.rfind(R"({"name":"step-0000000001-aaaa","step":1,"utc_seconds":1700000000.0,)"
                       R"("why":"not among the latest 1","round":")",
                       0),
            0U)
      << line;
}

TEST_F(ApplyRetentionTest, RespectsPinsAndMarks) {
  const std::string pinned_one = write(1, "aaaa");
  const std::string read_one = write(2, "aaaa");
  const std::string other = write(3, "aaaa");
  const std::string newest = write(4, "aaaa");
  pin(files_, store_.directory(), pinned_one, {"keep", kNow});
  {
    const ReadingMark mark(files_, store_.directory(), read_one, "test", kNow);
    EXPECT_EQ(apply({1}), Names{other});
    EXPECT_EQ(names(), (Names{newest, read_one, pinned_one}));
    EXPECT_EQ(apply({1}, Mode::Apply, kNow + kLongestMark), Names{read_one})
        << "its reader has died";
  }
  EXPECT_TRUE(unpin(files_, store_.directory(), pinned_one));
  EXPECT_EQ(apply({1}), Names{pinned_one});
}

TEST_F(ApplyRetentionTest, KeepsTheBestByTheMetricNamed) {
  const auto write_value = [&](std::int64_t step, const char* metric, double value) {
    SampleCheckpoint sample(step, "aaaa");
    sample.contents.manifest.metric = metric;
    sample.contents.manifest.value = value;
    return store_.write(sample.contents, always).name;
  };
  write_value(1, "mlm_accuracy", 0.9);
  const std::string best = write_value(2, "mlm_loss", 1.0);
  write_value(3, "mlm_loss", 2.0);
  const std::string newest = write_value(4, "mlm_loss", 3.0);
  apply({1, 1, 0, Better::Lowest, "mlm_loss"});
  EXPECT_EQ(names(), (Names{newest, best}));
}

TEST_F(ApplyRetentionTest, ReadsTheNewestBeforeOlderOnesGo) {
  write(1, "aaaa");
  const std::string good = write(2, "aaaa");
  const std::string newest = write(3, "aaaa");
  flip_a_byte(newest);
  apply({1}, Mode::Check);
  EXPECT_EQ(names(), (Names{newest, good})) << "the damaged one does not count";
}

TEST_F(ApplyRetentionTest, APreviewFindsAndNotesWhatTheRoundWill) {
  const std::string oldest = write(1, "aaaa"), good = write(2, "aaaa");
  const std::string damaged = write(3, "aaaa"), newest = write(4, "aaaa");
  flip_a_byte(damaged);
  flip_a_byte(newest);
  const auto goes = [&](Mode mode) {
    Names found;
    for (const RetentionDecision& one :
         apply_retention(files_, store_, {1}, {"bbbb", kNow, mode}).decisions) {
      if (one.goes) found.push_back(one.name);
    }
    return found;
  };
  EXPECT_EQ(goes(Mode::Plan), (Names{damaged, good, oldest})) << "nobody has read the newest";
  EXPECT_EQ(goes(Mode::Preview), Names{oldest});
  EXPECT_EQ(names().size(), 4U) << "it removes nothing";
  const auto found = read_found_damage(files_, store_.directory());
  EXPECT_EQ(found.size(), 2U);
  EXPECT_EQ(found.count(newest), 1U);
  EXPECT_EQ(found.count(damaged), 1U);
  EXPECT_EQ(goes(Mode::Plan), Names{oldest}) << "what was found counts for those who do not read";
  EXPECT_EQ(goes(Mode::Check), Names{oldest});
  EXPECT_EQ(names(), (Names{newest, damaged, good}));
}

TEST_F(ApplyRetentionTest, FinishesARemovalThatWasCutShort) {
  const std::string whole = write(1, "bbbb");
  const std::string half = write(2, "bbbb");
  const std::string newest = write(3, "bbbb");
  const base::Path& path = store_.directory();
  add_tombstones(files_, path, {{whole, 1, kNow, "w", false}, {half, 2, kNow, "h", false}});
  files_.remove_file(path / half / kManifestFile);
  const std::string left = "removing-" + CheckpointName{4, "cccc"}.text() + "-0123456789abcdef";
  files_.create_directory(path / left);
  files_.create_directory(path / "removing-notes-00");
  EXPECT_EQ(apply({9}), (Names{whole, half}));
  EXPECT_EQ(names(), Names{newest});
  EXPECT_FALSE(files_.exists(path / left));
  EXPECT_TRUE(files_.exists(path / "removing-notes-00")) << "not of our making";
  EXPECT_EQ(read_tombstones(files_, path).at(whole).why, "w");
}

// Whatever fails and whenever the machine stops: the newest stays whole, and the next round
// finishes.
TEST_F(ApplyRetentionTest, TheNextRoundFinishesAfterEveryFailureAndCrash) {
  for (const auto crash : {tests::Crash::LoseBytes, tests::Crash::LoseEverything}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 1000);
      SCOPED_TRACE("stopped at operation " + std::to_string(n));
      for (const std::string& name : names()) store_.remove(name);
      files_.remove_file(store_.directory() / "removed.jsonl");
      const std::string old = write(1, "aaaa");
      const std::string older = write(2, "aaaa");
      const std::string newest = write(3, "aaaa");
      tests::FaultyFileSystem faulty;
      CheckpointStore store(faulty, store_.directory());
      faulty.fail_at(n, tests::Fault::ForEver);
      bool finished = true;
      try {
        apply_retention(faulty, store, {1}, {"bbbb", kNow});
      } catch (const base::Error&) {
        finished = false;
      }
      faulty.crash(crash);
      const auto tombstones = read_tombstones(files_, store_.directory());
      for (const std::string& name : {old, older}) {
        if (store_.verify(name)) {
          EXPECT_EQ(tombstones.count(name), 1U) << "gone without a word: " << name;
        }
      }
      apply({1});
      EXPECT_EQ(names(), Names{newest});
      EXPECT_EQ(store_.verify(newest), std::nullopt);
      for (const std::string& file : files_.list(store_.directory())) {
        EXPECT_NE(file.rfind("removing-", 0), 0U) << file;
      }
      EXPECT_EQ(read_tombstones(files_, store_.directory()).size(), 2U);
      if (finished) break;
    }
  }
}

TEST_F(ApplyRetentionTest, LinksOutOfTheTreeAreNotFollowed) {
  const std::string newest = write(9, "aaaa");
  const base::Path outside = directory_.path() / "outside";
  std::filesystem::create_directory(outside);
  std::filesystem::copy(store_.directory() / newest, outside / "deep",
                        std::filesystem::copy_options::recursive);
  const std::string link = CheckpointName{1, "aaaa"}.text();
  const std::string inner = write(2, "aaaa");
  std::filesystem::create_directory_symlink(outside / "deep", store_.directory() / link);
  std::filesystem::create_directory_symlink(outside, store_.directory() / inner / "way_out");
  std::filesystem::create_directory_symlink(
      outside, store_.directory() / ("removing-" + link + "-0011223344556677"));
  EXPECT_EQ(apply({1}), (Names{link, inner}));
  EXPECT_EQ(names(), Names{newest});
  EXPECT_EQ(files_.list(outside / "deep").size(), 5U);
}

TEST_F(ApplyRetentionTest, RefusesACheckpointsDirectoryThatIsALink) {
  write(1, "aaaa");
  write(2, "aaaa");
  const base::Path run = directory_.path() / "run";
  std::filesystem::create_directory(run);
  std::filesystem::create_directory_symlink(store_.directory(), run / "checkpoints");
  CheckpointStore linked(files_, run / "checkpoints");
  EXPECT_THROW(apply_retention(files_, linked, {1}, {"bbbb", kNow}), base::Error);
  EXPECT_EQ(names().size(), 2U);
}

// Somebody swaps a checkpoint for a link to a directory elsewhere, again and again, while it is
// being removed.
TEST_F(ApplyRetentionTest, ASwapForALinkDuringRemovalReachesNothing) {
  const std::string newest = write(9, "aaaa");
  const base::Path outside = directory_.path() / "outside";
  std::filesystem::copy(store_.directory() / newest, outside,
                        std::filesystem::copy_options::recursive);
  const base::Path target = store_.directory() / CheckpointName{1, "aaaa"}.text();
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    std::error_code ignored;
    while (!stop) {
      std::filesystem::create_directory(target, ignored);
      std::filesystem::rename(target, directory_.path() / "aside", ignored);
      std::filesystem::create_directory_symlink(outside, target, ignored);
      std::filesystem::remove(target, ignored);
      std::filesystem::remove(directory_.path() / "aside", ignored);
    }
  });
  for (int i = 0; i < 100; ++i) {
    try {
      apply({1});
    } catch (const base::Error&) {  // what it was about to remove has changed: an error is right
    }
  }
  stop = true;
  swapper.join();
  EXPECT_EQ(files_.list(outside).size(), 5U);
  EXPECT_EQ(store_.verify(newest), std::nullopt);
}

// One thread pins, two remove: never does a pin succeed on a checkpoint that is then removed.
TEST_F(ApplyRetentionTest, APinThatSucceededHolds) {
  int held = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string old = write(2 * round + 1, "aaaa");
    write(2 * round + 2, "aaaa");
    std::atomic<bool> pinned_it{false};
    std::thread pinner([&] {
      try {
        pin(files_, store_.directory(), old, {"mine", kNow});
        pinned_it = true;
      } catch (const base::Error&) {
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (round % 30)));  // either may win
    std::string trouble;
    std::thread another([&] {
      try {
        apply({1});
      } catch (const base::Error& error) {
        trouble = error.what();
      }
    });
    EXPECT_NO_THROW(apply({1}));
    another.join();
    pinner.join();
    ASSERT_EQ(trouble, "");
    // When each saw the other, both give way: not pinned, and still there.
    ASSERT_TRUE(!pinned_it || store_.verify(old) == std::nullopt) << "round " << round;
    held += pinned_it ? 1 : 0;
    (void)unpin(files_, store_.directory(), old);
    apply({1});
  }
  RecordProperty("pins_that_won", held);
}

}  // namespace
}  // namespace regatta::checkpoint
