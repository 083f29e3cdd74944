#include "orchestrator/frozen/object_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/digest.h"
#include "base/error.h"
#include "tests/orchestrator/frozen/work_tree.h"

namespace regatta::orchestrator::frozen {
namespace {

namespace fs = std::filesystem;

class ObjectStoreTest : public testing::Test {
 protected:
  ObjectStoreTest()
      : from_(::open(tree_.root().c_str(), O_RDONLY | O_DIRECTORY)), store_(tree_.store()) {
    fs::create_directory(tree_.beside() / "out");
    out_ = base::UniqueFd(::open((tree_.beside() / "out").c_str(), O_RDONLY | O_DIRECTORY));
  }
  [[nodiscard]] base::Path object_of(const std::string& text) const {
    const std::string digest = base::digest_of(text);
    return tree_.store() / "objects" / digest.substr(0, 2) / digest.substr(2);
  }

  TestTree tree_;
  base::UniqueFd from_, out_;
  ObjectStore store_;
};

TEST_F(ObjectStoreTest, NamesAFileByTheDigestOfItsBytes) {
  const std::string large(3'000'000, 'x');
  for (const std::string& text : {std::string(), std::string("one\0two", 7), large}) {
    tree_.write("file", text);
    const FrozenFile file = store_.keep(from_.get(), "file");
    EXPECT_EQ(file.digest, base::digest_of(text));
    EXPECT_EQ(file.bytes, text.size());
    EXPECT_EQ(text_of(object_of(text)), text);
  }
}

TEST_F(ObjectStoreTest, WhatACrashCutShortIsWrittenAgain) {
  tree_.write("file", "all of it");
  const FrozenFile file = store_.keep(from_.get(), "file");
  const base::Path object = object_of("all of it");
  fs::permissions(object, fs::perms::owner_all);
  fs::resize_file(object, 0);
  EXPECT_EQ(store_.keep(from_.get(), "file"), file);
  EXPECT_EQ(text_of(object), "all of it");
}

TEST_F(ObjectStoreTest, CopiesWhereTheFileSystemLinksNoMore) {
  tree_.write("file", "bytes", 0755);
  const FrozenFile file = store_.keep(from_.get(), "file");
  const base::UniqueFd other(::open("/dev/shm", O_RDONLY | O_DIRECTORY));
  struct stat here {};
  struct stat there {};
  ASSERT_EQ(::fstat(other.get(), &there) | ::fstat(from_.get(), &here), 0);
  if (here.st_dev == there.st_dev) GTEST_SKIP() << "needs a second file system";
  const std::string name = "regatta-" + std::to_string(::getpid());
  store_.place(file, other.get(), name);
  const base::Path copy = base::Path("/dev/shm") / name;
  EXPECT_EQ(text_of(copy), "bytes");
  EXPECT_EQ(::access(copy.c_str(), X_OK), 0);
  EXPECT_EQ(fs::hard_link_count(copy), 1u);
  fs::remove(copy);
}

// A file that somebody writes all the time: what is kept is always what its name says.
TEST_F(ObjectStoreTest, NeverKeepsBytesUnderAnotherName) {
  tree_.write("file", std::string(200'000, 'a'));
  std::atomic<bool> over = false;
  std::thread writer([&] {
    const int file = ::open((tree_.root() / "file").c_str(), O_WRONLY);
    for (char c = 'a'; !over; c = c == 'z' ? 'a' : static_cast<char>(c + 1)) {
      const std::string text(200'000, c);
      EXPECT_EQ(::pwrite(file, text.data(), text.size(), 0), 200'000);
    }
    ::close(file);
  });
  int refused = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (refused < 20 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30)) {
    try {
      (void)store_.keep(from_.get(), "file");
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Retry) << error.what();
      ++refused;
    }
  }
  over = true;
  writer.join();
  EXPECT_GT(refused, 0);
  for (const auto& entry : fs::recursive_directory_iterator(tree_.store() / "objects")) {
    if (!entry.is_regular_file()) continue;
    const std::string name =
        entry.path().parent_path().filename().string() + entry.path().filename().string();
    EXPECT_EQ(base::digest_of(text_of(entry.path())), name);
  }
}

TEST_F(ObjectStoreTest, WhatCannotBeReadIsNamed) {
  try {
    (void)store_.keep(from_.get(), "absent");
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cannot read absent"));
  }
  tree_.link("link", "file");
  EXPECT_THROW((void)store_.keep(from_.get(), "link"), base::Error) << "no link is followed";
}

}  // namespace
}  // namespace regatta::orchestrator::frozen
