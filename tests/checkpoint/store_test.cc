#include "checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/digest.h"
#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using testing::HasSubstr;
using tests::always;
using tests::kDataPrint;
using tests::kModelPrint;
using tests::load_sample;
using tests::LoadedSample;
using tests::sample_files;
using tests::SampleCheckpoint;
using tests::write_sample;
using tests::write_sample_shard;

TEST(CheckpointName, RoundTripsAndRefuses) {
  const CheckpointName name{1200, "0123456789abcdef"};
  EXPECT_EQ(name.text(), "step-0000001200-0123456789abcdef");
  const auto back = parse_checkpoint_name(name.text());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->step, 1200);
  EXPECT_EQ(back->execution, name.execution);
  for (const char* bad :
       {"", "step-", "step-1-a", "step-0000000001", "step-0000000001-", "stop-0000000001-a",
        "step-000000000x-a", "step-00000000001-a", "step-0000000001-a b", "step-0000000001-a/b",
        "step-0000000001-.", "step--000000001-a", "Step-0000000001-a", "step-0000000001-a.tmp"}) {
    EXPECT_FALSE(parse_checkpoint_name(bad).has_value()) << bad;
  }
}

class StoreTest : public testing::Test {
 protected:
  std::string write(std::int64_t step, const std::string& execution = "aaaa") {
    const SampleCheckpoint sample(step, execution);
    return store_.write(sample.contents, always).name;
  }
  base::Path path(const std::string& name, const char* file) const {
    return store_.directory() / name / file;
  }
  void change(const base::Path& file, const std::function<void(std::string*)>& edit) {
    std::string text = files_.read(file, 1 << 20);
    edit(&text);
    files_.open(file, base::FileSystem::Open::Truncate)->append(text);
  }

  // The error's code and message, which must hold `part`.
  template <typename Body>
  static std::optional<base::Code> refused(const char* part, const Body& body) {
    try {
      body();
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(part));
      return error.code();
    }
    return std::nullopt;
  }
  Written commit(const SampleCheckpoint& sample, int shards) {
    return store_.commit(sample.contents.manifest, sample_files(shards), always,
                         base::system_clock());
  }

  tests::FaultyFileSystem files_;  // never fails here, and spares the disk the syncs
  tests::TemporaryDirectory directory_;
  CheckpointStore store_{files_, directory_.path() / "checkpoints"};
};

TEST(CheckpointName, TellsTheRollbacksBefore) {
  EXPECT_EQ(rollbacks_of("0123456789abcdef"), 0);
  EXPECT_EQ(rollbacks_of("0123456789abcdefr1"), 1);
  EXPECT_EQ(rollbacks_of("0123456789abcdefr127"), 127);
  for (const char* other : {"", "r1", "0123r", "0123r1x", "writer1", "attempt7r"}) {
    EXPECT_EQ(rollbacks_of(other), 0) << other;
  }
}

// Of a run that went back: what it saved since is newer than what it saved before at later steps,
// and than what an earlier attempt saved after fewer rollbacks.
TEST_F(StoreTest, TheStateOfARunIsTheOneAfterTheMostRollbacks) {
  const auto write = [&](std::int64_t step, const std::string& execution, std::int64_t epoch,
                         std::vector<Rollback> rollbacks) {
    SampleCheckpoint sample(step, execution);
    sample.contents.manifest.epoch = epoch;
    sample.contents.manifest.rollbacks = std::move(rollbacks);
    return store_.write(sample.contents, always).name;
  };
  const Rollback first{22, 20}, second{24, 18};
  const std::string before = write(30, "ffff", 1, {});
  const std::string one = write(22, "eeeer1", 2, {first});
  const std::string earlier = write(20, "ddddr2", 3, {first, second});
  const std::string newest = write(20, "aaaar2", 4, {first, second});
  std::vector<std::string> names;
  for (const Entry& entry : store_.list()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{newest, earlier, one, before}));
}

TEST_F(StoreTest, EmptyStoreStartsFromScratch) {
  EXPECT_TRUE(store_.list().empty());
  const LoadedSample loaded = load_sample(store_);
  EXPECT_FALSE(loaded.step.has_value());
  EXPECT_TRUE(loaded.skipped.empty());
}

