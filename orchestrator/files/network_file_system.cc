#include "orchestrator/files/network_file_system.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::files {
namespace {

constexpr std::uint64_t kMostMountinfo = std::uint64_t{16} << 20U;
constexpr std::uint64_t kFuse = 0x65735546;

struct Magic {
  std::uint64_t type;
  const char* name;
};
// linux/magic.h, and where it has none, the header of the file system itself (Lustre, GPFS, BeeGFS,
// PVFS2) or stat(1) of coreutils.
constexpr Magic kNetworkTypes[] = {
    {0x6969, "NFS"},
    {0x517B, "SMB/CIFS"},
    {0xFF534D42, "SMB/CIFS"},
    {0xFE534D42, "SMB/CIFS"},
    {0x0BD00BD0, "Lustre"},
    {0x0BD00BD1, "Lustre"},
    {0x47504653, "GPFS"},
    {0x19830326, "BeeGFS"},
    {0x00C36400, "Ceph"},
    {0x5346414F, "AFS"},
    {0x6B414653, "AFS"},
    {0x01021997, "9P"},
    {kFuse, "FUSE"},
    {0x20030528, "OrangeFS"},
    {0x01161970, "GFS2"},
    {0x7461636F, "OCFS2"},
    {0x73757245, "Coda"},
    {0xAAD7AAEA, "PanFS"},
    {0xBEEFDEAD, "StorNext"},
    {0x013111A8, "IBRIX"},
    {0x61636673, "ACFS"},
    {0x564C, "NCP"},
    {0xBACBACBC, "VMware's shared folders"},
    {0x786F4256, "VirtualBox's shared folders"},
    {0x7C7C6673, "Parallels' shared folders"},
    {0x00C0FFEE, "the host's files (hostfs)"},
};

struct Name {
  const char* mounted;
  const char* name;
};
// By the name of the mount, for what has no number of its own, or one that nobody publishes.
constexpr Name kNetworkNames[] = {
    {"virtiofs", "VirtioFS"}, {"wekafs", "WekaFS"}, {"lustre", "Lustre"},   {"gpfs", "GPFS"},
    {"mmfs", "GPFS"},         {"beegfs", "BeeGFS"}, {"panfs", "PanFS"},     {"ceph", "Ceph"},
    {"nfs", "NFS"},           {"nfs4", "NFS"},      {"cifs", "SMB/CIFS"},   {"smb3", "SMB/CIFS"},
    {"afs", "AFS"},           {"9p", "9P"},         {"pvfs2", "OrangeFS"},  {"gfs2", "GFS2"},
    {"gfs", "GFS"},           {"ocfs2", "OCFS2"},   {"coda", "Coda"},       {"dvs", "DVS"},
    {"acfs", "ACFS"},         {"cvfs", "StorNext"}, {"quobyte", "Quobyte"}, {"davfs", "WebDAV"},
    {"drvfs", "DrvFs"},
};

// linux/magic.h, ZFS and bcachefs from their own sources. A local disk that this machine exports is
// local all the same: who comes through the export is known by the lease alone.
constexpr std::uint64_t kLocalTypes[] = {
    0xEF53,     0x58465342, 0x9123683E, 0x01021994, 0x858458F6, 0x794C7630, 0x2FC12FC1,
    0xF2F52010, 0xCA451A4E, 0x3153464A, 0x52654973, 0x3434,     0x4D44,     0x2011BAB0,
    0x7366746E, 0x5346544E, 0x15013346, 0x482B,     0x24051905,
};

}  // namespace

std::string mount_name(std::string_view mountinfo, std::string_view device) {
  std::string name;
  for (const std::string& line : base::split(mountinfo, '\n')) {
    // 36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/root rw
    const std::vector<std::string> fields = base::split(line, ' ');
    if (fields.size() < 3 || fields[2] != device) continue;
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash != fields.end() && std::next(dash) != fields.end()) name = *std::next(dash);
  }
  return name;
}

MountedFileSystem file_system_of(const base::Path& directory) {
  struct statfs status {};
  struct stat place {};
  if (::statfs(directory.c_str(), &status) != 0 || ::stat(directory.c_str(), &place) != 0) {
    base::throw_errno(errno, "cannot look at the file system of " + directory.string());
  }
  // f_type is signed, and the number of some has its highest bit set.
  MountedFileSystem out{static_cast<std::uint64_t>(status.f_type) & 0xFFFFFFFFU, ""};
  try {
    const std::string mounts =
        base::posix_file_system().read("/proc/self/mountinfo", kMostMountinfo);
    out.name = mount_name(
        mounts, std::to_string(major(place.st_dev)) + ":" + std::to_string(minor(place.st_dev)));
  } catch (const base::Error&) {  // no /proc: the number alone has to do
  }
  return out;
}

std::optional<std::string> network_file_system_name(const MountedFileSystem& file_system) {
  for (const Name& each : kNetworkNames) {
    if (file_system.name == each.mounted) return each.name;
  }
  const std::uint64_t type = file_system.type & 0xFFFFFFFFU;
  if (type == kFuse) {
    if (file_system.name == "fuseblk") return std::nullopt;
    constexpr std::string_view kPrefix = "fuse.";
    const bool named = file_system.name.rfind(kPrefix, 0) == 0;
    return named ? "FUSE (" + file_system.name.substr(kPrefix.size()) + ")" : "FUSE";
  }
  for (const Magic& each : kNetworkTypes) {
    if (type == each.type) return each.name;
  }
  return std::nullopt;
}

bool is_local_file_system(const MountedFileSystem& file_system) {
  if (network_file_system_name(file_system)) return false;
  return file_system.name == "fuseblk" ||
         std::find(std::begin(kLocalTypes), std::end(kLocalTypes),
                   file_system.type & 0xFFFFFFFFU) != std::end(kLocalTypes);
}

void refuse_network_file_system(const base::Path& directory, const std::string& what) {
  if (const auto name = network_file_system_name(file_system_of(directory))) {
    throw base::Error(base::Code::Operator,
                      what + " cannot be on a network file system: " +
                          base::printable(directory.string()) + " is on " + base::printable(*name) +
                          "; name a local path, for example --data /var/tmp/regatta");
  }
}

}  // namespace regatta::orchestrator::files
