// Every operation failing once and for ever, crashes between any two, torn writes, and damage to
// the bytes: of checkpoints that one process writes, and of those that four do, each a shard. After
// reopening, the old or the new checkpoint is whole and recognised: never neither, never a wrong
// one.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "base/error.h"
#include "checkpoint/retention.h"
#include "checkpoint/store.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"
#include "tests/checkpoint/turns.h"

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
constexpr std::int64_t kRows = 1400;  // several blocks of the disk in every file
constexpr std::int64_t kOld = 100;
constexpr std::int64_t kNew = 200;

struct Counts {
  int faults = 0;
  int before = 0;  // the old one was found whole
  int after = 0;   // the new one
  int neither = 0;
  int wrong = 0;  // one that holds what was never written

  void report() const {
    const std::string line = "injected " + std::to_string(faults) + " faults: old " +
                             std::to_string(before) + ", new " + std::to_string(after) +
                             ", neither " + std::to_string(neither) + ", wrong " +
                             std::to_string(wrong);
    std::printf("%s\n", line.c_str());
    testing::Test::RecordProperty("counts", line);
    EXPECT_EQ(neither, 0);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(before + after, faults);
  }
};

// The parameter: into how many shards the optimizer goes; 0 for write(), the whole from one thread.
class FaultsTest : public testing::TestWithParam<int> {
 protected:
  FaultsTest() {
    std::string none;
    EXPECT_TRUE(write(&clean_files_, kOld, "aaaa", 0, &none)) << none;
  }

  // Writes a checkpoint the way the parameter says, the operations of its writers in an order that
  // follows from the seed. False and the errors when it failed; what its attempt would remove then
  // is removed.
  bool write(FaultyFileSystem* files, std::int64_t step, const std::string& execution,
             std::uint64_t seed, std::string* errors) {
    const SampleCheckpoint sample(step, execution, kRows);
    CheckpointStore store(*files, clean_.directory());
    if (GetParam() == 0) {
      return passes(errors, [&] { store.write(sample.contents, always); });
    }
    const std::vector<std::string> shards = tests::sample_files(GetParam());
    const auto written = write_shards(files, sample, shards, seed, errors);
    const bool whole =
        written && passes(errors, [&] {
          store.commit(sample.contents.manifest, shards, always, base::system_clock());
        });
    std::string ignored;
    if (!whole) passes(&ignored, [&] { store.remove(sample.name()); });
    return whole;
  }

  bool write_shards(FaultyFileSystem* files, const SampleCheckpoint& sample,
                    const std::vector<std::string>& shards, std::uint64_t seed,
                    std::string* errors) {
    tests::Turns turns(static_cast<int>(shards.size()), seed);
    files->set_before_each([&] { turns.pass(); });
    std::vector<std::string> said(shards.size());
    std::atomic<std::size_t> good{0};
    std::vector<std::thread> writers;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      writers.emplace_back([&, i] {
        const tests::Turns::Member member(turns, static_cast<int>(i));
        good += passes(&said[i], [&] {
          tests::write_sample_shard({*files, clean_.directory()}, sample, shards[i]);
        });
      });
    }
    for (std::thread& writer : writers) writer.join();
    files->set_before_each({});
    for (const std::string& text : said) *errors += text;
    return good == shards.size();
  }

  template <typename Body>
  static bool passes(std::string* errors, const Body& body) {
    try {
      body();
      return true;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Operator) << error.what();
      EXPECT_NE(std::string(error.what()).find("simulated"), std::string::npos) << error.what();
      *errors += error.what();
      return false;
    }
  }

  // Reopens after one fault: what load_latest takes, and whether verify takes the same. The
  // step that was found.
  std::int64_t reopen(Counts* counts) {
    ++counts->faults;
    const LoadedSample loaded = load_sample(clean_, kRows);
    std::optional<std::int64_t> verified;
    for (const CheckpointName& name :
         {CheckpointName{kNew, "bbbb"}, CheckpointName{kOld, "aaaa"}}) {
      if (clean_.verify(name.text())) continue;
      verified = name.step;
      break;
    }
    EXPECT_EQ(loaded.step, verified) << "reading and verifying disagree";
    if (!loaded.step) {
      ++counts->neither;
    } else if (!loaded.whole || (loaded.step != kOld && loaded.step != kNew)) {
      ++counts->wrong;
    } else {
      ++(loaded.step == kOld ? counts->before : counts->after);
    }
    return loaded.step.value_or(-1);
  }
  // What has a manifest has its data: nobody ever sees a half one that claims to be whole.
  void expect_nothing_damaged() {
    for (const Entry& entry : clean_.list()) {
      EXPECT_NE(entry.status, Status::Damaged) << entry.reason;
      if (entry.status == Status::Valid) {
        EXPECT_EQ(clean_.verify(entry.name), std::nullopt);
      }
    }
  }

  // Writes the new checkpoint with the n-th operation failing, for every n, until one write meets
  // no fault; after each, `look` is called with whether it finished.
  template <typename Look>
  void for_every_operation(Fault fault, std::uint64_t seed, const Look& look) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, kMostOperations);
      SCOPED_TRACE((fault == Fault::Once ? "once at " : "for ever from ") + std::to_string(n) +
                   ", seed " + std::to_string(seed));
      FaultyFileSystem faulty;
      faulty.fail_at(n, fault);
      std::string errors;
      const bool finished = write(&faulty, kNew, "bbbb", seed, &errors);
      EXPECT_EQ(finished, errors.empty()) << errors;
      const bool met = faulty.operations() >= n;
      look(&faulty, finished, static_cast<std::uint64_t>(n));
      std::filesystem::remove_all(clean_.directory() / name_of_new());
      if (!met) break;
    }
  }
  static std::string name_of_new() { return CheckpointName{kNew, "bbbb"}.text(); }
  // Seeds of the order in which several writers go; one writer has one order.
  static std::uint64_t orders(std::uint64_t several) { return GetParam() == 0 ? 1 : several; }

  tests::TemporaryDirectory directory_;
  FaultyFileSystem clean_files_;  // never fails, and spares the disk the syncs
  CheckpointStore clean_{clean_files_, directory_.path() / "checkpoints"};
};

