#include "orchestrator/frozen/freeze.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include "base/error.h"
#include "orchestrator/frozen/work_tree.h"
#include "tests/orchestrator/frozen/work_tree.h"

namespace regatta::orchestrator::frozen {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Frozen freeze_now(const TestTree& tree, const std::string& below = "",
                  std::optional<std::string> commit = std::nullopt) {
  FreezeRequest request;
  request.store = tree.store();
  request.directory = below.empty() ? tree.root() : tree.root() / below;
  request.commit = std::move(commit);
  return freeze(request);
}

std::string refusal(const FreezeRequest& request, base::Code code) {
  try {
    (void)freeze(request);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "it was frozen";
  return "";
}

std::vector<std::string> paths_of(const FrozenJob& job) {
  std::vector<std::string> paths;
  for (const FrozenFile& file : job.files) paths.push_back(file.path);
  return paths;
}

TEST(Freeze, KeepsWhatIsEditedRemovedAndReplacedLater) {
  const TestTree tree;
  tree.write("train.py", "one");
  tree.write("lib/model.py", "two");
  tree.commit_all();
  tree.write("train.py", "not committed");
  tree.write("new file\n.txt", "never added");
  const Frozen frozen = freeze_now(tree);
  tree.write("train.py", "edited while it waits");
  tree.remove("lib");
  EXPECT_EQ(text_of(frozen.directory / "train.py"), "not committed");
  EXPECT_EQ(text_of(frozen.directory / "lib/model.py"), "two");
  EXPECT_EQ(text_of(frozen.directory / "new file\n.txt"), "never added");
  EXPECT_THAT(paths_of(frozen.job), ElementsAre("lib/model.py", "new file\n.txt", "train.py"));
  EXPECT_EQ(frozen.job.commit, tree.git({"rev-parse", "HEAD"}));
  EXPECT_FALSE(frozen.job.at_commit);
}

TEST(Freeze, LinksWhatGitIgnoresAndDoesNotFreezeIt) {
  const TestTree tree;
  tree.write(".gitignore", "data/\n*.bin\n__pycache__/\nlogs\n");
  tree.write("data/big", "then");
  tree.write("src/model.bin", "weights");
  tree.write("src/model.py", "code");
  tree.write("src/__pycache__/model.pyc", "stale");
  fs::create_directory(tree.root() / "logs");
  tree.commit_all();
  const Frozen frozen = freeze_now(tree);
  EXPECT_THAT(frozen.job.linked, ElementsAre("data", "logs", "src/model.bin"));
  tree.write("data/big", "now");
  EXPECT_EQ(text_of(frozen.directory / "data/big"), "now");
  EXPECT_EQ(fs::read_symlink(frozen.directory / "data"), tree.root() / "data");
  EXPECT_EQ(text_of(frozen.directory / "src/model.bin"), "weights");
  EXPECT_FALSE(fs::exists(frozen.directory / "src/__pycache__"));
}

TEST(Freeze, TakesACommitWhateverTheTreeLooksLike) {
  const TestTree tree;
  tree.write("train.py", "committed");
  tree.write("run.sh", "#!/bin/sh\n", 0755);
  tree.link("latest", "train.py");
  tree.commit_all();
  const std::string first = tree.git({"rev-parse", "HEAD"});
  tree.write("train.py", "second");
  tree.write(".gitignore", "out/\n");
  tree.commit_all();
  tree.write("train.py", "not committed");
  tree.write("out/result", "kept");
  const std::string index = tree.git({"ls-files", "--stage"});
  const Frozen frozen = freeze_now(tree, "", "HEAD~1");
  EXPECT_EQ(text_of(frozen.directory / "train.py"), "committed");
  EXPECT_EQ(::access((frozen.directory / "run.sh").c_str(), X_OK), 0);
  EXPECT_EQ(fs::read_symlink(frozen.directory / "latest"), "train.py");
  EXPECT_EQ(frozen.job.commit, first);
  EXPECT_TRUE(frozen.job.at_commit);
  EXPECT_FALSE(fs::exists(frozen.directory / ".gitignore"));
  EXPECT_EQ(text_of(frozen.directory / "out/result"), "kept");
  EXPECT_EQ(text_of(tree.root() / "train.py"), "not committed");
  EXPECT_EQ(tree.git({"ls-files", "--stage"}), index) << "the tree's own index changed";
  EXPECT_FALSE(fs::exists(frozen.folder / "checkout"));
}

TEST(Freeze, TakesSubmodulesAsTheyAreAndOfACommit) {
  const TestTree part;
  part.write("part.py", "one");
  part.commit_all();
  const TestTree tree;
  tree.write("main.py", "main");
  tree.commit_all();
  tree.git({"submodule", "--quiet", "add", part.root().string(), "deps/part"});
  tree.commit_all();
  tree.write("deps/part/part.py", "edited");
  tree.write("deps/part/more.py", "new");
  EXPECT_EQ(text_of(freeze_now(tree).directory / "deps/part/part.py"), "edited");
  EXPECT_EQ(text_of(freeze_now(tree).directory / "deps/part/more.py"), "new");
  const Frozen commit = freeze_now(tree, "", "HEAD");
  EXPECT_EQ(text_of(commit.directory / "deps/part/part.py"), "one");
  EXPECT_FALSE(fs::exists(commit.directory / "deps/part/more.py"));
}

TEST(Freeze, BeginsWhereItWasCalled) {
  const TestTree tree;
  tree.write("scripts/run.sh", "x");
  tree.write(".gitignore", "ignored/\n");
  tree.write("ignored/here", "x");
  tree.commit_all();
  fs::create_directories(tree.root() / "empty/folder");
  EXPECT_EQ(freeze_now(tree, "scripts").directory.filename(), "scripts");
  EXPECT_TRUE(fs::is_directory(freeze_now(tree, "empty/folder").directory));
  FreezeRequest request;
  request.store = tree.store();
  request.directory = tree.root() / "ignored";
  EXPECT_THAT(refusal(request, base::Code::User), HasSubstr("git ignores"));
}

TEST(Freeze, WithoutGitTakesTheFolderAndNotItsOwnStore) {
  const TestTree tree;
  tree.write("a", "1");
  tree.write("sub/b", "2");
  ASSERT_EQ(::mkfifo((tree.root() / "pipe").c_str(), 0600), 0);
  FreezeRequest request;
  request.store = tree.root() / "store";
  request.directory = tree.root();
  EXPECT_THAT(paths_of(freeze(request).job), ElementsAre("a", "sub/b"));
  const Frozen second = freeze(request);
  EXPECT_THAT(paths_of(second.job), ElementsAre("a", "sub/b"));
  EXPECT_THAT(second.left_out, ElementsAre("pipe"));
  EXPECT_FALSE(second.job.commit);
  request.commit = "HEAD";
  EXPECT_THAT(refusal(request, base::Code::User), HasSubstr("no git working tree"));
}

TEST(Freeze, EqualTreesShareTheirFilesAndHaveOneDigest) {
  const TestTree tree;
  tree.write("a", "same bytes");
  tree.write("b", "same bytes");
  tree.write("program", "same bytes", 0755);
  const Frozen one = freeze_now(tree);
  const Frozen two = freeze_now(tree);
  EXPECT_EQ(one.job.tree, two.job.tree);
  EXPECT_NE(one.folder, two.folder);
  EXPECT_TRUE(fs::equivalent(one.directory / "a", two.directory / "b"));
  EXPECT_FALSE(fs::equivalent(one.directory / "a", one.directory / "program"));
  EXPECT_EQ(fs::hard_link_count(one.directory / "a"), 5u);
  tree.write("b", "other bytes");
  EXPECT_NE(freeze_now(tree).job.tree, one.job.tree);
  tree.write("b", "same bytes", 0755);
  EXPECT_NE(freeze_now(tree).job.tree, one.job.tree) << "a program is not a plain file";
}

TEST(Freeze, AJobCannotWriteIntoAFrozenFileByAccident) {
  const TestTree tree;
  tree.write("a", "1");
  struct stat about {};
  const Frozen frozen = freeze_now(tree);
  ASSERT_EQ(::stat((frozen.directory / "a").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0444U);
  ASSERT_EQ(::stat(tree.store().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
}

TEST(Freeze, LinksLeadWhereTheyLed) {
  const base::Path root = "/home/u/work";
  const auto target = [&](const char* path, const char* said) {
    return frozen_target(root, path, said);
  };
  EXPECT_EQ(target("link", "file"), "file");
  EXPECT_EQ(target("a/link", "../file"), "../file");
  EXPECT_EQ(target("a/link", "../../data"), "/home/u/data");
  EXPECT_EQ(target("link", "/data/set"), "/data/set");
  EXPECT_EQ(target("a/link", "/home/u/work/b/file"), "../b/file");
  EXPECT_EQ(target("link", "/home/u/workshop"), "/home/u/workshop");
  const TestTree tree;
  tree.link("gone", "nowhere");
  tree.link("out", "../beside");
  const Frozen frozen = freeze_now(tree);
  EXPECT_EQ(fs::read_symlink(frozen.directory / "gone"), "nowhere");
  EXPECT_EQ(fs::read_symlink(frozen.directory / "out"), tree.beside() / "beside");
}

TEST(Freeze, AScriptFromElsewhereIsKeptToo) {
  const TestTree tree;
  tree.write("a", "1");
  const TestTree other;
  other.write("job.sh", "#!/bin/sh\n");
  FreezeRequest request;
  request.store = tree.store();
  request.directory = tree.root();
  request.script = other.root() / "job.sh";
  const Frozen frozen = freeze(request);
  EXPECT_EQ(text_of(frozen.folder / "script"), "#!/bin/sh\n");
  EXPECT_EQ(frozen.job.script_digest.size(), 32u);
  request.script = tree.root() / "a";
  EXPECT_EQ(freeze(request).job.script_digest, "");
}

TEST(Freeze, WhatIsTooLargeIsNamed) {
  const TestTree tree;
  tree.write("small", "1");
  tree.write("large.npy", std::string(5000, 'x'));
  FreezeRequest request;
  request.store = tree.store();
  request.directory = tree.root();
  request.most_bytes = 5001;
  (void)freeze(request);
  request.most_bytes = 5000;
  const std::string said = refusal(request, base::Code::User);
  EXPECT_THAT(said, HasSubstr("large.npy (5.0 kB)"));
  EXPECT_THAT(said, HasSubstr("--freeze-limit"));
  request.most_bytes = 1 << 20;
  request.most_files = 1;
  EXPECT_THAT(refusal(request, base::Code::User), HasSubstr("more than 1 files"));
  EXPECT_EQ(fs::hard_link_count(tree.root() / "small"), 1u);
}

TEST(Freeze, NothingIsLeftOfOneThatFails) {
  const TestTree tree;
  tree.write("a", "1");
  tree.commit_all();
  FreezeRequest request;
  request.store = tree.store();
  request.directory = tree.root();
  request.commit = "no-such-branch";
  EXPECT_THAT(refusal(request, base::Code::User), HasSubstr("'no-such-branch' is not a commit"));
  request.commit = "--output=/tmp/x";
  EXPECT_THAT(refusal(request, base::Code::User), HasSubstr("is not a commit"));
  EXPECT_TRUE(fs::is_empty(tree.store() / "jobs"));
}

TEST(Freeze, AStoreThatOthersCanWriteIsRefused) {
  const TestTree tree;
  tree.write("a", "1");
  fs::create_directory(tree.store());
  fs::permissions(tree.store(), fs::perms::all);
  FreezeRequest request;
  request.store = tree.store();
  request.directory = tree.root();
  EXPECT_THAT(refusal(request, base::Code::Operator), HasSubstr("REGATTA_FROZEN"));
}

TEST(Freeze, AFullDiskIsToldAndLeavesNothing) {
  const TestTree tree;
  for (int i = 0; i < 50; ++i)
    tree.write("file" + std::to_string(i), std::string(4000, 'x') + std::to_string(i));
  fs::create_directory(tree.store());
  if (::mount("none", tree.store().c_str(), "tmpfs", 0, "size=100k,mode=700") != 0) {
    GTEST_SKIP() << "needs a tmpfs of its own (root)";
  }
  FreezeRequest request;
  request.store = tree.store();
  request.directory = tree.root();
  const std::string said = refusal(request, base::Code::Operator);
  EXPECT_THAT(said, HasSubstr("full"));
  EXPECT_THAT(said, HasSubstr(tree.store().string()));
  EXPECT_TRUE(fs::is_empty(tree.store() / "jobs"));
  for (const auto& entry : fs::recursive_directory_iterator(tree.store() / "objects")) {
    EXPECT_NE(entry.path().filename().string().substr(0, 5), ".new-");
  }
  EXPECT_EQ(::umount(tree.store().c_str()), 0);
}

TEST(Freeze, AHookOfGitsFreezesTheTreeThatItIsCalledIn) {
  const TestTree other;
  other.write("other", "1");
  other.commit_all();
  const TestTree tree;
  tree.write("a", "1");
  tree.commit_all();
  ::setenv("GIT_DIR", (other.root() / ".git").c_str(), 1);
  ::setenv("GIT_INDEX_FILE", (other.root() / ".git/index").c_str(), 1);
  const Frozen frozen = freeze_now(tree);
  ::unsetenv("GIT_DIR");
  ::unsetenv("GIT_INDEX_FILE");
  EXPECT_THAT(paths_of(frozen.job), ElementsAre("a"));
  EXPECT_EQ(frozen.job.commit, tree.git({"rev-parse", "HEAD"}));
}

// Killed anywhere, it leaves no folder that looks whole and is not, and the next one works.
TEST(Freeze, AKillLeavesNothingHalfMade) {
  const TestTree tree;
  for (int i = 0; i < 400; ++i) {
    tree.write("folder" + std::to_string(i % 7) + "/file" + std::to_string(i),
               std::string(static_cast<std::size_t>(i) * 37, static_cast<char>('a' + i % 26)));
  }
  std::mt19937 random(20);
  int killed = 0;
  for (int repeat = 0; repeat < 40; ++repeat) {
    fs::remove_all(tree.store() / "objects");
    const pid_t child = ::fork();
    if (child == 0) {
      (void)freeze_now(tree);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(random() % 40000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) ++killed;
    if (!fs::exists(tree.store() / "jobs")) continue;
    for (const auto& entry : fs::directory_iterator(tree.store() / "jobs")) {
      if (entry.path().filename().string().front() == '.') continue;
      const FrozenJob job = read_frozen_job(base::posix_file_system(), entry.path());
      ASSERT_EQ(job.files.size(), 400u);
      for (const FrozenFile& file : job.files) {
        ASSERT_EQ(text_of(entry.path() / "tree" / file.path), text_of(tree.root() / file.path));
      }
      fs::remove_all(entry.path());
    }
  }
  EXPECT_GT(killed, 5);
  EXPECT_EQ(freeze_now(tree).job.files.size(), 400u);
}

TEST(Freeze, IsFoundByNameAndByTheNewestJobOfAnId) {
  const TestTree tree;
  tree.write("a", "1");
  const Frozen one = freeze_now(tree);
  keep_job_id(one.folder, "17");
  EXPECT_EQ(find_frozen(tree.store(), "17"), one.folder);
  EXPECT_EQ(find_frozen(tree.store(), one.job.name), one.folder);
  EXPECT_EQ(find_frozen(tree.store(), "1"), std::nullopt);
  EXPECT_EQ(find_frozen(tree.beside() / "nowhere", "17"), std::nullopt);
  ::usleep(2000);  // names are in order of milliseconds
  const Frozen two = freeze_now(tree);
  keep_job_id(two.folder, "17");  // Slurm was set up anew
  EXPECT_EQ(find_frozen(tree.store(), "17"), two.folder);
  discard(two.folder);
  EXPECT_EQ(find_frozen(tree.store(), "17"), one.folder);
  EXPECT_EQ(text_of(one.directory / "a"), "1");
}

}  // namespace
}  // namespace regatta::orchestrator::frozen
