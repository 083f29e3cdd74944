#include "orchestrator/files/runs_directory_lease.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <memory>

#include "base/process.h"
#include "base/text.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::eventually;
using tests::TemporaryDirectory;
using Clock = std::chrono::steady_clock;

// As on NFS 3 without lockd between two machines: a lock for everybody.
int always(int, int) { return 0; }

files::HostIdentity other_host() { return {"login2", "machine-2", "boot-2", "pid:[2]"}; }

// Quick, on a file system whose locks mean nothing.
files::LeaseOptions quick(files::HostIdentity host = files::this_host()) {
  files::LeaseOptions options;
  options.store = "/var/tmp/state";
  options.heartbeat_seconds = 0.05;
  options.trust_seconds = 40;  // a disk may keep a heartbeat waiting
  options.watch_seconds = 1;
  options.settle_seconds = 0.1;
  options.host = std::move(host);
  options.local_file_system = false;
  options.calls.flock = always;
  return options;
}

// One that finds the lease of a dead holder must not watch it: that would take a minute.
files::LeaseOptions at_once(files::LeaseOptions options) {
  options.watch_seconds = 60;
  return options;
}
constexpr double kAtOnce = 30;  // seconds, on any disk

class LeaseTest : public testing::Test {
 protected:
  base::Path path() const { return folder_.path() / ".controller.lock"; }
  std::string error_of(const files::LeaseOptions& options) {
    try {
      const files::RunsDirectoryLease lease(folder_.path(), options);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  }
  std::string text() const { return base::posix_file_system().read(path(), 1 << 20); }
  // As if its holder had been killed there.
  files::LeaseRecord leave(const files::HostIdentity& host, std::int64_t process = 4211) {
    files::LeaseRecord record = files::own_record(host, "/var/tmp/theirs");
    record.process = process;
    record.start_ticks = 17;
    tests::write_file(path(), files::lease_text(record, 41));
    return record;
  }
  // Seconds until the lease was there; it is given back at once.
  double seconds_to_take(const files::LeaseOptions& options) {
    const auto begin = Clock::now();
    const files::RunsDirectoryLease lease(folder_.path(), options);
    EXPECT_TRUE(lease.held());
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  std::vector<std::string> names() const { return base::posix_file_system().list(folder_.path()); }

  TemporaryDirectory folder_;
};

TEST_F(LeaseTest, SaysWhoHasIt) {
  const files::RunsDirectoryLease lease(folder_.path(), quick());
  const auto record = files::parse_lease(text());
  ASSERT_TRUE(record);
  EXPECT_EQ(record->process, ::getpid());
  EXPECT_EQ(record->host.boot, files::this_host().boot);
  EXPECT_EQ(record->store, "/var/tmp/state");
  EXPECT_FALSE(record->released);
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_TRUE(eventually([&] { return names().size() == 1; })) << "nothing beside it";
}

TEST_F(LeaseTest, OneOfTwoOnThisHostThoughFlockLocksNobodyOut) {
  const files::RunsDirectoryLease lease(folder_.path(), quick());
  EXPECT_THAT(
      error_of(quick()),
      AllOf(HasSubstr("in use by another controller: process " + std::to_string(::getpid())),
            HasSubstr("store /var/tmp/state"), HasSubstr("that process lives"),
            HasSubstr("name another directory with --runs")));
  EXPECT_TRUE(lease.held());
}

TEST_F(LeaseTest, OneOfTwoOnTwoHostsThoughFlockLocksNobodyOut) {
  const files::RunsDirectoryLease lease(folder_.path(), quick(other_host()));
  EXPECT_THAT(error_of(at_once(quick())),
              AllOf(HasSubstr("on login2"), HasSubstr("its heartbeat goes on")));
  EXPECT_TRUE(lease.held());
  // The server of the file system has it as a local disk, and sees no lock of its clients.
  files::LeaseOptions server = at_once(quick());
  server.local_file_system = true;
  EXPECT_THAT(error_of(server), HasSubstr("its heartbeat goes on"));
}

TEST_F(LeaseTest, OneOfManyThatComeAtOnce) {
  for (const bool left : {false, true}) {
    if (left) leave(files::this_host());
    std::vector<std::future<std::unique_ptr<files::RunsDirectoryLease>>> starts;
    for (int i = 0; i < 8; ++i) {
      files::HostIdentity host = files::this_host();
      if (i % 2 == 1) host.boot = "boot-" + std::to_string(i);
      starts.push_back(std::async(std::launch::async, [this, host, i] {
        files::LeaseOptions options = quick(host);
        options.watch_seconds = 0.5 + 0.01 * i;
        try {
          return std::make_unique<files::RunsDirectoryLease>(folder_.path(), options);
        } catch (const base::Error&) {
          return std::unique_ptr<files::RunsDirectoryLease>();
        }
      }));
    }
    std::vector<std::unique_ptr<files::RunsDirectoryLease>> leases;
    for (auto& start : starts) {
      if (auto lease = start.get()) leases.push_back(std::move(lease));
    }
    // Of two that meet in one moment the earlier loses it, and says so.
    EXPECT_TRUE(eventually([&] {
      int held = 0;
      int kept = 0;
      for (const auto& lease : leases) held += lease->held() ? 1 : 0;
      for (const auto& lease : leases) kept += lease->loss().empty() ? 1 : 0;
      return held == 1 && kept == 1;
    }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    int held = 0;
    for (const auto& lease : leases) held += lease->loss().empty() ? 1 : 0;
    EXPECT_EQ(held, 1);
    leases.clear();
    std::filesystem::remove(path());
  }
}

TEST_F(LeaseTest, IsGivenBack) {
  { const files::RunsDirectoryLease lease(folder_.path(), quick(other_host())); }
  EXPECT_TRUE(files::parse_lease(text())->released);
  EXPECT_LT(seconds_to_take(at_once(quick())), kAtOnce) << "nobody waits for a heartbeat";
}

TEST_F(LeaseTest, OfADeadProcessOfThisBootIsTakenAtOnce) {
  leave(files::this_host(), 0x7ffffff0);
  EXPECT_LT(seconds_to_take(at_once(quick())), kAtOnce);
  leave(files::this_host(), ::getpid());  // the id is in use again: its start tells
  EXPECT_LT(seconds_to_take(at_once(quick())), kAtOnce);
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(LeaseTest, OfAnEarlierBootIsTakenAtOnce) {
  files::HostIdentity before = files::this_host();
  before.boot = "earlier";
  before.machine = "this-machine";
  leave(before, ::getpid());
  files::HostIdentity now = files::this_host();
  now.machine = "this-machine";
  EXPECT_LT(seconds_to_take(at_once(quick(now))), kAtOnce);
  // Another machine may have the name, or the image.
  leave(before);
  now.machine = "another";
  EXPECT_GE(seconds_to_take(quick(now)), 1.0);
  leave(before);
  now.machine = "this-machine";
  now.name = "another";
  EXPECT_GE(seconds_to_take(quick(now)), 1.0);
}

TEST_F(LeaseTest, OfAnotherHostIsTakenWhenItsHeartbeatStandsStill) {
  const files::LeaseRecord left = leave(other_host(), ::getpid());
  EXPECT_GE(seconds_to_take(quick()), 1.0);
  EXPECT_NE(files::parse_lease(text())->id, left.id);
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(LeaseTest, OfAContainerOfThisHostIsWatchedUnlessItsLockCounts) {
  files::HostIdentity container = files::this_host();
  container.processes = "pid:[7]";
  leave(container, 1);
  EXPECT_GE(seconds_to_take(quick()), 1.0);
  leave(container, 1);
  files::LeaseOptions local = quick();
  local.local_file_system = true;
  local.calls = {};
  EXPECT_LT(seconds_to_take(at_once(local)), kAtOnce)
      << "flock locks every process of this kernel out";
}

TEST_F(LeaseTest, FileOfAnEarlierVersionIsTakenOnALocalDisk) {
  tests::write_file(path(), "");
  files::LeaseOptions local = quick();
  local.local_file_system = true;
  local.calls = {};
  EXPECT_LT(seconds_to_take(at_once(local)), kAtOnce);
  tests::write_file(path(), "");
  EXPECT_GE(seconds_to_take(quick()), 1.0);
  tests::write_file(path(), std::string(5000, '['));
  EXPECT_GE(seconds_to_take(quick()), 1.0);
}

TEST_F(LeaseTest, HolderThatWasTakenOverNoticesIt) {
  files::LeaseOptions asleep = quick(other_host());
  asleep.heartbeat_seconds = 12;  // as if it were paused
  asleep.trust_seconds = 0.5;
  const auto begin = Clock::now();
  const files::RunsDirectoryLease old_one(folder_.path(), asleep);
  const bool held = old_one.held();
  EXPECT_TRUE(held || Clock::now() - begin > std::chrono::milliseconds(500));
  const files::RunsDirectoryLease new_one(folder_.path(), quick());
  EXPECT_FALSE(old_one.held()) << "long before it looks again, by its own clock";
  EXPECT_TRUE(eventually([&] { return !old_one.loss().empty(); }));
  EXPECT_THAT(old_one.loss(),
              AllOf(HasSubstr("was taken over by process"), HasSubstr("this controller ends")));
  EXPECT_TRUE(new_one.held()) << "the old one's last heartbeat does no harm";
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(new_one.held());
}

TEST_F(LeaseTest, IsNotGivenBackByWhoLostItUnnoticed) {
  files::LeaseOptions asleep = quick(other_host());
  asleep.heartbeat_seconds = 60;
  auto old_one = std::make_unique<files::RunsDirectoryLease>(folder_.path(), asleep);
  const files::RunsDirectoryLease new_one(folder_.path(), quick());
  ASSERT_EQ(old_one->loss(), "");
  old_one.reset();
  const auto record = files::parse_lease(text());
  ASSERT_TRUE(record);
  EXPECT_EQ(record->host.name, files::this_host().name);
  EXPECT_FALSE(record->released);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(new_one.held());
}

TEST_F(LeaseTest, LossIsNoticedWhenItIsRemovedOrReplaced) {
  {
    const files::RunsDirectoryLease lease(folder_.path(), quick());
    std::filesystem::remove(path());
    EXPECT_TRUE(eventually([&] { return !lease.loss().empty(); }));
    EXPECT_THAT(lease.loss(), HasSubstr("has lost its lock file"));
    EXPECT_FALSE(lease.held());
  }
  EXPECT_TRUE(names().empty()) << "what is not there is not given back";
  {
    const files::RunsDirectoryLease lease(folder_.path(), quick());
    files::LeaseRecord other = files::own_record(other_host(), "/var/tmp/theirs");
    other.process = 4211;
    const base::Path beside = folder_.path() / "beside";
    tests::write_file(beside, files::lease_text(other, 41));
    std::filesystem::rename(beside, path());
    EXPECT_TRUE(eventually([&] { return !lease.loss().empty(); }));
    EXPECT_THAT(lease.loss(), HasSubstr("taken over by process 4211 on login2"));
  }
  EXPECT_FALSE(files::parse_lease(text())->released) << "it is somebody else's";
}

TEST_F(LeaseTest, SuspendsWhileTheDirectoryDoesNotAnswer) {
  files::LeaseOptions options = quick();
  options.trust_seconds = 0.5;
  const files::RunsDirectoryLease lease(folder_.path(), options);
  // A link in its place cannot be opened, which says nothing of who has it.
  const base::Path aside = folder_.path() / "aside";
  std::filesystem::rename(path(), aside);
  std::filesystem::create_symlink(aside, path());
  EXPECT_TRUE(eventually([&] { return !lease.held() || !lease.loss().empty(); }));
  if (lease.loss().empty()) {  // else it looked between the two calls
    std::filesystem::rename(aside, path());
    EXPECT_TRUE(eventually([&] { return lease.held(); }));
  }
}

TEST_F(LeaseTest, RefusesWhatFlockRefuses) {
  for (const bool there : {false, true}) {
    if (there) leave(files::this_host(), 0x7ffffff0);
    files::LeaseOptions options = quick();
    options.calls.flock = [](int, int) {
      errno = ENOLCK;
      return -1;
    };
    EXPECT_THAT(error_of(options), HasSubstr("its file system gives no locks"));
    options.calls.flock = [](int, int) {
      errno = EIO;
      return -1;
    };
    EXPECT_THAT(error_of(options), HasSubstr("Input/output error"));
    EXPECT_EQ(names().size(), there ? 1U : 0U) << "nothing is left";
  }
}

TEST_F(LeaseTest, RefusesALinkInItsPlace) {
  std::filesystem::create_symlink("/etc/passwd", path());
  EXPECT_THAT(error_of(quick()), HasSubstr("symbolic link"));
}

TEST_F(LeaseTest, SurvivesAFullDisk) {
  const base::Path disk = folder_.path() / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=64k,mode=700") != 0) {
    GTEST_SKIP() << "no tmpfs can be mounted here";
  }
  const auto fill = [&] {
    std::ofstream file(disk / "filler", std::ios::app);
    for (int i = 0; i < 100; ++i) file << std::string(4096, 'x') << std::flush;
  };
  {
    const files::RunsDirectoryLease lease(disk, quick());
    fill();
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    EXPECT_TRUE(lease.held()) << "a heartbeat needs no space";
  }
  {
    files::LeaseRecord record = files::own_record(files::this_host(), "");
    record.process = 0x7ffffff0;
    const auto keep = std::ios::in | std::ios::out | std::ios::binary;
    std::fstream(disk / ".controller.lock", keep) << files::lease_text(record, 1);
    const files::RunsDirectoryLease lease(disk, quick());
    EXPECT_TRUE(lease.held()) << "and neither does taking it from a dead process";
  }
  std::filesystem::remove(disk / ".controller.lock");
  fill();
  try {
    const files::RunsDirectoryLease lease(disk, quick());
    ADD_FAILURE() << "a new one needs space";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the disk is full"));
  }
  EXPECT_EQ(base::posix_file_system().list(disk), std::vector<std::string>{"filler"});
  ASSERT_EQ(::mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  try {
    const files::RunsDirectoryLease lease(disk, quick());
    ADD_FAILURE() << "nothing can be written";
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Read-only file system"));
  }
  ::umount(disk.c_str());
}

TEST(LeaseRecord, IsReadAsItWasWritten) {
  files::LeaseRecord record =
      files::own_record({"h\xff\x1b", "m", "b", "p"}, std::string(5000, '\x01'));
  const std::string text = files::lease_text(record, 18446744073709551615U);
  EXPECT_EQ(text.size(), files::kLeaseBytes);
  EXPECT_EQ(text.substr(files::kBeatOffset), "18446744073709551615\n");
  const auto read = files::parse_lease(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->id, record.id);
  EXPECT_EQ(read->start_ticks, record.start_ticks);
  EXPECT_EQ(files::holder_text(read).find('\x1b'), std::string::npos);
  for (const std::string& bad :
       {std::string(), std::string("{}"), std::string(files::kLeaseBytes, ' '),
        std::string(files::kLeaseBytes, '['), text + " ", text.substr(1),
        "{\"id\":7}" + std::string(files::kLeaseBytes - 8, ' '),
        "[]" + std::string(files::kLeaseBytes - 2, ' ')}) {
    EXPECT_FALSE(files::parse_lease(bad)) << bad.substr(0, 20);
  }
  // A number too large for its field is no crash.
  const std::string huge = R"({"id":"x","process":1e300,"start_ticks":-5})";
  EXPECT_EQ(files::judge_holder(
                files::parse_lease(huge + std::string(files::kLeaseBytes - huge.size(), ' ')),
                files::this_host(), false),
            files::HolderState::Unknown);
}

}  // namespace
}  // namespace regatta::orchestrator
