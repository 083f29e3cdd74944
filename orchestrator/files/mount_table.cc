#include "orchestrator/files/mount_table.h"

#include <sys/sysmacros.h>

#include "base/text.h"

namespace regatta::orchestrator::files {
namespace {

// The kernel writes blanks, newlines and backslashes in paths as \ooo.
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string digits = text[i] == '\\' ? text.substr(i + 1, 3) : "";
    if (digits.size() == 3 && digits.find_first_not_of("01234567") == std::string::npos) {
      out += static_cast<char>(std::stoi(digits, nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

MountTable::MountTable(const std::string& text) {
  for (const std::string& line : base::split(text, '\n')) {
    // "36 35 98:0 /root /mount/point rw,…"
    const std::vector<std::string> fields = base::split(line, ' ');
    if (fields.size() < 5) continue;
    const std::vector<std::string> device = base::split(fields[2], ':');
    if (device.size() != 2) continue;
    const auto major_number = base::parse_integer(device[0]);
    const auto minor_number = base::parse_integer(device[1]);
    if (!major_number || !minor_number) continue;
    Mount mount{unescaped(fields[4]), makedev(static_cast<unsigned>(*major_number),
                                              static_cast<unsigned>(*minor_number))};
    if (mount.point == "/") mount.point.clear();
    mounts_.push_back(std::move(mount));
  }
}

DeviceId MountTable::device_of(const base::Path& path) const {
  const std::string text = path.string();
  const Mount* best = nullptr;
  for (const Mount& mount : mounts_) {
    const bool above = text.compare(0, mount.point.size(), mount.point) == 0 &&
                       (text.size() == mount.point.size() || text[mount.point.size()] == '/');
    if (above && (best == nullptr || mount.point.size() >= best->point.size())) best = &mount;
  }
  return best == nullptr ? 0 : best->device;
}

}  // namespace regatta::orchestrator::files
