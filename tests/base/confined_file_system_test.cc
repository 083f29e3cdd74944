#include "base/confined_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::base {
namespace {

using Open = FileSystem::Open;
using Openat2 = ConfinedFileSystem::Openat2;
using testing::HasSubstr;

constexpr const char* kSecret = "root:x:0:0";

// What `body` throws; fails the test where nothing is thrown, or where it waits for somebody.
Error error_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  Error thrown(Code::Developer, "nothing was thrown");
  try {
    body();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    thrown = error;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << thrown.what();
  return thrown;
}

void make_socket(const Path& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.string().size(), sizeof address.sun_path);
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

// Every kind of thing that is no regular file, made at `path`; false where only root may make it.
const std::vector<std::pair<std::string, std::function<bool(const Path&)>>>& irregular() {
  static const std::vector<std::pair<std::string, std::function<bool(const Path&)>>> kinds{
      {"a named pipe", [](const Path& path) { return ::mkfifo(path.c_str(), 0600) == 0; }},
      {"a socket",
       [](const Path& path) {
         make_socket(path);
         return true;
       }},
      {"a directory", [](const Path& path) { return ::mkdir(path.c_str(), 0700) == 0; }},
      {"a device",
       [](const Path& path) { return ::mknod(path.c_str(), S_IFCHR | 0600U, makedev(1, 5)) == 0; }},
  };
  return kinds;
}

// Reads and writes of something that is no file end at once, with a sentence, and change nothing.
void expect_refused(FileSystem& files, const Path& path, const std::string& what) {
  SCOPED_TRACE(path.string());
  std::byte bytes[8];
  for (const auto& body : std::vector<std::function<void()>>{
           [&] { (void)files.read(path, 100); },
           [&] { (void)files.read_at(path, 3, 100); },
           [&] { (void)files.read_into(path, 0, bytes); },
           [&] { (void)files.size(path); },
           [&] { (void)read_tail(files, path, 100); },
           [&] { files.open(path, Open::Append)->append("x"); },
           [&] { files.open(path, Open::Truncate)->append("x"); },
       }) {
    const Error error = error_of(body);
    EXPECT_EQ(error.code(), Code::Conflict);
    EXPECT_THAT(error.what(), HasSubstr(what));
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr(kSecret)));
  }
  EXPECT_EQ(error_of([&] { files.open(path, Open::CreateNew)->append("x"); }).code(),
            Code::Conflict);
}

TEST(RegularFiles, NothingElseIsReadOrWritten) {
  const tests::TemporaryDirectory folder;
  int number = 0;
  for (const auto& [what, make] : irregular()) {
    const Path path = folder.path() / ("x" + std::to_string(++number));
    if (!make(path)) {
      EXPECT_NE(::geteuid(), 0U) << what;
      continue;
    }
    expect_refused(posix_file_system(), path, what);
    // Behind a link just so: where links are followed at all, they lead to files.
    const Path link = folder.path() / ("link" + std::to_string(number));
    std::filesystem::create_symlink(path, link);
    expect_refused(posix_file_system(), link, what);
  }
}

TEST(RegularFiles, ANamedPipeWithAReaderGetsNoByte) {
  const tests::TemporaryDirectory folder;
  const Path path = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  for (const Open how : {Open::Append, Open::Truncate}) {
    EXPECT_EQ(error_of([&] { posix_file_system().open(path, how)->append("x"); }).code(),
              Code::Conflict);
  }
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "no writer, no byte";
}

TEST(RegularFiles, ProcAndTailsAreRead) {
  EXPECT_FALSE(posix_file_system().read("/proc/self/stat", 65536).empty());
  const tests::TemporaryDirectory folder;
  const Path path = folder.path() / "f";
  posix_file_system().open(path, Open::CreateNew)->append("0123456789");
  EXPECT_EQ(posix_file_system().size(path), 10U);
  EXPECT_EQ(read_tail(posix_file_system(), path, 3), "789");
  EXPECT_EQ(read_tail(posix_file_system(), path, 10), "0123456789");
  EXPECT_EQ(read_tail(posix_file_system(), path, 99), "0123456789");
  EXPECT_EQ(error_of([&] { (void)posix_file_system().size(folder.path() / "g"); }).code(),
            Code::NotFound);
}

TEST(RegularFiles, AChildWritesToNothingElse) {
  const tests::TemporaryDirectory folder;
  Command command;
  command.arguments = {"echo", "hello"};
  int number = 0;
  for (const auto& [what, make] : irregular()) {
    command.output_path = folder.path() / ("x" + std::to_string(++number));
    if (!make(command.output_path)) continue;
    EXPECT_THAT(error_of([&] { (void)spawn(command); }).what(), HasSubstr(what));
  }
  const Path precious = folder.path() / "precious";
  posix_file_system().open(precious, Open::CreateNew)->append("x");
  command.output_path = folder.path() / "link";
  std::filesystem::create_symlink(precious, command.output_path);
  EXPECT_THAT(error_of([&] { (void)spawn(command); }).what(), HasSubstr("a symbolic link"));
  EXPECT_EQ(posix_file_system().read(precious, 9), "x");
  command.output_path = folder.path() / "log";
  EXPECT_EQ(wait_exit(spawn(command)).code, 0);
  EXPECT_EQ(posix_file_system().read(command.output_path, 9), "hello\n");
}