TEST_P(FaultsTest, WriteSurvivesEveryFailingOperation) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < orders(2); ++seed) {
    for (const Fault fault : {Fault::Once, Fault::ForEver}) {
      for_every_operation(fault, seed, [&](FaultyFileSystem* faulty, bool finished, std::uint64_t) {
        // A writer that reports success has succeeded; one that fails leaves the old one, or when
        // even removing fails a whole new one.
        const std::int64_t found = reopen(&counts);
        expect_nothing_damaged();
        if (finished) {
          EXPECT_EQ(found, kNew);
          return;
        }
        if (fault == Fault::Once) {
          EXPECT_EQ(found, kOld);
          EXPECT_EQ(clean_.list().size(), 1U) << "the partial directory is removed";
        }
        if (found == kNew) return;
        // The disk recovers, and the same attempt tries once more.
        faulty->heal();
        std::string errors;
        EXPECT_TRUE(write(faulty, kNew, "bbbb", seed, &errors)) << errors;
        EXPECT_EQ(reopen(&counts), kNew);
      });
    }
  }
  counts.report();
}

TEST_P(FaultsTest, WriteSurvivesACrashAfterEveryOperation) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < orders(2); ++seed) {
    for (const Crash crash : {Crash::LoseBytes, Crash::LoseEverything}) {
      for_every_operation(Fault::ForEver, seed,
                          [&](FaultyFileSystem* faulty, bool finished, std::uint64_t) {
                            faulty->crash(crash);
                            const std::int64_t found = reopen(&counts);
                            expect_nothing_damaged();
                            if (finished) {
                              EXPECT_EQ(found, kNew);
                            }
                          });
    }
  }
  counts.report();
}

TEST_P(FaultsTest, WriteSurvivesTornWrites) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    for (const Crash crash : {Crash::TornEnds, Crash::TornBlocks}) {
      for_every_operation(Fault::ForEver, seed,
                          [&](FaultyFileSystem* faulty, bool finished, std::uint64_t n) {
                            faulty->crash(crash, 1000 * seed + n);
                            const std::int64_t found = reopen(&counts);
                            expect_nothing_damaged();
                            if (finished) {
                              EXPECT_EQ(found, kNew);
                            }
                          });
    }
  }
  counts.report();
}

TEST_P(FaultsTest, AWriteThatReturnedSurvivesACrash) {
  Counts counts;
  for (const Crash crash :
       {Crash::LoseBytes, Crash::LoseEverything, Crash::TornEnds, Crash::TornBlocks}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const SampleCheckpoint sample(kNew, "bbbb", kRows);
      FaultyFileSystem faulty;
      // Even the directory of checkpoints is new.
      CheckpointStore store(faulty, directory_.path() / "fresh");
      if (GetParam() == 0) {
        store.write(sample.contents, always);
      } else {
        tests::write_sample(store, sample, GetParam());
      }
      faulty.crash(crash, seed);
      const LoadedSample loaded = load_sample(store, kRows);
      ++counts.faults;
      counts.after += loaded.step == kNew && loaded.whole;
      counts.neither += !loaded.step;
      EXPECT_EQ(store.verify(sample.name()), std::nullopt);
      std::filesystem::remove_all(store.directory());
    }
  }
  counts.report();
}

