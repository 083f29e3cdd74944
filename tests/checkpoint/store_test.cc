#include "checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/digest.h"
#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using testing::HasSubstr;
using tests::always;
using tests::holds_sample;
using tests::kDataPrint;
using tests::kModelPrint;
using tests::SampleCheckpoint;

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

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory directory_;
  CheckpointStore store_{files_, directory_.path() / "checkpoints"};
};

TEST_F(StoreTest, EmptyStoreStartsFromScratch) {
  EXPECT_TRUE(store_.list().empty());
  const Latest latest = store_.open_latest_valid(kModelPrint, kDataPrint);
  EXPECT_FALSE(latest.checkpoint.has_value());
  EXPECT_TRUE(latest.skipped.empty());
}

TEST_F(StoreTest, WritesListsVerifiesAndOpens) {
  const SampleCheckpoint sample(100, "aaaa");
  const Written written = store_.write(sample.contents, always);
  EXPECT_EQ(written.name, "step-0000000100-aaaa");
  std::uint64_t bytes = 0;
  for (const char* file : {kModelFile, kOptimizerFile, kManifestFile}) {
    bytes += std::filesystem::file_size(path(written.name, file));
  }
  EXPECT_EQ(written.bytes, bytes);
  EXPECT_EQ(files_.list(store_.directory() / written.name).size(), 3U) << "no temporary is left";
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

  const Latest latest = store_.open_latest_valid(kModelPrint, kDataPrint);
  ASSERT_TRUE(latest.checkpoint.has_value());
  EXPECT_EQ(latest.checkpoint->name, written.name);
  EXPECT_TRUE(holds_sample(*latest.checkpoint));
  EXPECT_EQ(latest.checkpoint->model.metadata().at("format"), "pt");
  EXPECT_TRUE(latest.skipped.empty());
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

  const Latest latest = store_.open_latest_valid(kModelPrint, kDataPrint);
  ASSERT_TRUE(latest.checkpoint.has_value());
  EXPECT_EQ(latest.checkpoint->name, good);
  EXPECT_TRUE(holds_sample(*latest.checkpoint));
  const std::pair<std::string, const char*> expected[] = {
      {"step-0000000900-aaaa", "belongs to another checkpoint"},
      {no_model, "cannot open"},
      {long_model, "model.safetensors is longer"},
      {short_optimizer, "optimizer.safetensors is shorter"},
      {bad_model, "model.safetensors is damaged"},
      {bad_manifest, "not a JSON object"},
      {no_manifest, "unfinished"}};
  ASSERT_EQ(latest.skipped.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(latest.skipped[i].name, expected[i].first);
    EXPECT_THAT(latest.skipped[i].reason, HasSubstr(expected[i].second));
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
  change(path(name, kManifestFile), [](std::string* text) {
    const std::size_t at = text->find(kOptimizerFile);
    text->replace(at, std::strlen(kOptimizerFile), "something.else");
  });
  EXPECT_THAT(store_.verify(name).value_or(""), HasSubstr("does not list optimizer.safetensors"));
}

TEST_F(StoreTest, AnotherModelOrDataSetIsAnError) {
  write(100);
  const auto message = [&](const char* model, const char* data) -> std::string {
    try {
      (void)store_.open_latest_valid(model, data);
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
  const Latest latest = store_.open_latest_valid(kModelPrint, kDataPrint);
  ASSERT_TRUE(latest.checkpoint.has_value());
  EXPECT_EQ(latest.checkpoint->manifest.step, 100);
  ASSERT_EQ(latest.skipped.size(), 1U);
  EXPECT_THAT(latest.skipped[0].reason, HasSubstr("checkpoint of another model"));
}

TEST_F(StoreTest, OnlyDamagedOnesMeanScratchWithReasons) {
  const std::string name = write(100);
  change(path(name, kModelFile), [](std::string* text) { text->clear(); });
  const Latest latest = store_.open_latest_valid(kModelPrint, kDataPrint);
  EXPECT_FALSE(latest.checkpoint.has_value());
  ASSERT_EQ(latest.skipped.size(), 1U);
  EXPECT_EQ(latest.skipped[0].name, name);
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

TEST_F(StoreTest, IgnoresWhatIsNotACheckpoint) {
  write(100);
  files_.create_directory(store_.directory() / "notes");
  files_.open(store_.directory() / "step-0000000200-aaaa.tmp", base::FileSystem::Open::CreateNew);
  EXPECT_EQ(store_.list().size(), 1U);
  // A file where a directory is expected counts as unfinished.
  files_.open(store_.directory() / "step-0000000300-aaaa", base::FileSystem::Open::CreateNew);
  ASSERT_EQ(store_.list().size(), 2U);
  EXPECT_EQ(store_.list()[0].status, Status::Unfinished);
}

}  // namespace
}  // namespace regatta::checkpoint
