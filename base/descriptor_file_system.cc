#include "base/descriptor_file_system.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/writable_file.h"

namespace regatta::base {
namespace {

// Each level of a tree that is removed holds a descriptor.
constexpr int kMostLevels = 100;

struct CloseDirectory {
  void operator()(DIR* stream) const { ::closedir(stream); }
};
using DirectoryStream = std::unique_ptr<DIR, CloseDirectory>;

const char* kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISDIR(mode)) return "a directory";
  return "a device";
}

[[noreturn]] void refuse(const Place& place, mode_t mode) {
  throw Error(Code::Conflict,
              place.path.string() + " is " + kind_of(mode) +
                  (S_ISLNK(mode) ? ", which is not followed here; put the file itself there"
                                 : ", not a regular file; remove it or name another"));
}

int stat_flags(const Place& place) {
  return place.links == Place::Links::Follow ? 0 : AT_SYMLINK_NOFOLLOW;
}
int open_flags(const Place& place) {
  return O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (place.links == Place::Links::Follow ? 0 : O_NOFOLLOW);
}

std::optional<mode_t> mode_of(const Place& place) {
  struct stat status {};
  if (::fstatat(place.at(), place.name.c_str(), &status, stat_flags(place)) != 0) {
    return std::nullopt;
  }
  return status.st_mode;
}

UniqueFd open_directory(const Place& place, const char* verb) {
  UniqueFd fd(::openat(place.at(), place.name.c_str(), O_RDONLY | O_DIRECTORY | open_flags(place)));
  if (fd.valid()) return fd;
  const int reason = errno;
  const auto mode = mode_of(place);
  if (mode && S_ISLNK(*mode)) refuse(place, *mode);
  throw_errno(reason, std::string("cannot ") + verb + " " + place.path.string());
}

// Without "." and "..", unsorted.
std::vector<std::string> names_in(UniqueFd fd, const Path& path) {
  const DirectoryStream stream(::fdopendir(fd.get()));
  if (!stream) throw_errno(errno, "cannot list " + path.string());
  (void)fd.release();  // the stream closes it
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) throw_errno(errno, "cannot list " + path.string());
    if (entry == nullptr) return names;
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

void remove_below(const Place& place, int level) {
  if (::unlinkat(place.at(), place.name.c_str(), 0) == 0 || errno == ENOENT) return;
  const std::string what = "cannot remove " + place.path.string();
  if (errno != EISDIR && errno != EPERM) throw_errno(errno, what);
  if (level > kMostLevels) {
    throw Error(Code::Operator, what + ": more than " + std::to_string(kMostLevels) +
                                    " directories within each other; remove it with 'rm -r'");
  }
  UniqueFd fd(
      ::openat(place.at(), place.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) throw_errno(errno, what);
  Place inside{UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)), "", Place::Links::Refuse, {}};
  if (!inside.directory.valid()) throw_errno(errno, what);
  for (std::string& name : names_in(std::move(fd), place.path)) {
    inside.path = place.path / name;
    inside.name = std::move(name);
    remove_below(inside, level + 1);
  }
  if (::unlinkat(place.at(), place.name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    throw_errno(errno, what);
  }
}

// Reads until `out` is full or the file ends; how many bytes.
std::size_t read_all(const UniqueFd& fd, const Path& path, std::uint64_t offset,
                     std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(fd.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(errno, "cannot read " + path.string());
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace

Place plain_place(const Path& path, Place::Links links) {
  return {UniqueFd(), path.string(), links, path};
}

UniqueFd open_regular(const Place& place, int flags, const char* verb) {
  UniqueFd fd(::openat(place.at(), place.name.c_str(), flags | open_flags(place), 0600));
  const int reason = fd.valid() ? 0 : errno;
  if (reason == EEXIST) throw Error(Code::Conflict, place.path.string() + " exists already");
  if (reason == ELOOP || reason == ENXIO || reason == EISDIR) {
    const auto mode = mode_of(place);
    if (mode && !S_ISREG(*mode)) refuse(place, *mode);
  }
  const std::string what = std::string("cannot ") + verb + " " + place.path.string();
  if (reason != 0) throw_errno(reason, what);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno(errno, what);
  if (!S_ISREG(status.st_mode)) refuse(place, status.st_mode);
  return fd;
}

std::optional<Place> DescriptorFileSystem::find(const Path& path) const {
  try {
    return resolve(path);
  } catch (const Error& error) {
    if (error.code() == Code::NotFound) return std::nullopt;
    throw;
  }
}

std::unique_ptr<WritableFile> DescriptorFileSystem::open(const Path& path, Open how) {
  int flags = O_WRONLY | O_CREAT;
  if (how == Open::CreateNew || how == Open::CreateNewDirect) flags |= O_EXCL;
  if (how == Open::Append) flags |= O_APPEND;
  UniqueFd fd = open_regular(resolve(path), flags, "create");
  // Not by O_TRUNC, which would come before it is known what is there.
  if (how == Open::Truncate && ::ftruncate(fd.get(), 0) != 0) {
    throw_errno(errno, "cannot empty " + path.string());
  }
  if (how == Open::CreateNewDirect) return direct_file(std::move(fd), path);
  return writable_file(std::move(fd), path);
}

std::string DescriptorFileSystem::read(const Path& path, std::uint64_t limit) {
  std::string text = read_at(path, 0, limit + 1);
  if (text.size() > limit) {
    throw Error(Code::User, path.string() + " is larger than " + human_bytes(limit));
  }
  return text;
}

std::string DescriptorFileSystem::read_at(const Path& path, std::uint64_t offset,
                                          std::uint64_t limit) {
  // One for all blocks: the name may be renamed away.
  const UniqueFd fd = open_regular(resolve(path), O_RDONLY, "open");
  std::string text;
  // The first block is small: most of what is read at an offset is a journal's newest lines, and
  // what is not read has been cleared for nothing.
  constexpr std::size_t kFirstBlock = std::size_t{64} << 10U, kLargestBlock = std::size_t{1} << 20U;
  std::size_t block_bytes = kFirstBlock;
  while (text.size() < limit) {
    const std::size_t before = text.size();
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes, limit - before));
    block_bytes = std::min(4 * block_bytes, kLargestBlock);
    text.resize(before + wanted);
    const auto block = std::as_writable_bytes(std::span(text)).subspan(before);
    const std::size_t got = read_all(fd, path, offset + before, block);
    text.resize(before + got);
    if (got < wanted) break;
  }
  return text;
}

