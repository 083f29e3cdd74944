// Every operation failing once and for ever, crashes between any two, and damage to every byte.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/retention.h"
#include "checkpoint/store.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using tests::always;
using tests::Crash;
using tests::Fault;
using tests::FaultyFileSystem;
using tests::load_sample;
using tests::LoadedSample;
using tests::SampleCheckpoint;

constexpr int kMostOperations = 500;

class FaultsTest : public testing::Test {
 protected:
  FaultsTest() {
    const SampleCheckpoint first(100, "aaaa");
    clean_.write(first.contents, always);
  }
  // The newest checkpoint that loads has this step and is whole.
  void expect_loads(std::int64_t step, bool or_the_one_before = false) {
    const LoadedSample loaded = load_sample(clean_);
    ASSERT_TRUE(loaded.step.has_value());
    const std::int64_t found = *loaded.step;
    EXPECT_TRUE(found == step || (or_the_one_before && found == step - 100)) << found;
    EXPECT_TRUE(loaded.whole);
  }
  // Whatever has a manifest has its data too.
  void expect_no_half_checkpoint() {
    for (const Entry& entry : clean_.list()) {
      EXPECT_NE(entry.status, Status::Damaged) << entry.reason;
      if (entry.status == Status::Valid) {
        EXPECT_EQ(clean_.verify(entry.name), std::nullopt);
      }
    }
  }

  tests::TemporaryDirectory directory_;
  base::FileSystem& files_ = base::posix_file_system();
  CheckpointStore clean_{files_, directory_.path() / "checkpoints"};
};

TEST_F(FaultsTest, WriteSurvivesEveryFailingOperation) {
  const SampleCheckpoint next(200, "bbbb");
  for (const Fault fault : {Fault::Once, Fault::ForEver}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, kMostOperations);
      SCOPED_TRACE((fault == Fault::Once ? "once at " : "for ever from ") + std::to_string(n));
      FaultyFileSystem faulty;
      CheckpointStore store(faulty, clean_.directory());
      faulty.fail_at(n, fault);
      bool failed = false;
      try {
        store.write(next.contents, always);
      } catch (const base::Error& error) {
        failed = true;
        EXPECT_EQ(error.code(), base::Code::Operator);
        EXPECT_NE(std::string(error.what()).find("simulated"), std::string::npos);
      }
      // A writer that reports success has succeeded; one that fails leaves the old one, or when
      // even removing fails a whole new one.
      expect_loads(200, failed);
      expect_no_half_checkpoint();
      if (failed && fault == Fault::Once) {
        expect_loads(100);
        EXPECT_EQ(clean_.list().size(), 1U) << "the partial directory is removed";
      }
      clean_.remove(next.name());
      if (!failed) break;
    }
  }
}

TEST_F(FaultsTest, WriteSurvivesACrashAfterEveryOperation) {
  const SampleCheckpoint next(200, "bbbb");
  for (const Crash crash : {Crash::LoseBytes, Crash::LoseEverything}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, kMostOperations);
      SCOPED_TRACE("crash before operation " + std::to_string(n));
      FaultyFileSystem faulty;
      CheckpointStore store(faulty, clean_.directory());
      faulty.fail_at(n, Fault::ForEver);  // the machine does nothing more
      bool finished = true;
      try {
        store.write(next.contents, always);
      } catch (const base::Error&) {
        finished = false;
      }
      faulty.crash(crash);
      expect_loads(200, !finished);
      expect_no_half_checkpoint();
      clean_.remove(next.name());
      if (finished) break;
    }
  }
}

TEST_F(FaultsTest, AWriteThatReturnedSurvivesACrash) {
  for (const Crash crash : {Crash::LoseBytes, Crash::LoseEverything}) {
    FaultyFileSystem faulty;
    CheckpointStore store(faulty, directory_.path() / ("fresh" + std::to_string(int(crash))));
    const SampleCheckpoint sample(300, "cccc");
    faulty.create_directory(store.directory());  // the run directory's maker has synced it
    faulty.sync_directory(directory_.path());
    store.write(sample.contents, always);
    faulty.crash(crash);
    const LoadedSample loaded = load_sample(store);
    EXPECT_EQ(loaded.step, 300);
    EXPECT_TRUE(loaded.whole);
  }
}

