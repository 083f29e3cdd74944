#include "orchestrator/files/shared_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using base::Code;
using base::Error;
using testing::HasSubstr;
using tests::eventually;

constexpr double kStuck = 0.1;

// What hangs until it is told to go on. Shared with the works, as it has to be.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++inside_;
    open_changed_.wait(lock, [this] { return open_; });
    --inside_;
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    open_changed_.notify_all();
  }
  void close() {
    const std::scoped_lock lock(mutex_);
    open_ = false;
  }
  int inside() {
    const std::scoped_lock lock(mutex_);
    return inside_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable open_changed_;
  bool open_ = false;
  int inside_ = 0;
};

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// "/a/…" is on device 1, "/b/…" on device 2, and so on.
files::DeviceId by_letter(const base::Path& directory) {
  return static_cast<files::DeviceId>(directory.string().at(1) - 'a' + 1);
}

constexpr double kBegun = 3;  // seconds in which a thread has begun its work on any machine
// Longer than any machine needs for what answers, and a while before what hangs would be given up.
constexpr double kAnswers = 60, kGivesUp = 200;

class SharedFilesTest : public testing::Test {
 protected:
  ~SharedFilesTest() override { gate_->open(); }

  static files::SharedFilesLimits limits() {
    files::SharedFilesLimits limits;
    limits.stuck_seconds = kStuck;
    limits.probe_seconds = 0.1;
    return limits;
  }
  std::function<void()> hanging() {
    return [gate = gate_] { gate->pass(); };
  }
  // Starts `count` works that hang, each of a directory of its own; how many were taken.
  int hang(files::SharedFiles& shared, const std::string& folder, int count) {
    int taken = 0;
    for (int i = 0; i < count; ++i) {
      taken += shared.start(folder + std::to_string(i), hanging()) ? 1 : 0;
    }
    return taken;
  }

  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

TEST_F(SharedFilesTest, GivesWhatTheWorkReturnsOrThrows) {
  files::SharedFiles shared(limits(), by_letter);
  EXPECT_EQ(shared.call("/a/run", kAnswers, [] { return std::string("answer"); }), "answer");
  int done = 0;
  shared.call("/a/run", kAnswers, [&done] { done = 1; });
  EXPECT_EQ(done, 1);
  const auto error = error_of([&] {
    (void)shared.call("/a/run", kAnswers,
                      []() -> int { throw Error(Code::NotFound, "no such file"); });
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::NotFound);
  EXPECT_FALSE(shared.stuck_for("/a/run"));
}

TEST_F(SharedFilesTest, DeadlinesHold) {
  files::SharedFiles shared(limits(), by_letter);
  std::optional<Error> error;
  const double took =
      seconds_of([&] { error = error_of([&] { shared.call("/a/run", kBegun, hanging()); }); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::Retry);
  EXPECT_THAT(error->what(), HasSubstr("/a/run has not answered for "));
  EXPECT_GE(took, kBegun);
  EXPECT_LT(took, kAnswers);
  EXPECT_GE(shared.stuck_for("/a/run").value_or(0), kBegun);
  EXPECT_FALSE(shared.stuck_for("/a/other"));
  gate_->open();
  EXPECT_TRUE(eventually([&] { return !shared.stuck_for("/a/run"); }));
}

TEST_F(SharedFilesTest, WhatAnswersTooLateIsDropped) {
  files::SharedFiles shared(limits(), by_letter);
  const auto held = std::make_shared<int>(7);
  EXPECT_TRUE(error_of([&] {
    (void)shared.call("/a/run", kBegun, [gate = gate_, held] {
      gate->pass();
      return held;
    });
  }));
  EXPECT_GT(held.use_count(), 1) << "what hangs has what it needs";
  gate_->open();
  EXPECT_TRUE(eventually([&] { return held.use_count() == 1; })) << "and then lets go of it";
}

TEST_F(SharedFilesTest, OneStartedWorkForADirectory) {
  files::SharedFiles shared(limits(), by_letter);
  EXPECT_TRUE(shared.start("/a/run", hanging()));
  EXPECT_FALSE(shared.start("/a/run", hanging()));
  EXPECT_TRUE(shared.start("/a/other", [] {}));
  gate_->open();
  ASSERT_TRUE(eventually([&] { return !shared.stuck_for("/a/run"); }));
  std::atomic<bool> done = false;
  EXPECT_TRUE(shared.start("/a/run", [&done] {
    done = true;
    throw Error(Code::Operator, "is logged");
  }));
  EXPECT_TRUE(eventually([&] { return done.load(); }));
}

TEST_F(SharedFilesTest, ADirectoryWithStuckWorkGetsNoSecondThread) {
  files::SharedFiles shared(limits(), by_letter);
  EXPECT_TRUE(error_of([&] { shared.call("/a/run", kBegun, hanging()); }));
  ASSERT_TRUE(eventually([&] { return shared.stuck_for("/a/run").value_or(0) > 2 * kStuck; }));
  EXPECT_FALSE(shared.start("/a/run", [] {}));
  std::optional<Error> error;
  const double took =
      seconds_of([&] { error = error_of([&] { shared.call("/a/run", kGivesUp, [] {}); }); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::Retry);
  EXPECT_LT(took, kAnswers) << "it is known, so nobody waits for the deadline";
  EXPECT_EQ(shared.call("/a/other", kAnswers, [] { return 1; }), 1)
      << "one stuck work is not a hung mount";
}

// What hung there hangs on, and keeps nothing from the new file system.
TEST_F(SharedFilesTest, ADirectoryThatIsMountedAnewAnswers) {
  std::atomic<files::DeviceId> device = 1;
  files::SharedFiles shared(limits(), [&device](const base::Path&) { return device.load(); });
  EXPECT_TRUE(error_of([&] { shared.call("/a/run", kBegun, hanging()); }));
  ASSERT_TRUE(eventually([&] { return shared.stuck_for("/a/run").value_or(0) > 2 * kStuck; }));
  EXPECT_TRUE(error_of([&] { shared.call("/a/run", kAnswers, [] {}); }));
  device = 2;
  EXPECT_EQ(shared.call("/a/run", kAnswers, [] { return 1; }), 1);
  EXPECT_TRUE(shared.start("/a/run", [] {}));
}

TEST_F(SharedFilesTest, FiveHundredHungDirectoriesCostFewThreads) {
  files::SharedFilesLimits known_late = limits();
  known_late.stuck_seconds = 1;  // who waits for what hangs waits so long
  files::SharedFiles shared(known_late, by_letter);
  EXPECT_GT(hang(shared, "/a/", 500), 0);
  ASSERT_TRUE(eventually([&] { return gate_->inside() >= 4; }));
  // The other file system never waits for this one, neither before it is known to hang nor after.
  std::vector<double> took;
  for (int i = 0; i < 100; ++i) {
    took.push_back(
        seconds_of([&] { EXPECT_EQ(shared.call("/b/run", kAnswers, [i] { return i; }), i); }));
    (void)hang(shared, "/a/", 500);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  std::sort(took.begin(), took.end());
  EXPECT_LT(took[90], 0.5);
  EXPECT_LT(took.back(), 40) << "a loaded machine; what hangs hangs for ever";
  ASSERT_TRUE(eventually([&] {
    (void)hang(shared, "/a/", 500);
    return gate_->inside() >= 5;
  }));
  EXPECT_EQ(gate_->inside(), 5) << "four at once, and a probe";
  EXPECT_LE(shared.threads(), 8U + 5U);
  EXPECT_FALSE(shared.start("/a/new", [] {})) << "the breaker is open";
  EXPECT_TRUE(error_of([&] { shared.call("/a/new", 30, [] {}); }));
  gate_->open();
  EXPECT_TRUE(eventually([&] { return shared.start("/a/new", [] {}); })) << "and closes again";
  EXPECT_EQ(shared.call("/a/newer", kAnswers, [] { return 2; }), 2);
  EXPECT_TRUE(eventually([&] { return shared.threads() <= 8; })) << "the spare ones go";
}

// What was stuck may stay so for ever (a target that is gone for good) when the rest is back.
TEST_F(SharedFilesTest, AProbeThatIsAnsweredClosesTheBreaker) {
  files::SharedFiles shared(limits(), by_letter);
  EXPECT_EQ(hang(shared, "/a/", 2), 2);
  // Nothing is tried meanwhile: what is answered says that the file system does not hang.
  ASSERT_TRUE(eventually([&] { return shared.stuck_for("/a/1").value_or(0) > 2 * kStuck; }));
  EXPECT_FALSE(shared.start("/a/0", [] {}));
  EXPECT_TRUE(
      eventually([&] { return !error_of([&] { shared.call("/a/probe", kAnswers, [] {}); }); }));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(shared.call("/a/more" + std::to_string(i), kAnswers, [i] { return i; }), i);
  }
  EXPECT_FALSE(shared.start("/a/0", [] {})) << "not those that are stuck themselves";
}

TEST_F(SharedFilesTest, ManyHungFileSystemsLeaveWorkersForTheRest) {
  files::SharedFiles shared(limits(), by_letter);
  for (char letter = 'b'; letter <= 'z'; ++letter) {
    (void)hang(shared, std::string("/") + letter + "/", 10);
  }
  ASSERT_TRUE(eventually([&] { return gate_->inside() >= 32; }));
  std::this_thread::sleep_for(std::chrono::duration<double>(3 * kStuck));
  EXPECT_LE(shared.threads(), 40U);
  EXPECT_LE(gate_->inside(), 40);
}

TEST_F(SharedFilesTest, DestructionWaitsForNothingThatIsStuck) {
  const auto held = std::make_shared<int>(7);
  double took = 0;
  {
    std::optional<files::SharedFiles> shared(std::in_place, limits(), by_letter);
    EXPECT_TRUE(shared->start("/a/run", [gate = gate_, held] { gate->pass(); }));
    EXPECT_GT(hang(*shared, "/a/", 100), 0);
    ASSERT_TRUE(eventually([&] { return shared->stuck_for("/a/run").value_or(0) > 2 * kStuck; }));
    took = seconds_of([&] { shared.reset(); });
  }
  EXPECT_LT(took, kAnswers);
  EXPECT_GT(held.use_count(), 1);
  gate_->open();
  EXPECT_TRUE(eventually([&] { return held.use_count() == 1; }));
}

TEST_F(SharedFilesTest, DestructionLetsRunningWorkEnd) {
  const auto done = std::make_shared<std::atomic<bool>>(false);
  {
    files::SharedFilesLimits patient = limits();
    patient.stuck_seconds = 60;
    files::SharedFiles shared(patient, by_letter);
    EXPECT_TRUE(shared.start("/a/run", [done] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      *done = true;
    }));
    shared.call("/b/run", kAnswers, [] {});
    ASSERT_TRUE(eventually([&] { return shared.threads() > 0; }));
  }
  EXPECT_TRUE(*done);
}

TEST_F(SharedFilesTest, ManyAtOnceAllEnd) {
  files::SharedFilesLimits patient = limits();
  patient.stuck_seconds = 60;
  files::SharedFiles shared(patient, by_letter);
  std::atomic<int> done = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 200; ++i) {
        const std::string directory =
            "/" + std::string(1, static_cast<char>('a' + i % 5)) + "/" + std::to_string(caller);
        done += shared.call(directory, kAnswers, [] { return 1; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 1600);
  EXPECT_LE(shared.threads(), 8U);
}

TEST_F(SharedFilesTest, CallsAndStartedWorksTakeTurns) {
  std::mutex mutex;
  std::string order;
  const auto note = [&](char what) {
    return [&, what] {
      const std::scoped_lock lock(mutex);
      order += what;
    };
  };
  files::SharedFilesLimits one = limits();
  one.per_device = 1;
  one.stuck_seconds = 60;
  files::SharedFiles shared(one, by_letter);
  ASSERT_TRUE(shared.start("/a/first", hanging()));
  ASSERT_TRUE(eventually([&] { return gate_->inside() == 1; }));
  std::vector<std::jthread> callers;
  for (int i = 0; i < 6; ++i) {
    const std::string directory = "/a/call" + std::to_string(i);
    callers.emplace_back([&, directory] { shared.call(directory, kAnswers, note('c')); });
    ASSERT_TRUE(eventually([&] { return shared.stuck_for(directory).has_value(); })) << "waits";
  }
  for (const char* const directory : {"/a/start0", "/a/start1"}) {
    ASSERT_TRUE(shared.start(directory, note('s')));
  }
  gate_->open();
  callers.clear();
  EXPECT_TRUE(eventually([&] { return !shared.stuck_for("/a/start1"); }));
  EXPECT_EQ(order, "cscscccc") << "neither waits for all of the other";
}

TEST_F(SharedFilesTest, KnowsDevicesByItself) {
  tests::TemporaryDirectory folder;
  files::SharedFiles shared(limits());
  EXPECT_EQ(shared.call(folder.path(), kAnswers, [] { return 1; }), 1);
  EXPECT_EQ(shared.call("/nowhere/at/all", kAnswers, [] { return 2; }), 2);
}

// A hung mount behind links does not count as the file system on which the links lie, even where
// nothing on it was ever answered. /dev/shm stands for it.
TEST_F(SharedFilesTest, RunsThatAreLinksAnswerForTheirOwnFileSystem) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no second file system";
  const tests::TemporaryDirectory folder;
  struct stat here {};
  struct stat there {};
  ASSERT_EQ(::stat(folder.path().c_str(), &here), 0);
  ASSERT_EQ(::stat("/dev/shm", &there), 0);
  if (here.st_dev == there.st_dev) GTEST_SKIP() << "no second file system";
  files::SharedFilesLimits patient = limits();
  patient.stuck_seconds = 1;  // two works that are only late would look like a mount that hangs
  files::SharedFiles shared(patient);
  for (int i = 0; i < 20; ++i) {
    const base::Path run = folder.path() / std::to_string(i);
    std::filesystem::create_directory_symlink("/dev/shm", run);
    (void)shared.start(run, hanging());
  }
  ASSERT_TRUE(eventually([&] { return gate_->inside() >= 4; }));
  std::this_thread::sleep_for(std::chrono::duration<double>(3 * patient.stuck_seconds));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(shared.start(folder.path() / ("new" + std::to_string(i)), [] {})) << i;
    EXPECT_FALSE(shared.start(folder.path() / std::to_string(i), [] {})) << i;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LE(gate_->inside(), 5);
}

TEST(MountTable, FindsTheLongestMountPoint) {
  const files::MountTable table(
      "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "23 22 0:21 / /proc rw - proc proc rw\n"
      "30 22 0:40 / /scratch rw,relatime shared:7 - lustre fs rw\n"
      "31 30 0:41 / /scratch/two\\040words rw - nfs4 server:/x rw\n"
      "32 22 0:42 / /scratch rw - nfs4 server:/over rw\n"
      "garbage\n33 22 x:y / /bad rw\n34 22 7 / /bad rw\n");
  EXPECT_EQ(table.device_of("/home/user"), makedev(254, 0));
  EXPECT_EQ(table.device_of("/"), makedev(254, 0));
  EXPECT_EQ(table.device_of("/proc"), makedev(0, 21));
  EXPECT_EQ(table.device_of("/process"), makedev(254, 0));
  EXPECT_EQ(table.device_of("/scratch/runs/x"), makedev(0, 42)) << "the later one hides the other";
  EXPECT_EQ(table.device_of("/scratch/two words/x"), makedev(0, 41));
  EXPECT_EQ(table.device_of("/bad"), makedev(254, 0));
  EXPECT_EQ(files::MountTable("").device_of("/x"), 0U);
}

TEST(MountTable, AgreesWithStat) {
  const files::MountTable table(base::posix_file_system().read("/proc/self/mountinfo", 1 << 24));
  for (const char* path : {"/proc", "/dev", "/sys"}) {
    struct stat status {};
    if (::stat(path, &status) != 0) continue;
    EXPECT_EQ(table.device_of(path), status.st_dev) << path;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
