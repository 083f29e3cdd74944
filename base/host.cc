#include "base/host.h"

#include <pwd.h>
#include <unistd.h>

#include <fstream>

namespace regatta::base {

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

std::string boot_id() {
  std::string id;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, id);
  return id;
}

std::string user_name() {
  const passwd* const entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

}  // namespace regatta::base
