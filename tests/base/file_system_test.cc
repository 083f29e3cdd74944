#include "base/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::base {
namespace {

using Open = FileSystem::Open;

class FileSystemTest : public testing::Test {
 protected:
  Path path(const std::string& name) const { return directory_.path() / name; }
  void put(const std::string& name, std::string_view text, Open how = Open::CreateNew) {
    files_.open(path(name), how)->append(text);
  }
  template <typename Body>
  static std::optional<Code> code_of(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.code();
    }
    return std::nullopt;
  }

  FileSystem& files_ = posix_file_system();
  tests::TemporaryDirectory directory_;
};

TEST_F(FileSystemTest, OpensInThreeWays) {
  put("a", "one");
  EXPECT_EQ(code_of([&] { put("a", "two"); }), Code::Conflict);
  put("a", "+two", Open::Append);
  EXPECT_EQ(files_.read(path("a"), 100), "one+two");
  put("a", "3", Open::Truncate);
  EXPECT_EQ(files_.read(path("a"), 100), "3");
  struct stat status {};
  ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(FileSystemTest, ReadsWithinLimits) {
  put("a", "0123456789");
  EXPECT_EQ(files_.read(path("a"), 10), "0123456789");
  EXPECT_EQ(code_of([&] { (void)files_.read(path("a"), 9); }), Code::User);
  EXPECT_EQ(code_of([&] { (void)files_.read(path("b"), 9); }), Code::NotFound);
  EXPECT_EQ(code_of([&] { (void)files_.read(directory_.path(), 9); }), Code::Operator);
  EXPECT_EQ(files_.read_at(path("a"), 3, 4), "3456");
  EXPECT_EQ(files_.read_at(path("a"), 8, 4), "89");
  EXPECT_EQ(files_.read_at(path("a"), 10, 4), "");
  EXPECT_EQ(files_.read_at(path("a"), 99, 4), "");
  EXPECT_EQ(files_.read_at(path("a"), 0, 0), "");
}

TEST_F(FileSystemTest, ReadsMoreThanOneBlock) {
  std::string large(3'000'001, 'x');
  large[2'500'000] = 'y';
  put("large", large);
  EXPECT_EQ(files_.read(path("large"), 4'000'000), large);
  EXPECT_EQ(files_.read_at(path("large"), 2'499'999, 3), "xyx");
}

TEST_F(FileSystemTest, MakesAndListsDirectories) {
  EXPECT_TRUE(files_.create_directory(path("d")));
  EXPECT_FALSE(files_.create_directory(path("d")));
  struct stat status {};
  ASSERT_EQ(::stat(path("d").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  put("f", "");
  EXPECT_EQ(code_of([&] { files_.create_directory(path("f")); }), Code::Operator);
  EXPECT_EQ(code_of([&] { files_.create_directory(path("no/d")); }), Code::NotFound);
  EXPECT_EQ(files_.list(directory_.path()), (std::vector<std::string>{"d", "f"}));
  EXPECT_TRUE(files_.list(path("none")).empty());
  EXPECT_EQ(code_of([&] { (void)files_.list(path("f")); }), Code::Operator);
  EXPECT_NO_THROW(files_.sync_directory(directory_.path()));
  EXPECT_EQ(code_of([&] { files_.sync_directory(path("none")); }), Code::NotFound);
}

TEST_F(FileSystemTest, RemovesWithoutFollowingLinks) {
  files_.create_directory(path("keep"));
  put("keep/precious", "x");
  files_.create_directory(path("d"));
  std::filesystem::create_symlink(path("keep"), path("d/link"));
  files_.remove_tree(path("d"));
  EXPECT_FALSE(files_.exists(path("d")));
  EXPECT_TRUE(files_.exists(path("keep/precious")));
  std::filesystem::create_symlink(path("keep"), path("link"));
  files_.remove_tree(path("link"));
  EXPECT_FALSE(files_.exists(path("link")));
  EXPECT_TRUE(files_.exists(path("keep/precious")));
  EXPECT_NO_THROW(files_.remove_tree(path("absent")));
  EXPECT_NO_THROW(files_.remove_file(path("absent")));
}

TEST_F(FileSystemTest, ExistsSeesDanglingLinks) {
  std::filesystem::create_symlink(path("nowhere"), path("dangling"));
  EXPECT_TRUE(files_.exists(path("dangling")));
  EXPECT_FALSE(files_.exists(path("nowhere")));
}

TEST_F(FileSystemTest, RenamesAndMeasures) {
  put("a", "1");
  put("b", "2");
  files_.rename(path("a"), path("b"));
  EXPECT_EQ(files_.read(path("b"), 9), "1");
  EXPECT_EQ(code_of([&] { files_.rename(path("a"), path("b")); }), Code::NotFound);
  EXPECT_GT(files_.free_bytes(directory_.path()), 0U);
  EXPECT_EQ(code_of([&] { (void)files_.free_bytes(path("none")); }), Code::NotFound);
}

TEST_F(FileSystemTest, ReplaceShowsOldOrNewUnderEveryFault) {
  for (const tests::Fault fault : {tests::Fault::Once, tests::Fault::ForEver}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 100);
      replace_file(files_, path("file"), "old");
      tests::FaultyFileSystem faulty;
      faulty.fail_at(n, fault);
      bool failed = false;
      try {
        replace_file(faulty, path("file"), "new text");
      } catch (const Error&) {
        failed = true;
      }
      const std::string text = files_.read(path("file"), 100);
      EXPECT_TRUE(text == "new text" || (failed && text == "old")) << n << " " << text;
      if (fault == tests::Fault::Once) {
        EXPECT_EQ(files_.list(directory_.path()), std::vector<std::string>{"file"}) << n;
      }
      if (!failed) break;
    }
  }
}

TEST_F(FileSystemTest, ReplaceSurvivesACrash) {
  for (const tests::Crash how : {tests::Crash::LoseBytes, tests::Crash::LoseEverything}) {
    replace_file(files_, path("file"), "old");
    tests::FaultyFileSystem faulty;
    replace_file(faulty, path("file"), "new");
    faulty.crash(how);
    EXPECT_EQ(files_.read(path("file"), 100), "new");
  }
}

}  // namespace
}  // namespace regatta::base
