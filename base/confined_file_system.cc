#include "base/confined_file_system.h"

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace regatta::base {
namespace {

constexpr int kWalk = O_PATH | O_DIRECTORY | O_CLOEXEC;

[[noreturn]] void refuse_link(const Path& path) {
  throw Error(Code::Conflict, "a symbolic link is on the way to " + path.string() +
                                  ", and none is followed inside a run directory; put the "
                                  "directory itself there");
}

// A file where a directory was looked for: what is below is not there.
[[noreturn]] void fail(int reason, const Path& path) {
  throw_errno(reason == ENOTDIR ? ENOENT : reason, "cannot open " + path.string());
}

UniqueFd open_beneath(int directory, const std::string& path) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(kWalk);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
}

}  // namespace

ConfinedFileSystem::ConfinedFileSystem(const Path& root, Openat2 openat2)
    : has_openat2_(openat2 == Openat2::WhereAvailable) {
  check(root.is_absolute(), "the root of a confined file system is absolute");
  const Path normal = root.lexically_normal();
  prefix_ = (normal.has_filename() ? normal : normal.parent_path()).string();
  if (prefix_.back() != '/') prefix_ += '/';
}

Place ConfinedFileSystem::resolve(const Path& path) const {
  std::string text = path.string();
  if (text.rfind(prefix_, 0) != 0) {  // "/a//b", "./b"
    text = std::filesystem::absolute(path).lexically_normal().string();
    if (text.rfind(prefix_, 0) != 0) return plain_place(path);
  }
  std::vector<std::string> parts;
  for (std::string& part : split(std::string_view(text).substr(prefix_.size()), '/')) {
    if (part == "..") {
      throw Error(Code::User, path.string() + " has '..' in it; name the place itself");
    }
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
  }
  if (parts.empty()) return plain_place(path);
  // The run's directory itself, or a file beside the runs.
  if (parts.size() == 1) return {UniqueFd(), prefix_ + parts[0], Place::Links::Follow, path};
  UniqueFd run(::open((prefix_ + parts[0]).c_str(), kWalk));
  if (!run.valid()) fail(errno, path);
  std::string name = std::move(parts.back());
  parts.pop_back();
  parts.erase(parts.begin());
  return {walk(std::move(run), parts, path), std::move(name), Place::Links::Refuse, path};
}

UniqueFd ConfinedFileSystem::walk(UniqueFd run, const std::vector<std::string>& parts,
                                  const Path& shown) const {
  if (parts.empty()) return run;
  if (has_openat2_) {
    UniqueFd found = open_beneath(run.get(), join(parts, "/"));
    if (found.valid()) return found;
    if (errno == ELOOP) refuse_link(shown);
    // EPERM: what a container's filter answers; the walk below then says what is true.
    if (errno != ENOSYS && errno != EPERM) fail(errno, shown);
    has_openat2_ = false;
  }
  for (const std::string& part : parts) {
    // Without O_DIRECTORY, so that a link is opened itself and told from a file.
    UniqueFd next(::openat(run.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) fail(errno, shown);
    struct stat status {};
    if (::fstat(next.get(), &status) != 0) fail(errno, shown);
    if (S_ISLNK(status.st_mode)) refuse_link(shown);
    if (!S_ISDIR(status.st_mode)) fail(ENOTDIR, shown);
    run = std::move(next);
  }
  return run;
}

}  // namespace regatta::base