TEST_P(FaultsTest, RetentionSurvivesEveryFailureAndCrash) {
  std::string errors;
  for (const Crash crash : {Crash::LoseBytes, Crash::LoseEverything}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, kMostOperations);
      SCOPED_TRACE("stopped at operation " + std::to_string(n));
      for (const std::int64_t step : {kOld, kNew}) {
        const std::string execution = step == kOld ? "aaaa" : "bbbb";
        std::filesystem::remove_all(clean_.directory() / CheckpointName{step, execution}.text());
        ASSERT_TRUE(write(&clean_files_, step, execution, 0, &errors));
      }
      for (const std::string& name : clean_files_.list(clean_.directory())) {  // the last round's
        if (!parse_checkpoint_name(name)) std::filesystem::remove_all(clean_.directory() / name);
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
      faulty.crash(crash, static_cast<std::uint64_t>(n));
      Counts counts;
      EXPECT_EQ(reopen(&counts), kNew);
      expect_nothing_damaged();
      if (finished) break;
    }
  }
}

TEST_P(FaultsTest, ReadingSurvivesEveryFailingOperation) {
  std::string errors;
  ASSERT_TRUE(write(&clean_files_, kNew, "bbbb", 0, &errors));
  Counts counts;
  int refused = 0;
  for (const Fault fault : {Fault::Once, Fault::ForEver}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, kMostOperations);
      SCOPED_TRACE((fault == Fault::Once ? "once at " : "for ever from ") + std::to_string(n));
      FaultyFileSystem faulty;
      const CheckpointStore store(faulty, clean_.directory());
      faulty.fail_at(n, fault);
      ++counts.faults;
      try {
        const LoadedSample loaded = load_sample(store, kRows);
        // Never scratch because of a failing disk: the newest, or the one before with a reason.
        counts.neither += !loaded.step;
        counts.wrong += loaded.step && !loaded.whole;
        ++(loaded.step == kNew ? counts.after : counts.before);
        if (loaded.step == kNew) {
          EXPECT_TRUE(loaded.skipped.empty());
        } else {
          EXPECT_EQ(loaded.step, kOld);
          ASSERT_EQ(loaded.skipped.size(), 1U);
          EXPECT_EQ(loaded.skipped[0].name, name_of_new());
        }
        if (faulty.operations() < n) break;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::Operator);
        ++refused;
        --counts.faults;
      }
    }
  }
  std::printf("%d reads said that the disk fails\n", refused);
  counts.report();
}

// A file whose bits are flipped in place, and back.
class Flipper {
 public:
  explicit Flipper(const base::Path& path)
      : stream_(path, std::ios::in | std::ios::out | std::ios::binary) {}
  void flip(std::uint64_t byte, unsigned bit) {
    const auto at = static_cast<std::streamoff>(byte);
    char value = 0;
    stream_.seekg(at);
    stream_.get(value);
    stream_.seekp(at);
    stream_.put(static_cast<char>(static_cast<unsigned char>(value) ^ (1U << bit)));
    stream_.flush();
    base::check(stream_.good(), "the file can be changed");
  }

 private:
  std::fstream stream_;
};

TEST_P(FaultsTest, EveryFlippedBitOfAHeaderIsFound) {
  std::string errors;
  ASSERT_TRUE(write(&clean_files_, kNew, "bbbb", 0, &errors));
  Counts counts;
  for (const std::string& file : tests::sample_files(std::max(GetParam(), 1))) {
    const base::Path path = clean_.directory() / name_of_new() / file;
    const std::uint64_t front = read_safetensors_front(clean_files_, path).data_begin;
    Flipper flipper(path);
    for (std::uint64_t bit = 0; bit < 8 * front; ++bit) {
      flipper.flip(bit / 8, bit % 8);
      EXPECT_EQ(reopen(&counts), kOld) << file << " bit " << bit;
      flipper.flip(bit / 8, bit % 8);
    }
  }
  EXPECT_EQ(counts.before, counts.faults);
  Counts afterwards;
  EXPECT_EQ(reopen(&afterwards), kNew) << "every bit is back";
  counts.report();
}

