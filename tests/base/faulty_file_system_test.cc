// The fault injector has to be right before anything that it finds can be believed.
#include "tests/base/faulty_file_system.h"

#include <gtest/gtest.h>

#include <set>

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

TEST_F(FaultyFileSystemTest, TornEndsKeepAnyPartOfWhatWasNotSynced) {
  std::set<std::size_t> sizes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    {
      const auto file = files_.open(path("a"), Open::CreateNew);
      files_.sync_directory(directory_.path());
      file->append("synced");
      file->sync();
      file->append("0123");
    }
    files_.crash(Crash::TornEnds, seed);
    const std::string left = text("a");
    EXPECT_EQ(left, std::string("synced0123").substr(0, left.size()));
    sizes.insert(left.size());
    real_.remove_file(path("a"));
  }
  EXPECT_EQ(sizes, (std::set<std::size_t>{6, 7, 8, 9, 10}));
}

TEST_F(FaultyFileSystemTest, TornBlocksAreWrittenZeroOrForeign) {
  std::set<std::string> fates;  // of the three blocks that are not synced as a whole
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    {
      const auto file = files_.open(path("a"), Open::CreateNew);
      files_.sync_directory(directory_.path());
      file->append(std::string(100, 's'));
      file->sync();
      file->append(std::string(9'900, 'u'));
    }
    files_.crash(Crash::TornBlocks, seed);
    const std::string left = real_.read(path("a"), 10'000);
    ASSERT_EQ(left.size(), 10'000U);
    EXPECT_EQ(left.substr(0, 100), std::string(100, 's'));
    std::string fate;
    for (const auto& [begin, end] : {std::pair(100, 4096), {4096, 8192}, {8192, 10'000}}) {
      const std::string block = left.substr(std::size_t(begin), std::size_t(end - begin));
      const bool same = block.find_first_not_of(block[0]) == std::string::npos;
      fate += !same ? 'f' : block[0] == 'u' ? 'u' : '0';
    }
    fates.insert(fate);
    real_.remove_file(path("a"));
  }
  EXPECT_EQ(fates.size(), 27U);
}

TEST_F(FaultyFileSystemTest, TornNamesKeepTheirOrder) {
  std::set<std::vector<std::string>> left;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const char* name : {"b", "c", "a"}) (void)files_.open(path(name), Open::CreateNew);
    files_.crash(Crash::TornEnds, seed);
    left.insert(real_.list(directory_.path()));
    for (const char* name : {"a", "b", "c"}) real_.remove_file(path(name));
  }
  EXPECT_EQ(left, (std::set<std::vector<std::string>>{{}, {"b"}, {"b", "c"}, {"a", "b", "c"}}));
}

TEST_F(FaultyFileSystemTest, CallsBeforeEveryOperation) {
  std::vector<std::int64_t> before;
  files_.set_before_each([&] { before.push_back(files_.operations()); });
  const auto file = files_.open(path("a"), Open::CreateNew);
  file->append("x");
  file->sync();
  std::byte byte{};
  EXPECT_EQ(files_.read_into(path("a"), 0, std::span(&byte, 1)), 1U);
  EXPECT_TRUE(files_.exists(path("a"))) << "which is none";
  EXPECT_EQ(before, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace regatta::tests