TEST_F(FaultsTest, RetentionSurvivesEveryFailureAndCrash) {
  for (const Crash crash : {Crash::LoseBytes, Crash::LoseEverything}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, kMostOperations);
      SCOPED_TRACE("stopped at operation " + std::to_string(n));
      for (const std::int64_t step : {200, 300}) {
        clean_.remove(CheckpointName{step, "bbbb"}.text());
        const SampleCheckpoint sample(step, "bbbb");
        clean_.write(sample.contents, always);
      }
      for (const std::string& name : files_.list(clean_.directory())) {  // of the round before
        if (!parse_checkpoint_name(name)) files_.remove_tree(clean_.directory() / name);
      }
      FaultyFileSystem faulty;
      CheckpointStore store(faulty, clean_.directory());
      faulty.fail_at(n, Fault::ForEver);
      bool finished = true;
      try {
        apply_retention(faulty, store, {1}, {"bbbb", 0});
      } catch (const base::Error&) {
        finished = false;
      }
      faulty.crash(crash);
      expect_loads(300);
      expect_no_half_checkpoint();
      if (finished) break;
    }
    const SampleCheckpoint first(100, "aaaa");
    clean_.remove(first.name());
    clean_.write(first.contents, always);
  }
}

TEST_F(FaultsTest, ReadingSurvivesEveryFailingOperation) {
  const SampleCheckpoint next(200, "bbbb");
  clean_.write(next.contents, always);
  for (const Fault fault : {Fault::Once, Fault::ForEver}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, kMostOperations);
      SCOPED_TRACE((fault == Fault::Once ? "once at " : "for ever from ") + std::to_string(n));
      FaultyFileSystem faulty;
      const CheckpointStore store(faulty, clean_.directory());
      faulty.fail_at(n, fault);
      try {
        const LoadedSample loaded = load_sample(store);
        // Never scratch because of a failing disk: the newest, or the one before with a reason.
        EXPECT_TRUE(loaded.whole);
        if (loaded.step == 200) {
          EXPECT_TRUE(loaded.skipped.empty());
        } else {
          EXPECT_EQ(loaded.step, 100);
          ASSERT_EQ(loaded.skipped.size(), 1U);
          EXPECT_EQ(loaded.skipped[0].name, next.name());
        }
        if (faulty.operations() < n) break;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::Operator);
      }
    }
  }
}

TEST_F(FaultsTest, EveryTruncationAndFlippedBitIsFound) {
  const SampleCheckpoint next(200, "bbbb");
  clean_.write(next.contents, always);
  for (const char* name : {kModelFile, kOptimizerFile, kManifestFile}) {
    const base::Path path = clean_.directory() / next.name() / name;
    const std::string good = files_.read(path, 1 << 20);
    const bool manifest = std::string(name) == kManifestFile;
    const auto put = [&](const std::string& text) {
      files_.open(path, base::FileSystem::Open::Truncate)->append(text);
    };
    // The manifest ends in "}\n": without its last byte it says the same.
    for (std::size_t size = 0; size + (manifest ? 1 : 0) < good.size(); ++size) {
      put(good.substr(0, size));
      EXPECT_TRUE(clean_.verify(next.name()).has_value()) << name << " cut to " << size;
    }
    // A manifest has no digest of itself; a flipped bit in it must be survived, and is found where
    // it matters: digests, sizes, names.
    for (std::size_t byte = 0; byte < good.size(); ++byte) {
      std::string flipped = good;
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << byte % 8));
      put(flipped);
      const auto reason = clean_.verify(next.name());
      EXPECT_TRUE(manifest || reason.has_value()) << name << " byte " << byte;
    }
    put(good.substr(0, good.size() / 2));
    expect_loads(100);
    put(good);
    expect_loads(200);
  }
}

}  // namespace
}  // namespace regatta::checkpoint