TEST_F(StoreTest, WritesListsVerifiesAndLoads) {
  const SampleCheckpoint sample(100, "aaaa");
  const Written written = store_.write(sample.contents, always);
  EXPECT_EQ(written.name, "step-0000000100-aaaa");
  std::uint64_t bytes = 0;
  const std::vector<std::string> files = files_.list(store_.directory() / written.name);
  for (const std::string& file : files) {
    bytes += std::filesystem::file_size(path(written.name, file.c_str()));
  }
  EXPECT_EQ(written.bytes, bytes);
  EXPECT_THAT(files,
              testing::UnorderedElementsAre(kModelFile, kOptimizerFile, kManifestFile,
                                            sidecar_file(kModelFile), sidecar_file(kOptimizerFile)))
      << "no temporary is left";
  write(50);

  const std::vector<Entry> entries = store_.list();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].step, 100) << "newest first";
  EXPECT_EQ(entries[0].status, Status::Valid);
  ASSERT_TRUE(entries[0].manifest.has_value());
  EXPECT_EQ(entries[0].manifest->samples, 3200);
  EXPECT_EQ(entries[0].manifest->files.at(kModelFile).digest,
            base::digest_of(files_.read(path(written.name, kModelFile), 1 << 20)));
  EXPECT_EQ(store_.verify(written.name), std::nullopt);

  const LoadedSample loaded = load_sample(store_);
  EXPECT_EQ(loaded.step, 100);
  EXPECT_TRUE(loaded.whole);
  EXPECT_TRUE(loaded.skipped.empty());
  const auto reader = SafetensorsReader::open(files_, path(written.name, kModelFile));
  EXPECT_EQ(reader.metadata().at("format"), "pt");
}

TEST_F(StoreTest, SameStepTwiceIsAConflictAndKeepsTheFirst) {
  const std::string name = write(100);
  try {
    write(100);
    FAIL() << "written twice";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
  }
  EXPECT_EQ(store_.verify(name), std::nullopt);
  EXPECT_NO_THROW(write(100, "bbbb")) << "another execution may repeat the step";
}

TEST_F(StoreTest, TakesOverItsOwnUnfinishedDirectory) {
  files_.create_directory(store_.directory());
  files_.create_directory(store_.directory() / "step-0000000100-aaaa");
  files_.open(path("step-0000000100-aaaa", kModelFile), base::FileSystem::Open::CreateNew)
      ->append("half");
  EXPECT_EQ(store_.verify(write(100)), std::nullopt);
}

TEST_F(StoreTest, FencedWritersLeaveNothing) {
  const std::string before = write(100);
  int asked = 0;
  const SampleCheckpoint sample(200, "aaaa");
  try {
    store_.write(sample.contents, [&] {
      ++asked;
      EXPECT_FALSE(files_.exists(path(sample.name(), kManifestFile))) << "asked before, not after";
      EXPECT_TRUE(files_.exists(path(sample.name(), kOptimizerFile)));
      return false;
    });
    FAIL() << "a fenced attempt wrote";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
    EXPECT_THAT(error.what(), HasSubstr("fenced"));
  }
  EXPECT_EQ(asked, 1);
  ASSERT_EQ(store_.list().size(), 1U);
  EXPECT_EQ(store_.list()[0].name, before);
}

TEST_F(StoreTest, SkipsUnfinishedAndDamagedOnesByName) {
  const std::string good = write(100);
  const std::string no_manifest = write(200);
  const std::string bad_manifest = write(300);
  const std::string bad_model = write(400);
  const std::string short_optimizer = write(500);
  const std::string long_model = write(600);
  const std::string no_model = write(700);
  const std::string wrong_directory = write(800);
  files_.remove_file(path(no_manifest, kManifestFile));
  change(path(bad_manifest, kManifestFile), [](std::string* text) { text->resize(40); });
  change(path(bad_model, kModelFile), [](std::string* text) { text->back() ^= 1; });
  change(path(short_optimizer, kOptimizerFile), [](std::string* text) { text->pop_back(); });
  change(path(long_model, kModelFile), [](std::string* text) { text->push_back('x'); });
  files_.remove_file(path(no_model, kModelFile));
  files_.rename(store_.directory() / wrong_directory, store_.directory() / "step-0000000900-aaaa");

  const LoadedSample loaded = load_sample(store_);
  EXPECT_EQ(loaded.step, 100);
  EXPECT_TRUE(loaded.whole);
  const std::pair<std::string, const char*> expected[] = {
      {"step-0000000900-aaaa", "belongs to another checkpoint"},
      {no_model, "cannot open"},
      {long_model, "model.safetensors is longer"},
      {short_optimizer, "optimizer.safetensors is shorter"},
      {bad_model, "model.safetensors is damaged"},
      {bad_manifest, "not a JSON object"},
      {no_manifest, "unfinished"}};
  ASSERT_EQ(loaded.skipped.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(loaded.skipped[i].name, expected[i].first);
    EXPECT_THAT(loaded.skipped[i].reason, HasSubstr(expected[i].second));
    const auto reason = store_.verify(expected[i].first);
    ASSERT_TRUE(reason.has_value());
    EXPECT_THAT(*reason, HasSubstr(expected[i].second));
  }
  const std::vector<Entry> entries = store_.list();
  EXPECT_EQ(entries[0].status, Status::Damaged);
  EXPECT_EQ(entries.back().status, Status::Valid);
}