class Confined : public testing::TestWithParam<Openat2> {
 protected:
  Confined() {
    for (const char* name : {"runs", "runs/run", "runs/run/d", "runs/run/d/e", "outside"}) {
      std::filesystem::create_directory(folder_.path() / name);
    }
    put(outside() / "passwd", kSecret);
    put(run() / "d" / "e" / "file", "inside");
  }
  static void put(const Path& path, const std::string& text) {
    posix_file_system().open(path, Open::CreateNew)->append(text);
  }
  Path outside() const { return folder_.path() / "outside"; }
  Path run() const { return folder_.path() / "runs" / "run"; }

  tests::TemporaryDirectory folder_;
  ConfinedFileSystem files_{folder_.path() / "runs", GetParam()};
};

INSTANTIATE_TEST_SUITE_P(BothWays, Confined,
                         testing::Values(Openat2::WhereAvailable, Openat2::Never));

TEST_P(Confined, DoesWhatTheOrdinaryOneDoes) {
  const Path deep = run() / "d" / "e";
  EXPECT_EQ(files_.read(deep / "file", 99), "inside");
  EXPECT_EQ(files_.read_at(deep / "file", 2, 3), "sid");
  std::string out(2, '.');
  EXPECT_EQ(files_.read_into(deep / "file", 1, std::as_writable_bytes(std::span(out))), 2U);
  EXPECT_EQ(out, "ns");
  EXPECT_EQ(files_.size(deep / "file"), 6U);
  EXPECT_TRUE(files_.create_directory(deep / "new"));
  EXPECT_FALSE(files_.create_directory(deep / "new"));
  files_.open(deep / "new" / "a", Open::CreateNew)->append("one");
  files_.open(deep / "new" / "a", Open::Append)->append("+two");
  files_.open(deep / "new" / "b", Open::CreateNewDirect)->sync();
  EXPECT_EQ(files_.list(deep / "new"), (std::vector<std::string>{"a", "b"}));
  files_.open(deep / "new" / "a", Open::Truncate)->append("3");
  files_.rename(deep / "new" / "a", run() / "moved");
  EXPECT_EQ(files_.read(run() / "moved", 9), "3");
  EXPECT_NO_THROW(files_.sync_directory(run()));
  EXPECT_NO_THROW(files_.sync_directory(deep));
  EXPECT_GT(files_.free_bytes(deep), 0U);
  EXPECT_GT(files_.free_bytes(run()), 0U);
  files_.remove_file(run() / "moved");
  EXPECT_FALSE(files_.exists(run() / "moved"));
  replace_file(files_, run() / "d" / "record", "text");
  EXPECT_EQ(files_.list(run() / "d"), (std::vector<std::string>{"e", "record"}));
  files_.remove_tree(run() / "d");
  EXPECT_EQ(files_.list(run()), std::vector<std::string>{});
}

TEST_P(Confined, WhatIsAbsentIsAbsent) {
  for (const Path& path :
       {run() / "no", run() / "no" / "file", run() / "no" / "no" / "file",
        run().parent_path() / "other" / "file", run() / "d" / "e" / "file" / "below" / "it"}) {
    SCOPED_TRACE(path.string());
    EXPECT_EQ(error_of([&] { (void)files_.read(path, 9); }).code(), Code::NotFound);
    EXPECT_EQ(error_of([&] { (void)files_.size(path); }).code(), Code::NotFound);
    EXPECT_FALSE(files_.exists(path));
    EXPECT_TRUE(files_.list(path).empty());
    EXPECT_NO_THROW(files_.remove_file(path));
    EXPECT_NO_THROW(files_.remove_tree(path));
  }
}

TEST_P(Confined, TheRunItselfMayBeALink) {
  std::filesystem::rename(run(), outside() / "elsewhere");
  std::filesystem::create_directory_symlink(outside() / "elsewhere", run());
  EXPECT_EQ(files_.read(run() / "d" / "e" / "file", 99), "inside");
  EXPECT_EQ(files_.list(run()), std::vector<std::string>{"d"});
  files_.open(run() / "new", Open::CreateNew)->append("x");
  EXPECT_EQ(posix_file_system().read(outside() / "elsewhere" / "new", 9), "x");
  files_.remove_tree(run());
  EXPECT_FALSE(files_.exists(run()));
  EXPECT_TRUE(files_.exists(outside() / "elsewhere" / "new")) << "only the link goes";
}

TEST_P(Confined, PathsElsewhereAreOrdinary) {
  std::filesystem::create_symlink(outside() / "passwd", outside() / "link");
  EXPECT_EQ(files_.read(outside() / "link", 99), kSecret);
  EXPECT_FALSE(files_.read("/proc/self/stat", 65536).empty());
  EXPECT_EQ(files_.list(folder_.path() / "runs"), std::vector<std::string>{"run"});
}

