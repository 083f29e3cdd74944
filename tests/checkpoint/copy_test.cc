#include "checkpoint/copy.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

class CopyTest : public testing::Test {
 protected:
  CopyTest() {
    const tests::SampleCheckpoint sample(7, "aaaa");
    name_ = store_.write(sample.contents, tests::always).name;
    files_.create_directory(copies_.directory());
  }
  void copy() {
    const Entry entry = store_.list().at(0);
    copy_checkpoint(files_, store_.directory() / name_, *entry.manifest,
                    copies_.directory() / name_);
  }

  tests::FaultyFileSystem files_;
  tests::TemporaryDirectory directory_;
  CheckpointStore store_{files_, directory_.path() / "checkpoints"};
  CheckpointStore copies_{files_, directory_.path() / "copies"};
  std::string name_;
};

TEST_F(CopyTest, IsTheSameCheckpointAndOutlivesTheFirst) {
  copy();
  const Manifest first = *store_.list().at(0).manifest;
  store_.remove(name_);
  ASSERT_EQ(copies_.list().size(), 1U);
  EXPECT_EQ(copies_.list()[0].status, Status::Valid);
  EXPECT_EQ(copies_.verify(name_), std::nullopt);
  EXPECT_EQ(to_json(*copies_.list()[0].manifest), to_json(first));
}

TEST_F(CopyTest, MayTakeWhatASlowFileServerNeeds) {
  Manifest manifest;
  manifest.files["a"].bytes = 3'000'000'000;
  manifest.files["b"].bytes = 1'000'000'000;
  EXPECT_DOUBLE_EQ(copy_seconds(manifest), 60 + 200);
}

TEST_F(CopyTest, SurvivesACrashOnceItReturned) {
  copy();
  files_.sync_directory(copies_.directory());
  files_.sync_directory(directory_.path());
  files_.crash(tests::Crash::LoseEverything);
  EXPECT_EQ(copies_.verify(name_), std::nullopt);
}

TEST_F(CopyTest, DamageIsFoundAndNoCheckpointComesOfIt) {
  for (const char* const file : {kModelFile, kOptimizerFile}) {
    const base::Path path = store_.directory() / name_ / file;
    const std::string good = files_.read(path, 1 << 20);
    for (const bool cut : {false, true}) {
      std::string bad = good;
      if (cut) {
        bad.pop_back();
      } else {
        bad.back() = static_cast<char>(bad.back() ^ 1);
      }
      files_.open(path, base::FileSystem::Open::Truncate)->append(bad);
      try {
        copy();
        FAIL() << file;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::User);
        EXPECT_THAT(error.what(), testing::HasSubstr("is damaged"));
      }
      EXPECT_EQ(copies_.list().at(0).status, Status::Unfinished);
      files_.remove_tree(copies_.directory() / name_);
    }
    files_.open(path, base::FileSystem::Open::Truncate)->append(good);
  }
}

}  // namespace
}  // namespace regatta::checkpoint