TEST_F(StoreTest, ManifestMustListBothShards) {
  const std::string name = write(1);
  Manifest manifest = parse_manifest(files_.read(path(name, kManifestFile), 1 << 20), name);
  const auto entry = manifest.files.extract(kOptimizerFile);
  const auto reason = [&](const std::vector<std::string>& files) {
    Manifest changed = manifest;
    for (const std::string& file : files) changed.files[file] = entry.mapped();
    change(path(name, kManifestFile), [&](std::string* text) { *text = to_json(changed); });
    EXPECT_EQ(store_.list().at(0).status, Status::Damaged);
    return store_.verify(name).value_or("nothing");
  };
  EXPECT_THAT(reason({}), HasSubstr("does not list optimizer.safetensors"));
  EXPECT_THAT(reason({"something.else"}), HasSubstr("does not list optimizer.safetensors"));
  EXPECT_THAT(reason({shard_file(kOptimizer, 0, 2)}),
              HasSubstr("does not list optimizer-00002-of-00002.safetensors"));
  EXPECT_THAT(reason({kOptimizerFile, shard_file(kOptimizer, 0, 2), shard_file(kOptimizer, 1, 2)}),
              HasSubstr("several divisions of the optimizer"));
}

TEST_F(StoreTest, AnotherModelOrDataSetIsAnError) {
  write(100);
  const auto message = [&](const char* model, const char* data) -> std::string {
    try {
      (void)store_.load_latest(model, data, {}, {});
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("other", kDataPrint), HasSubstr("checkpoint of another model"));
  EXPECT_THAT(message(kModelPrint, "other"), HasSubstr("checkpoint of another data set"));
  EXPECT_THAT(message("other", "other"), HasSubstr("step-0000000100-aaaa"));
}

TEST_F(StoreTest, AnotherModelIsSkippedWhenAnOlderOneFits) {
  write(100);
  SampleCheckpoint other(200, "aaaa");
  other.contents.manifest.model_fingerprint = "other";
  store_.write(other.contents, always);
  const LoadedSample loaded = load_sample(store_);
  EXPECT_EQ(loaded.step, 100);
  EXPECT_TRUE(loaded.whole);
  ASSERT_EQ(loaded.skipped.size(), 1U);
  EXPECT_THAT(loaded.skipped[0].reason, HasSubstr("checkpoint of another model"));
}

TEST_F(StoreTest, OnlyDamagedOnesMeanScratchWithReasons) {
  const std::string name = write(100);
  change(path(name, kModelFile), [](std::string* text) { text->clear(); });
  const LoadedSample loaded = load_sample(store_);
  EXPECT_FALSE(loaded.step.has_value());
  ASSERT_EQ(loaded.skipped.size(), 1U);
  EXPECT_EQ(loaded.skipped[0].name, name);
}

TEST_F(StoreTest, AFullDiskIsNoticedBeforeWriting) {
  const std::string before = write(100);
  tests::FaultyFileSystem full;
  full.set_free_bytes(1000);
  CheckpointStore store(full, store_.directory());
  const SampleCheckpoint sample(200);
  try {
    store.write(sample.contents, always);
    FAIL() << "wrote to a full disk";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(), HasSubstr("free some space"));
  }
  ASSERT_EQ(store_.list().size(), 1U);
  EXPECT_EQ(store_.verify(before), std::nullopt);
}

// 8 MiB beside the files: for the manifest and what else is written meanwhile.
TEST_F(StoreTest, AWholeCheckpointLooksForTheRoomOfBothFiles) {
  const SampleCheckpoint sample(100);
  const std::map<std::string, std::string> metadata{{"format", "pt"}};
  const std::uint64_t needed = safetensors_bytes(sample.contents.model, metadata) +
                               safetensors_bytes(sample.contents.optimizer, metadata) + (8U << 20U);
  tests::FaultyFileSystem full;
  CheckpointStore store(full, store_.directory());
  full.set_free_bytes(needed - 1);
  EXPECT_EQ(refused("free some space", [&] { store.write(sample.contents, always); }),
            base::Code::Operator);
  full.set_free_bytes(needed);
  EXPECT_EQ(refused("", [&] { store.write(sample.contents, always); }), std::nullopt);
}