TEST_P(FaultsTest, AThousandFlippedBitsOfThePayloadAreFound) {
  std::string errors;
  ASSERT_TRUE(write(&clean_files_, kNew, "bbbb", 0, &errors));
  const std::vector<std::string> files = tests::sample_files(std::max(GetParam(), 1));
  std::mt19937_64 random(20'260'101);
  Counts counts;
  for (int i = 0; i < 1000; ++i) {
    const std::string& file = files[random() % files.size()];
    const base::Path path = clean_.directory() / name_of_new() / file;
    const std::uint64_t front = read_safetensors_front(clean_files_, path).data_begin;
    const std::uint64_t byte = front + random() % (std::filesystem::file_size(path) - front);
    const auto bit = static_cast<unsigned>(random() % 8);
    Flipper flipper(path);
    flipper.flip(byte, bit);
    EXPECT_EQ(reopen(&counts), kOld) << file << " byte " << byte << " bit " << bit;
    flipper.flip(byte, bit);
  }
  EXPECT_EQ(counts.before, counts.faults);
  counts.report();
}

// All of their bits: manifest_test.cc.
TEST_P(FaultsTest, AFlippedBitInEveryByteOfTheManifestIsFound) {
  std::string errors;
  ASSERT_TRUE(write(&clean_files_, kNew, "bbbb", 0, &errors));
  const base::Path path = clean_.directory() / name_of_new() / kManifestFile;
  Counts counts;
  Flipper flipper(path);
  for (std::uint64_t byte = 0; byte < std::filesystem::file_size(path); ++byte) {
    flipper.flip(byte, byte % 8);
    EXPECT_EQ(reopen(&counts), kOld) << "byte " << byte;
    flipper.flip(byte, byte % 8);
  }
  counts.report();
}

// Damage between a shard's writing and the commit: refused there, or found when reading.
TEST_P(FaultsTest, EveryFlippedBitOfASidecarIsSurvived) {
  const SampleCheckpoint sample(kNew, "bbbb", kRows);
  const std::vector<std::string> shards = tests::sample_files(std::max(GetParam(), 1));
  for (const std::string& shard : shards) tests::write_sample_shard(clean_, sample, shard);
  const base::Path path = clean_.directory() / sample.name();
  const base::Path sidecar = path / sidecar_file(shards[1]);
  Counts counts;
  int refused = 0;
  Flipper flipper(sidecar);
  for (std::uint64_t bit = 0; bit < 8 * std::filesystem::file_size(sidecar); ++bit) {
    flipper.flip(bit / 8, bit % 8);
    try {
      clean_.commit(sample.contents.manifest, shards, always, base::system_clock());
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << error.what();
      ++refused;
    }
    reopen(&counts);
    flipper.flip(bit / 8, bit % 8);
    clean_files_.remove_file(path / kManifestFile);
  }
  std::printf("%d commits refused\n", refused);
  EXPECT_GT(refused, counts.faults / 4);
  counts.report();
}

TEST_P(FaultsTest, EveryTruncationIsFound) {
  const SampleCheckpoint old(kOld, "aaaa");
  const SampleCheckpoint next(kNew, "bbbb");
  CheckpointStore store(clean_files_, directory_.path() / "small");
  const std::vector<std::string> shards = tests::sample_files(std::max(GetParam(), 1));
  for (const SampleCheckpoint* sample : {&old, &next}) {
    tests::write_sample(store, *sample, std::max(GetParam(), 1));
  }
  Counts counts;
  std::vector<std::string> files = shards;
  files.emplace_back(kManifestFile);
  for (const std::string& file : files) {
    const base::Path path = store.directory() / next.name() / file;
    const std::string good = clean_files_.read(path, 1 << 20);
    // The manifest ends in "}\n": without its last byte it says the same.
    std::uint64_t size = good.size() - (file == kManifestFile ? 2 : 1);
    for (;; --size) {
      std::filesystem::resize_file(path, size);
      EXPECT_TRUE(store.verify(next.name()).has_value()) << file << " cut to " << size;
      const LoadedSample loaded = load_sample(store);
      ++counts.faults;
      counts.before += loaded.step == kOld && loaded.whole;
      counts.wrong += loaded.step == kNew;
      counts.neither += !loaded.step;
      if (size == 0) break;
    }
    clean_files_.open(path, base::FileSystem::Open::Truncate)->append(good);
    EXPECT_EQ(load_sample(store).step, kNew);
  }
  counts.report();
}

INSTANTIATE_TEST_SUITE_P(Writers, FaultsTest, testing::Values(0, 3),
                         [](const testing::TestParamInfo<int>& written) {
                           return written.param == 0 ? std::string("One")
                                                     : "Shards" + std::to_string(written.param);
                         });

}  // namespace
}  // namespace regatta::checkpoint
