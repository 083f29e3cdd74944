#include "base/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
  EXPECT_EQ(code_of([&] { (void)files_.read(directory_.path(), 9); }), Code::Conflict);
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

TEST_F(FileSystemTest, ReadsIntoMemory) {
  put("a", "0123456789");
  std::string out(4, '.');
  const auto read = [&](std::uint64_t offset, std::size_t size) {
    out.assign(4, '.');
    return files_.read_into(path("a"), offset, std::as_writable_bytes(std::span(out)).first(size));
  };
  EXPECT_EQ(read(3, 4), 4U);
  EXPECT_EQ(out, "3456");
  EXPECT_EQ(read(8, 4), 2U);
  EXPECT_EQ(out, "89..") << "the rest stays as it was";
  EXPECT_EQ(read(0, 2), 2U);
  EXPECT_EQ(out, "01..");
  EXPECT_EQ(read(10, 4), 0U);
  EXPECT_EQ(read(99, 4), 0U);
  EXPECT_EQ(read(0, 0), 0U);
  const auto bytes = std::as_writable_bytes(std::span(out));
  EXPECT_EQ(code_of([&] { (void)files_.read_into(path("b"), 0, bytes); }), Code::NotFound);
  EXPECT_EQ(code_of([&] { (void)files_.read_into(directory_.path(), 0, bytes); }), Code::Conflict);
  EXPECT_EQ(code_of([&] { (void)files_.read_into(path("a"), ~0ULL - 9, bytes); }), Code::Operator);
}

std::string counted(std::size_t bytes) {
  std::string text(bytes, ' ');
  std::uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
  return text;
}

// Sizes around a block of the disk and around the buffer, in one piece and in odd ones.
TEST_F(FileSystemTest, DirectFilesHoldWhatWasAppended) {
  constexpr std::size_t kBuffer = std::size_t{8} << 20U;
  const std::size_t sizes[] = {0,           1,       4095,        4096,           4097,
                               kBuffer - 1, kBuffer, kBuffer + 1, kBuffer + 4096, 2 * kBuffer + 77};
  for (const std::size_t size : sizes) {
    const std::string text = counted(size);
    for (const std::size_t piece : {size, std::size_t{1} << 20U, std::size_t{99'991}}) {
      SCOPED_TRACE(std::to_string(size) + " bytes in pieces of " + std::to_string(piece));
      const auto file = files_.open(path("f"), Open::CreateNewDirect);
      for (std::size_t at = 0; at < size; at += piece) {
        file->append(std::string_view(text).substr(at, piece));
      }
      file->sync();
      EXPECT_TRUE(files_.read(path("f"), size) == text);
      file->append("more");
      file->append("");
      file->sync();
      EXPECT_TRUE(files_.read(path("f"), size + 4) == text + "more");
      files_.remove_file(path("f"));
    }
  }
}

TEST_F(FileSystemTest, DirectFilesGoOnAfterEverySync) {
  const std::string text = counted(100'000);
  const auto file = files_.open(path("f"), Open::CreateNewDirect);
  std::size_t at = 0;
  for (const std::size_t part : {4096, 8192, 0, 5, 4091, 4096, 70'000, 1}) {
    file->append(std::string_view(text).substr(at, part));
    file->sync();
    at += part;
    EXPECT_TRUE(files_.read(path("f"), at) == text.substr(0, at)) << at;
  }
}

TEST_F(FileSystemTest, DirectFilesAreNew) {
  put("f", "old");
  EXPECT_EQ(code_of([&] { put("f", "new", Open::CreateNewDirect); }), Code::Conflict);
  EXPECT_EQ(files_.read(path("f"), 9), "old");
  EXPECT_EQ(code_of([&] { put("no/f", "new", Open::CreateNewDirect); }), Code::NotFound);
  files_.open(path("g"), Open::CreateNewDirect)->sync();
  struct stat status {};
  ASSERT_EQ(::stat(path("g").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

// Memory-backed file systems have nothing to bypass.
TEST_F(FileSystemTest, DirectFilesWorkWhereNothingIsDirect) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm that can be written to";
  std::string name = "/dev/shm/regatta-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const std::string text = counted(9'000'001);
  const auto file = files_.open(Path(name) / "f", Open::CreateNewDirect);
  file->append(text);
  file->sync();
  EXPECT_TRUE(files_.read(Path(name) / "f", text.size()) == text);
  files_.remove_tree(name);
}

// The limit on a file's size is a full disk that needs no disk: the write that meets it is cut, at
// a place that is no block's end, and the next one fails.
TEST_F(FileSystemTest, DirectFilesReportWhatDoesNotFit) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    struct rlimit limit {};
    limit.rlim_cur = limit.rlim_max = (9U << 20U) + 123;
    bool failed = ::setrlimit(RLIMIT_FSIZE, &limit) != 0;
    ::signal(SIGXFSZ, SIG_IGN);
    const auto file = files_.open(path("f"), Open::CreateNewDirect);
    const std::string text = counted(std::size_t{10} << 20U);
    const auto code = code_of([&] {
      file->append(text);
      file->sync();
    });
    failed = failed || code != Code::Operator;
    ::_exit(failed ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::filesystem::file_size(path("f")), (9U << 20U) + 123);
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