// As somebody may make one with cp -r: its manifest speaks of the other.
TEST_F(StoreTest, ACopyUnderAnotherNameIsDamaged) {
  const std::string name = write(100, "aaaa");
  for (const CheckpointName& other : {CheckpointName{100, "bbbb"}, CheckpointName{101, "aaaa"}}) {
    const base::Path copy = store_.directory() / other.text();
    std::filesystem::copy(store_.directory() / name, copy);
    const std::vector<Entry> entries = store_.list();
    ASSERT_EQ(entries.size(), 2U);
    const bool first = entries[0].name == other.text();
    const Entry& copied = entries[first ? 0 : 1];
    EXPECT_EQ(copied.name, other.text());
    EXPECT_EQ(copied.status, Status::Damaged) << other.text();
    EXPECT_THAT(copied.reason, HasSubstr("belongs to another checkpoint"));
    EXPECT_EQ(entries[first ? 1 : 0].status, Status::Valid);
    files_.remove_tree(copy);
  }
}

TEST_F(StoreTest, IgnoresWhatIsNotACheckpoint) {
  write(100);
  files_.create_directory(store_.directory() / "notes");
  (void)files_.open(store_.directory() / "step-0000000200-aaaa.tmp",
                    base::FileSystem::Open::CreateNew);
  EXPECT_EQ(store_.list().size(), 1U);
  // A file where a directory is expected counts as unfinished.
  (void)files_.open(store_.directory() / "step-0000000300-aaaa", base::FileSystem::Open::CreateNew);
  ASSERT_EQ(store_.list().size(), 2U);
  EXPECT_EQ(store_.list()[0].status, Status::Unfinished);
}

TEST_F(StoreTest, ShardsComeFromSeveralThreadsInAnyOrder) {
  for (const int shards : {1, 2, 3, 5, 11}) {
    SCOPED_TRACE(shards);
    const SampleCheckpoint sample(100 * shards, "aaaa");
    std::vector<std::thread> writers;
    std::atomic<int> failures{0};
    for (const std::string& file : sample_files(shards)) {
      writers.emplace_back([&, file] {
        try {
          write_sample_shard({files_, directory_.path() / "checkpoints"}, sample, file);
        } catch (const base::Error& error) {
          ++failures;
          std::fprintf(stderr, "%s\n", error.what());
        }
      });
    }
    for (std::thread& writer : writers) writer.join();
    ASSERT_EQ(failures, 0);
    EXPECT_EQ(store_.list().at(0).status, Status::Unfinished);
    EXPECT_EQ(commit(sample, shards).name, sample.name());
    EXPECT_EQ(store_.verify(sample.name()), std::nullopt);
    const LoadedSample loaded = load_sample(store_);
    EXPECT_EQ(loaded.step, 100 * shards);
    EXPECT_TRUE(loaded.whole);
  }
}

TEST_F(StoreTest, CommitSaysWhatTheSlowestShardTook) {
  class Steps final : public base::Clock {
   public:
    [[nodiscard]] double monotonic_seconds() const override { return now_ += step; }
    [[nodiscard]] double utc_seconds() const override { return 0; }
    void sleep(std::chrono::duration<double> /*duration*/) override {}
    double step = 0;

   private:
    mutable double now_ = 0;
  };
  const SampleCheckpoint sample(100, "aaaa");
  Steps clock;
  std::uint64_t bytes = 0;
  for (const std::string& file : sample_files(3)) {
    clock.step = file == shard_file(kOptimizer, 1, 3) ? 2.5 : 0.5;
    const auto name = parse_shard_file(file).value();
    const WrittenShard shard =
        store_.write_shard(sample.id(), file,
                           name.kind == kModel ? sample.contents.model
                                               : sample.optimizer_shard(name.shard, name.shards),
                           clock);
    EXPECT_EQ(shard.write_seconds, clock.step);
    EXPECT_EQ(shard.sync_seconds, clock.step);
    EXPECT_EQ(shard.file.bytes, std::filesystem::file_size(path(sample.name(), file.c_str())));
    const std::string sidecar = files_.read(path(sample.name(), sidecar_file(file).c_str()), 4096);
    const WrittenShard said = parse_sidecar(sidecar, file);
    EXPECT_EQ(said.file.digest, shard.file.digest);
    EXPECT_EQ(said.write_seconds, shard.write_seconds);
    bytes += shard.file.bytes + sidecar.size();
  }
  clock.step = 8;
  const Written written = store_.commit(sample.contents.manifest, sample_files(3), always, clock);
  EXPECT_EQ(written.write_seconds, 2.5);
  EXPECT_EQ(written.sync_seconds, 2.5 + 8);
  EXPECT_EQ(written.bytes, bytes + std::filesystem::file_size(path(sample.name(), kManifestFile)));
}

