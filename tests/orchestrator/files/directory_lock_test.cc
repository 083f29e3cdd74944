#include "orchestrator/files/directory_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "orchestrator/files/network_file_system.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::TemporaryDirectory;

std::string error_of(const base::Path& path, const files::LockCalls& calls = {}) {
  try {
    (void)files::take_lock(path, "the store", calls);
  } catch (const base::Error& error) {
    const std::string what = error.what();
    const bool is_held = what.find("in use by another controller") != std::string::npos;
    EXPECT_EQ(error.code(), is_held ? base::Code::Conflict : base::Code::Operator) << what;
    return what;
  }
  return "";
}

template <int Reason>
int fails(int, int) {
  errno = Reason;
  return -1;
}

TEST(DirectoryLock, LocksOutASecondOne) {
  const TemporaryDirectory folder;
  const base::Path path = folder.path() / "lock";
  {
    const base::UniqueFd first = files::take_lock(path, "the store");
    EXPECT_THAT(error_of(path), HasSubstr("the store is in use by another controller"));
  }
  EXPECT_EQ(error_of(path), "") << "its end gives it back";
}

TEST(DirectoryLock, WaitsForWhoHasItForAMoment) {
  static int refusals;
  refusals = 3;
  const TemporaryDirectory folder;
  EXPECT_EQ(error_of(folder.path() / "lock", {[](int fd, int operation) {
                       if (refusals-- > 0) return fails<EWOULDBLOCK>(fd, operation);
                       return ::flock(fd, operation);
                     }}),
            "");
  EXPECT_EQ(refusals, -1);
}

TEST(DirectoryLock, RefusesEveryErrorOfFlock) {
  const TemporaryDirectory folder;
  const base::Path path = folder.path() / "lock";
  struct Case {
    int (*flock)(int, int);
    const char* message;
  };
  for (const Case& each : {Case{fails<ENOLCK>, "its file system gives no locks"},
                           Case{fails<ENOSYS>, "its file system gives no locks"},
                           Case{fails<ENOTSUP>, "its file system gives no locks"},
                           Case{fails<EINVAL>, "its file system gives no locks"},
                           Case{fails<EIO>, "Input/output error; without its lock"},
                           Case{fails<EBADF>, "without its lock the directory is not used"},
                           Case{fails<EINTR>, "Interrupted system call; without its lock"},
                           Case{fails<ENOMEM>, "without its lock the directory is not used"}}) {
    EXPECT_THAT(error_of(path, {each.flock}),
                AllOf(HasSubstr("cannot use the lock file"), HasSubstr(each.message)));
  }
  EXPECT_THAT(error_of(path, {fails<EWOULDBLOCK>}), HasSubstr("in use by another controller"));
}

TEST(DirectoryLock, IsTriedAgainAfterASignal) {
  static int interruptions;
  interruptions = 3;
  const TemporaryDirectory folder;
  EXPECT_EQ(error_of(folder.path() / "lock", {[](int fd, int operation) {
                       if (interruptions-- > 0) return fails<EINTR>(fd, operation);
                       return ::flock(fd, operation);
                     }}),
            "");
  EXPECT_EQ(interruptions, -1);
}

