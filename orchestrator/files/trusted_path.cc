#include "orchestrator/files/trusted_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

namespace regatta::orchestrator::files {
namespace {

bool is_trusted(const base::Path& path, bool is_above) {
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0) return false;
  if (about.st_uid != ::geteuid() && about.st_uid != 0) return false;
  const bool is_directory = S_ISDIR(about.st_mode);
  if (!is_directory && !S_ISREG(about.st_mode)) return false;
  const bool is_ours_alone = (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return is_ours_alone || (is_above && is_directory && (about.st_mode & S_ISVTX) != 0);
}

}  // namespace

bool is_trusted_path(const base::Path& path) {
  std::error_code error;
  const base::Path real = std::filesystem::canonical(path, error);
  if (error || !is_trusted(real, false)) return false;
  for (base::Path above = real; above != above.root_path();) {
    above = above.parent_path();
    if (!is_trusted(above, true)) return false;
  }
  return true;
}

}  // namespace regatta::orchestrator::files