std::size_t DescriptorFileSystem::read_into(const Path& path, std::uint64_t offset,
                                            std::span<std::byte> out) {
  return read_all(open_regular(resolve(path), O_RDONLY, "open"), path, offset, out);
}

std::uint64_t DescriptorFileSystem::size(const Path& path) {
  const Place place = resolve(path);
  struct stat status {};
  if (::fstatat(place.at(), place.name.c_str(), &status, stat_flags(place)) != 0) {
    throw_errno(errno, "cannot read the size of " + path.string());
  }
  if (!S_ISREG(status.st_mode)) refuse(place, status.st_mode);
  return static_cast<std::uint64_t>(status.st_size);
}

double DescriptorFileSystem::modified_utc(const Path& path) const {
  const Place place = resolve(path);
  struct stat status {};
  if (::fstatat(place.at(), place.name.c_str(), &status, stat_flags(place)) != 0) {
    throw_errno(errno, "cannot read the time of " + path.string());
  }
  if (!S_ISREG(status.st_mode)) refuse(place, status.st_mode);
  return static_cast<double>(status.st_mtim.tv_sec) +
         static_cast<double>(status.st_mtim.tv_nsec) / 1e9;
}

std::optional<double> modified_utc(const FileSystem& files, const Path& path) {
  const auto* const here = dynamic_cast<const DescriptorFileSystem*>(&files);
  return here == nullptr ? std::nullopt : std::optional(here->modified_utc(path));
}

bool DescriptorFileSystem::create_directory(const Path& path) {
  const Place place = resolve(path);
  if (::mkdirat(place.at(), place.name.c_str(), 0700) == 0) return true;
  const int reason = errno;
  const auto mode = reason == EEXIST ? mode_of(place) : std::nullopt;
  if (mode && S_ISDIR(*mode)) return false;
  if (mode && S_ISLNK(*mode)) refuse(place, *mode);
  throw_errno(reason, "cannot create the directory " + path.string());
}

void DescriptorFileSystem::rename(const Path& from, const Path& to) {
  const Place source = resolve(from);
  const Place target = resolve(to);
  if (::renameat(source.at(), source.name.c_str(), target.at(), target.name.c_str()) != 0) {
    throw_errno(errno, "cannot rename " + from.string() + " to " + to.string());
  }
}

void DescriptorFileSystem::sync_directory(const Path& path) {
  const UniqueFd fd = open_directory(resolve(path), "open the directory");
  if (::fsync(fd.get()) != 0) throw_errno(errno, "cannot sync the directory " + path.string());
}

void DescriptorFileSystem::remove_file(const Path& path) {
  const auto place = find(path);
  if (!place || ::unlinkat(place->at(), place->name.c_str(), 0) == 0 || errno == ENOENT) return;
  throw_errno(errno, "cannot remove " + path.string());
}

void DescriptorFileSystem::remove_tree(const Path& path) {
  if (const auto place = find(path)) remove_below(*place, 1);
}

std::vector<std::string> DescriptorFileSystem::list(const Path& path) {
  std::vector<std::string> names;
  try {
    names = names_in(open_directory(resolve(path), "list"), path);
  } catch (const Error& error) {
    if (error.code() != Code::NotFound) throw;
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool DescriptorFileSystem::exists(const Path& path) {
  const auto place = find(path);
  if (!place) return false;
  struct stat status {};
  if (::fstatat(place->at(), place->name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
  throw_errno(errno, "cannot look at " + path.string());
}

std::uint64_t DescriptorFileSystem::free_bytes(const Path& path) {
  const Place place = resolve(path);
  const std::string what = "cannot read the free space of " + path.string();
  const UniqueFd fd(::openat(place.at(), place.name.c_str(), O_PATH | open_flags(place)));
  if (!fd.valid()) throw_errno(errno, what);
  struct statvfs status {};
  if (::fstatvfs(fd.get(), &status) != 0) throw_errno(errno, what);
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

}  // namespace regatta::base