// The same place, spelled otherwise, is the same place.
TEST_P(Confined, SpellingChangesNothing) {
  std::filesystem::create_symlink(outside(), run() / "link");
  for (const std::string& text :
       {run().string() + "//link/passwd", run().string() + "/./link/passwd",
        folder_.path().string() + "/./runs/run/link/passwd",
        folder_.path().string() + "/outside/../runs/run/link/passwd"}) {
    EXPECT_EQ(error_of([&] { (void)files_.read(text, 99); }).code(), Code::Conflict) << text;
  }
  for (const char* text : {"../outside/passwd", "run/../../outside/passwd", "run/d/../d/e/file"}) {
    EXPECT_EQ(error_of([&] { (void)files_.read(folder_.path() / "runs" / text, 99); }).code(),
              Code::User)
        << text;
  }
}

TEST_P(Confined, LinksAreRefusedWhereverTheyLie) {
  const std::pair<const char*, Path> targets[] = {
      {"file", outside() / "passwd"},       {"dangling", outside() / "nothing"},
      {"itself", run() / "itself"},         {"pipe", outside() / "pipe"},
      {"inside", run() / "d/e/file"},       {"magic", "/proc/self/exe"},
      {"relative", "../../outside/passwd"},
  };
  ASSERT_EQ(::mkfifo((outside() / "pipe").c_str(), 0600), 0);
  for (const auto& [name, target] : targets) {
    std::filesystem::create_symlink(target, run() / name);
    expect_refused(files_, run() / name, "a symbolic link");
    EXPECT_TRUE(files_.exists(run() / name)) << "the link itself";
  }
  EXPECT_FALSE(std::filesystem::exists(outside() / "nothing"));
  EXPECT_EQ(posix_file_system().read(outside() / "passwd", 99), kSecret);
}

TEST_P(Confined, DirectoriesBehindLinksAreNotEntered) {
  std::filesystem::create_directory_symlink(outside(), run() / "link");
  std::filesystem::create_directory_symlink("/proc/self/cwd", run() / "magic");
  std::filesystem::create_directory_symlink(outside(), run() / "d" / "link");
  std::filesystem::create_directory(outside() / "sub");
  for (const Path& link : {run() / "link", run() / "d" / "link", run() / "magic"}) {
    for (const auto& body : std::vector<std::function<void()>>{
             [&] { (void)files_.read(link / "passwd", 99); },
             [&] { (void)files_.read(link / "sub" / "x", 99); },
             [&] { (void)files_.open(link / "new", Open::CreateNew); },
             [&] { (void)files_.create_directory(link / "new"); },
             [&] { (void)files_.create_directory(link); },
             [&] { (void)files_.list(link); },
             [&] { (void)files_.list(link / "sub"); },
             [&] { (void)files_.exists(link / "passwd"); },
             [&] { files_.rename(link / "passwd", run() / "mine"); },
             [&] { files_.rename(run() / "d" / "e", link / "mine"); },
             [&] { files_.remove_file(link / "passwd"); },
             [&] { files_.remove_tree(link / "passwd"); },
             [&] { files_.remove_tree(link / "sub"); },
             [&] { files_.sync_directory(link); },
             [&] { (void)files_.free_bytes(link / "sub"); },
         }) {
      const Error error = error_of(body);
      EXPECT_EQ(error.code(), Code::Conflict);
      EXPECT_THAT(error.what(), HasSubstr("symbolic link"));
    }
  }
  files_.remove_tree(run() / "d");
  files_.remove_file(run() / "link");
  EXPECT_EQ(posix_file_system().list(outside()), (std::vector<std::string>{"passwd", "sub"}));
}

TEST_P(Confined, NothingButFilesIsReadOrWritten) {
  int number = 0;
  for (const auto& [what, make] : irregular()) {
    const Path path = run() / "d" / ("x" + std::to_string(++number));
    if (make(path)) expect_refused(files_, path, what);
  }
}

TEST_P(Confined, NoTreeIsTooDeepForTheDescriptors) {
  Path path = run() / "deep";
  for (int i = 0; i < 300; ++i) {
    std::filesystem::create_directory(path);
    path /= "d";
  }
  EXPECT_THAT(error_of([&] { files_.remove_tree(run() / "deep"); }).what(), HasSubstr("rm -r"));
}

// A directory that is swapped for a link all the time never shows what is behind the link.
TEST_P(Confined, NoRaceLeadsOutside) {
  std::filesystem::create_directory(run() / "real");
  put(run() / "real" / "passwd", "inside");
  std::filesystem::create_directory_symlink(outside(), run() / "fake");
  std::atomic<bool> done = false;
  std::thread swapper([&] {
    while (!done) {
      (void)::syscall(SYS_renameat2, AT_FDCWD, (run() / "real").c_str(), AT_FDCWD,
                      (run() / "fake").c_str(), 2U /* RENAME_EXCHANGE */);
    }
  });
  int read = 0;
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    try {
      EXPECT_EQ(files_.read(run() / "real" / "passwd", 99), "inside");
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  done = true;
  swapper.join();
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace regatta::base