TEST(DirectoryLock, IsARegularFileOfOurs) {
  const TemporaryDirectory folder;
  const base::Path path = folder.path() / "lock";
  tests::write_file(folder.path() / "elsewhere", "");
  std::filesystem::create_symlink(folder.path() / "elsewhere", path);
  EXPECT_THAT(error_of(path), HasSubstr("it is a symbolic link; remove it"));
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(error_of(path), HasSubstr("it is not a regular file; remove it"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(error_of(path), HasSubstr("Is a directory"));
  std::filesystem::remove(path);
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives a file to somebody else";
  tests::write_file(path, "");
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_THAT(error_of(path), HasSubstr("it belongs to user 12345, and this is user 0"));
}

TEST(DirectoryLock, IsTheFileThatTheNameMeans) {
  static base::Path path;
  static int removals;
  const TemporaryDirectory folder;
  path = folder.path() / "lock";
  removals = 1;
  const base::UniqueFd fd = files::take_lock(path, "the store", {[](int opened, int operation) {
                                               if (removals-- > 0) std::filesystem::remove(path);
                                               return ::flock(opened, operation);
                                             }});
  EXPECT_TRUE(files::names_same_file(path, fd))
      << "not a file that was removed before it was locked";
  EXPECT_THAT(error_of(path), HasSubstr("in use"));
}

TEST(NetworkFileSystem, IsKnownByItsTypeAndItsMount) {
  struct Case {
    std::uint64_t type;
    const char* mounted;
    const char* network;  // "": none
    bool local;
  };
  for (const Case& each : std::vector<Case>{
           {0x6969, "nfs4", "NFS", false},
           {0x6969, "", "NFS", false},
           {0x517B, "", "SMB/CIFS", false},
           {0xFF534D42, "cifs", "SMB/CIFS", false},
           {0xFFFFFFFFFF534D42, "", "SMB/CIFS", false},  // f_type may be negative
           {0xFE534D42, "smb3", "SMB/CIFS", false},
           {0x0BD00BD0, "lustre", "Lustre", false},
           {0x0BD00BD1, "", "Lustre", false},
           {0x47504653, "gpfs", "GPFS", false},
           {0x19830326, "beegfs", "BeeGFS", false},
           {0x00C36400, "ceph", "Ceph", false},
           {0x5346414F, "", "AFS", false},
           {0x6B414653, "afs", "AFS", false},
           {0x01021997, "9p", "9P", false},
           {0x20030528, "", "OrangeFS", false},
           {0x01161970, "", "GFS2", false},
           {0x7461636F, "", "OCFS2", false},
           {0x73757245, "", "Coda", false},
           {0xAAD7AAEA, "", "PanFS", false},
           {0xBEEFDEAD, "", "StorNext", false},
           {0x65735546, "fuse.sshfs", "FUSE (sshfs)", false},
           {0x65735546, "fuse.gcsfuse", "FUSE (gcsfuse)", false},
           {0x65735546, "fuse", "FUSE", false},
           {0x65735546, "", "FUSE", false},
           {0x65735546, "virtiofs", "VirtioFS", false},
           {0x65735546, "fuseblk", "", true},  // ntfs-3g
           {0x12345678, "wekafs", "WekaFS", false},
           {0x12345678, "", "", false},  // unknown: a store may be there, flock is not relied on
           {0xEF53, "ext4", "", true},
           {0x58465342, "xfs", "", true},
           {0x9123683E, "btrfs", "", true},
           {0x01021994, "tmpfs", "", true},
           {0x794C7630, "overlay", "", true},
           {0x2FC12FC1, "zfs", "", true}}) {
    const files::MountedFileSystem file_system{each.type, each.mounted};
    EXPECT_EQ(files::network_file_system_name(file_system).value_or(""), each.network)
        << std::hex << each.type << " " << each.mounted;
    EXPECT_EQ(files::is_local_file_system(file_system), each.local)
        << std::hex << each.type << " " << each.mounted;
  }
}

TEST(NetworkFileSystem, FindsTheMountOfADevice) {
  const std::string mounts =
      "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "40 22 0:51 / /home/a\\040b rw master:3 propagate_from:2 - fuse.sshfs host:/ rw,user_id=0\n"
      "41 22 0:52 /below /data rw - nfs4 server:/ rw\nbroken\n\n";
  EXPECT_EQ(files::mount_name(mounts, "8:1"), "ext4");
  EXPECT_EQ(files::mount_name(mounts, "0:51"), "fuse.sshfs");
  EXPECT_EQ(files::mount_name(mounts, "0:52"), "nfs4");
  EXPECT_EQ(files::mount_name(mounts, "0:5"), "");
  EXPECT_EQ(files::mount_name("", "8:1"), "");
  EXPECT_NE(files::file_system_of("/proc").type, 0U);
  EXPECT_EQ(files::file_system_of("/proc").name, "proc");
  EXPECT_THROW((void)files::file_system_of("/nowhere"), base::Error);
}

}  // namespace
}  // namespace regatta::orchestrator