TEST_F(StoreTest, CommitRefusesWhatIsNotAllThere) {
  const std::string before = write(50);
  struct Row {
    const char* name;
    std::function<void(const base::Path&)> spoil;
    const char* message;
  };
  const std::string shard = shard_file(kOptimizer, 1, 3);
  const std::string sidecar = sidecar_file(shard);
  const auto edit = [&](const std::string& file, const std::function<void(std::string*)>& change_) {
    return [this, file, change_](const base::Path& place) { change(place / file, change_); };
  };
  const Row rows[] = {
      {"no shard", [&](const base::Path& place) { files_.remove_file(place / shard); }, "missing"},
      {"no sidecar", [&](const base::Path& place) { files_.remove_file(place / sidecar); },
       "missing"},
      {"nothing at all", [&](const base::Path& place) { files_.remove_tree(place); }, "missing"},
      {"shorter", edit(shard, [](std::string* text) { text->pop_back(); }), "not of the size"},
      {"longer", edit(shard, [](std::string* text) { text->push_back('x'); }), "not of the size"},
      {"empty", edit(shard, [](std::string* text) { text->clear(); }), "not of the size"},
      {"empty sidecar", edit(sidecar, [](std::string* text) { text->clear(); }), "not a JSON"},
      {"torn sidecar", edit(sidecar, [](std::string* text) { text->resize(20); }), "not a JSON"},
      {"zeroed sidecar", edit(sidecar, [](std::string* text) { text->assign(60, '\0'); }),
       "not a JSON"},
      {"large sidecar", edit(sidecar, [](std::string* text) { text->append(5000, ' '); }),
       "larger than"},
      {"other sidecar", edit(sidecar, [](std::string* text) { text->append(" "); }), "says more"},
      {"no bytes",
       edit(sidecar,
            [](std::string* text) {
              *text = to_json(WrittenShard{{0, std::string(32, '0')}, 0, 0});
            }),
       "not of the size"},
  };
  const SampleCheckpoint sample(100, "aaaa");
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    for (const std::string& file : sample_files(3)) write_sample_shard(store_, sample, file);
    row.spoil(store_.directory() / sample.name());
    EXPECT_EQ(refused(row.message, [&] { commit(sample, 3); }), base::Code::User);
    EXPECT_FALSE(files_.exists(path(sample.name(), kManifestFile)));
    EXPECT_EQ(load_sample(store_).step, 50);
    // The writers try again in the same directory.
    for (const std::string& file : sample_files(3)) write_sample_shard(store_, sample, file);
    commit(sample, 3);
    const LoadedSample loaded = load_sample(store_);
    EXPECT_EQ(loaded.step, 100);
    EXPECT_TRUE(loaded.whole);
    store_.remove(sample.name());
  }
  EXPECT_EQ(store_.verify(before), std::nullopt);
}

TEST_F(StoreTest, CommitWantsTheFilesOfACheckpoint) {
  const SampleCheckpoint sample(100, "aaaa");
  for (const std::string& file : sample_files(3)) write_sample_shard(store_, sample, file);
  std::vector<std::string> two = sample_files(3);
  two.pop_back();
  EXPECT_EQ(
      refused("does not list optimizer-00003-of-00003",
              [&] { store_.commit(sample.contents.manifest, two, always, base::system_clock()); }),
      base::Code::Developer);
}

// A shard whose bytes changed behind its sidecar has the right size: reading finds it.
TEST_F(StoreTest, DamageBehindTheSidecarIsFoundWhenReading) {
  write(50);
  const SampleCheckpoint sample(100, "aaaa");
  const std::string shard = shard_file(kOptimizer, 2, 3);
  for (const std::string& file : sample_files(3)) write_sample_shard(store_, sample, file);
  change(path(sample.name(), shard.c_str()), [](std::string* text) { text->back() ^= 1; });
  commit(sample, 3);
  EXPECT_THAT(store_.verify(sample.name()).value_or(""), HasSubstr(shard + " is damaged"));
  const LoadedSample loaded = load_sample(store_);
  EXPECT_EQ(loaded.step, 50);
  ASSERT_EQ(loaded.skipped.size(), 1U);
  EXPECT_THAT(loaded.skipped[0].reason, HasSubstr(shard + " is damaged"));
}

