// The fault injector has to be right before anything that it finds can be believed.
#include "tests/base/faulty_file_system.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace regatta::tests {
namespace {

using base::Path;
using Open = base::FileSystem::Open;

class FaultyFileSystemTest : public testing::Test {
 protected:
  Path path(const std::string& name) const { return directory_.path() / name; }
  std::string text(const std::string& name) { return real_.read(path(name), 1000); }

  base::FileSystem& real_ = base::posix_file_system();
  TemporaryDirectory directory_;
  FaultyFileSystem files_;
};

TEST_F(FaultyFileSystemTest, FailsTheNthOperationOnceOrForEver) {
  files_.fail_at(2, Fault::Once, base::Code::Retry);
  EXPECT_TRUE(files_.list(directory_.path()).empty());
  try {
    (void)files_.list(directory_.path());
    FAIL() << "the second operation passed";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Retry);
  }
  EXPECT_NO_THROW((void)files_.list(directory_.path()));
  EXPECT_EQ(files_.operations(), 3);

  files_.fail_at(1, Fault::ForEver);
  EXPECT_THROW((void)files_.list(directory_.path()), base::Error);
  EXPECT_THROW((void)files_.free_bytes(directory_.path()), base::Error);
  files_.heal();
  EXPECT_NO_THROW((void)files_.free_bytes(directory_.path()));
}

TEST_F(FaultyFileSystemTest, FailingAppendLeavesHalf) {
  const auto file = files_.open(path("a"), Open::CreateNew);
  files_.fail_at(1, Fault::Once);
  EXPECT_THROW(file->append("12345678"), base::Error);
  EXPECT_EQ(text("a"), "1234");
}

TEST_F(FaultyFileSystemTest, CrashKeepsSyncedBytesOnly) {
  const auto file = files_.open(path("a"), Open::CreateNew);
  file->append("synced");
  file->sync();
  file->append("lost");
  files_.crash(Crash::LoseBytes);
  EXPECT_EQ(text("a"), "synced");
}

TEST_F(FaultyFileSystemTest, CrashForgetsNamesOfUnsyncedDirectories) {
  const auto file = files_.open(path("a"), Open::CreateNew);
  file->append("x");
  file->sync();
  files_.create_directory(path("d"));
  files_.crash(Crash::LoseEverything);
  EXPECT_TRUE(real_.list(directory_.path()).empty());
}

TEST_F(FaultyFileSystemTest, CrashKeepsNamesOfSyncedDirectories) {
  files_.open(path("a"), Open::CreateNew)->append("lost");
  files_.sync_directory(directory_.path());
  files_.crash(Crash::LoseEverything);
  EXPECT_EQ(text("a"), "");
}

TEST_F(FaultyFileSystemTest, CrashUndoesRenamesAndRemovals) {
  real_.open(path("old"), Open::CreateNew)->append("old");
  real_.open(path("gone"), Open::CreateNew)->append("gone");
  real_.create_directory(path("tree"));
  real_.open(path("tree/leaf"), Open::CreateNew)->append("leaf");
  {
    const auto file = files_.open(path("new"), Open::CreateNew);
    file->append("new");
    file->sync();
  }
  files_.sync_directory(directory_.path());
  files_.rename(path("new"), path("old"));
  files_.remove_file(path("gone"));
  files_.remove_tree(path("tree"));
  files_.crash(Crash::LoseEverything);
  EXPECT_EQ(text("old"), "old");
  EXPECT_EQ(text("new"), "new");
  EXPECT_EQ(text("gone"), "gone");
  EXPECT_EQ(text("tree/leaf"), "leaf");
}

TEST_F(FaultyFileSystemTest, UnsyncedBytesAreLostUnderANewName) {
  files_.create_directory(path("d"));
  files_.open(path("d/a"), Open::CreateNew)->append("lost");
  files_.rename(path("d"), path("e"));
  files_.rename(path("e/a"), path("e/b"));
  files_.crash(Crash::LoseBytes);
  EXPECT_EQ(text("e/b"), "");
}

}  // namespace
}  // namespace regatta::tests
