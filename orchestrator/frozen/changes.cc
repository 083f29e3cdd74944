#include "orchestrator/frozen/changes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "orchestrator/frozen/object_store.h"
#include "orchestrator/frozen/work_tree.h"

namespace regatta::orchestrator::frozen {
namespace {

namespace fs = std::filesystem;

// What stands at a path; nothing where there is neither a regular file nor a link.
std::optional<FrozenFile> file_at(const base::Path& path, std::vector<char>* buffer) {
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0) return std::nullopt;
  if (S_ISLNK(about.st_mode)) {
    std::error_code error;
    const std::string target = fs::read_symlink(path, error).string();
    return FrozenFile{{}, base::digest_of(target), target.size(), FrozenFile::Kind::Link};
  }
  if (!S_ISREG(about.st_mode)) return std::nullopt;
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) base::throw_errno(errno, "cannot read " + base::printable(path.string()));
  return FrozenFile{
      {},
      digest_of_descriptor(file.get(), buffer),
      static_cast<std::uint64_t>(about.st_size),
      (about.st_mode & S_IXUSR) != 0 ? FrozenFile::Kind::Program : FrozenFile::Kind::Plain};
}

bool is_as(const FrozenFile& frozen, const std::optional<FrozenFile>& now) {
  return now && now->digest == frozen.digest && now->kind == frozen.kind;
}

}  // namespace

Changes changes_since(const FrozenJob& job, const base::Path& folder) {
  Changes found;
  std::vector<char> buffer;
  const base::Path tree = folder / "tree";
  std::error_code error;
  found.root_is_gone = !fs::is_directory(job.root, error);
  std::map<std::string, const FrozenFile*> frozen;
  for (const FrozenFile& file : job.files) {
    frozen[file.path] = &file;
    const base::Path now = job.root / file.path;
    const auto there = found.root_is_gone ? std::nullopt : file_at(now, &buffer);
    if (!there) {
      found.changes.push_back({Change::Kind::Gone, file.path, tree / file.path, {}});
    } else if (!is_as(file, there)) {
      found.changes.push_back({Change::Kind::Changed, file.path, tree / file.path, now});
    }
    // A link was made to lead to the same place, so it may say something else.
    if (file.kind != FrozenFile::Kind::Link && !is_as(file, file_at(tree / file.path, &buffer))) {
      found.touched.push_back(file.path);
    }
  }
  if (!found.root_is_gone) {
    constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
    const std::string store = folder.parent_path().parent_path().string() + "/";
    for (const std::string& path : read_work_tree(job.root, kAll).files) {
      const base::Path now = job.root / path;
      const fs::file_type type = fs::symlink_status(now, error).type();
      const bool is_file = type == fs::file_type::regular || type == fs::file_type::symlink;
      if (frozen.count(path) > 0 || !is_file || now.string().rfind(store, 0) == 0) continue;
      found.changes.push_back({Change::Kind::New, path, {}, now});
    }
  }
  if (job.script && !job.script_digest.empty()) {
    const auto there = file_at(*job.script, &buffer);
    if (!there || there->digest != job.script_digest) {
      found.changes.push_back({there ? Change::Kind::Changed : Change::Kind::Gone,
                               job.script->string(), folder / "script",
                               there ? *job.script : base::Path()});
    }
  }
  std::sort(found.changes.begin(), found.changes.end(),
            [](const Change& a, const Change& b) { return a.path < b.path; });
  return found;
}

}  // namespace regatta::orchestrator::frozen