TEST_F(StoreTest, AShardReplacesWhatAnEarlierTryLeft) {
  const SampleCheckpoint sample(100, "aaaa");
  files_.create_directory(store_.directory());
  files_.create_directory(store_.directory() / sample.name());  // by anyone
  const std::string shard = shard_file(kOptimizer, 0, 2);
  for (const std::string& file : {shard, sidecar_file(shard), std::string("manifest.json.tmp")}) {
    files_.open(path(sample.name(), file.c_str()), base::FileSystem::Open::CreateNew)
        ->append("of an earlier try, and longer than what is to come there, we hope");
  }
  for (const std::string& file : sample_files(2)) write_sample_shard(store_, sample, file);
  for (const std::string& file : sample_files(2)) write_sample_shard(store_, sample, file);
  commit(sample, 2);
  EXPECT_TRUE(load_sample(store_).whole);
  EXPECT_FALSE(files_.exists(path(sample.name(), "manifest.json.tmp")));
}

TEST_F(StoreTest, ACheckpointWithAManifestIsNotTouched) {
  const SampleCheckpoint sample(100, "aaaa");
  write_sample(store_, sample, 2);
  EXPECT_EQ(refused("already written", [&] { write_sample_shard(store_, sample, kModelFile); }),
            base::Code::Conflict);
  EXPECT_EQ(refused("already written", [&] { commit(sample, 2); }), base::Code::Conflict);
  EXPECT_TRUE(load_sample(store_).whole);
}

TEST_F(StoreTest, AFencedCommitShowsNothing) {
  write(50);
  const SampleCheckpoint sample(100, "aaaa");
  for (const std::string& file : sample_files(2)) write_sample_shard(store_, sample, file);
  const auto fenced = [&] {
    store_.commit(
        sample.contents.manifest, sample_files(2),
        [&] {
          EXPECT_FALSE(files_.exists(path(sample.name(), kManifestFile)));
          return false;
        },
        base::system_clock());
  };
  EXPECT_EQ(refused("fenced", fenced), base::Code::Conflict);
  EXPECT_EQ(store_.list().at(0).status, Status::Unfinished);
  EXPECT_FALSE(files_.exists(path(sample.name(), "manifest.json.tmp")));
  EXPECT_EQ(load_sample(store_).step, 50);
}

TEST_F(StoreTest, AShardLooksForTheRoomOfAll) {
  tests::FaultyFileSystem full;
  CheckpointStore store(full, store_.directory());
  const SampleCheckpoint sample(100, "aaaa");
  full.set_free_bytes(std::uint64_t{1} << 30U);
  const auto write_model = [&](std::uint64_t needed) {
    store.write_shard(sample.id(), kModelFile, sample.contents.model, base::system_clock(), needed);
  };
  EXPECT_EQ(refused("free some space", [&] { write_model(std::uint64_t{1} << 30U); }),
            base::Code::Operator);
  EXPECT_TRUE(store_.list().empty()) << "nothing was begun";
  EXPECT_EQ(refused("", [&] { write_model(std::uint64_t{1} << 29U); }), std::nullopt);
  full.set_free_bytes(1000);
  EXPECT_EQ(refused("free some space", [&] { write_model(0); }), base::Code::Operator);
}

TEST_F(StoreTest, AFailedShardRemovesItsFilesOnly) {
  const SampleCheckpoint sample(100, "aaaa");
  write_sample_shard(store_, sample, shard_file(kOptimizer, 0, 2));
  tests::FaultyFileSystem faulty;
  faulty.fail_at(10, tests::Fault::Once);  // within the file
  EXPECT_EQ(
      refused(
          "simulated",
          [&] {
            write_sample_shard({faulty, store_.directory()}, sample, shard_file(kOptimizer, 1, 2));
          }),
      base::Code::Operator);
  const std::string other = shard_file(kOptimizer, 0, 2);
  EXPECT_THAT(files_.list(store_.directory() / sample.name()),
              testing::UnorderedElementsAre(other, sidecar_file(other)));
}

}  // namespace
}  // namespace regatta::checkpoint
