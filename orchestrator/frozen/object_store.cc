#include "orchestrator/frozen/object_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::frozen {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20U;
constexpr int kTries = 3;  // of a file that is being written
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kPlainMode = 0444;
constexpr mode_t kProgramMode = 0555;
constexpr mode_t kExecutable = 0100;

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  base::throw_errno(errno, what + " " + base::printable(path));
}

base::UniqueFd own_folder(int at, const std::string& name, const std::string& shown) {
  if (::mkdirat(at, name.c_str(), kFolderMode) != 0 && errno != EEXIST) fail("cannot make", shown);
  base::UniqueFd folder(::openat(
      at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (at == AT_FDCWD ? 0 : O_NOFOLLOW)));
  if (!folder.valid()) fail("cannot open", shown);
  struct stat about {};
  if (::fstat(folder.get(), &about) != 0) fail("cannot look at", shown);
  if (about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw base::Error(
        base::Code::Operator,
        base::printable(shown) +
            " can be written by others, who could change what jobs run; name a folder "
            "of your own with REGATTA_FROZEN");
  }
  return folder;
}

std::size_t read_some(int file, std::vector<char>* buffer) {
  for (;;) {
    const ssize_t got = ::read(file, buffer->data(), buffer->size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) base::throw_errno(errno, "cannot read it");
  }
}

void write_all(int file, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t wrote = ::write(file, data, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) base::throw_errno(errno, "cannot keep it");
    data += wrote;
    size -= static_cast<std::size_t>(wrote);
  }
}

bool is_same_state(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

// A program and a text of the same bytes are two files, as a hard link has one mode.
std::string object_of(const FrozenFile& file) {
  return file.digest.substr(0, 2) + "/" + file.digest.substr(2) +
         (file.kind == FrozenFile::Kind::Program ? ".x" : "");
}

// A copy's own name until it is whole.
std::string temporary_beside(const std::string& object) {
  return object.substr(0, object.find('/') + 1) + ".new-" + base::random_hex(8);
}

// The digest of what was copied.
std::string copy(int source, int target, std::vector<char>* buffer) {
  if (::lseek(source, 0, SEEK_SET) != 0) base::throw_errno(errno, "cannot read it");
  base::Digest digest;
  while (const std::size_t got = read_some(source, buffer)) {
    write_all(target, buffer->data(), got);
    digest.update(std::string_view(buffer->data(), got));
  }
  return digest.hex();
}

}  // namespace

std::string digest_of_descriptor(int file, std::vector<char>* buffer) {
  if (buffer->empty()) buffer->resize(kBufferBytes);
  if (::lseek(file, 0, SEEK_SET) != 0) base::throw_errno(errno, "cannot read it");
  base::Digest digest;
  while (const std::size_t got = read_some(file, buffer)) {
    digest.update(std::string_view(buffer->data(), got));
  }
  return digest.hex();
}

ObjectStore::ObjectStore(const base::Path& store) : store_(store), buffer_(kBufferBytes) {
  std::error_code error;
  std::filesystem::create_directories(store.parent_path(), error);
  const base::UniqueFd folder = own_folder(AT_FDCWD, store.string(), store.string());
  objects_ = own_folder(folder.get(), "objects", (store / "objects").string());
}

FrozenFile ObjectStore::keep(int from, const std::string& path) {
  const base::UniqueFd source(
      ::openat(from, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!source.valid()) fail("cannot read", path);
  for (int tries = 0; tries < kTries; ++tries) {
    struct stat before {};
    struct stat after {};
    if (::fstat(source.get(), &before) != 0) fail("cannot look at", path);
    const bool runs = (before.st_mode & kExecutable) != 0;
    FrozenFile file{path, digest_of_descriptor(source.get(), &buffer_),
                    static_cast<std::uint64_t>(before.st_size),
                    runs ? FrozenFile::Kind::Program : FrozenFile::Kind::Plain};
    const std::string object = object_of(file);
    struct stat kept {};
    // One that a crash of the machine cut short is written again.
    const bool has_it =
        ::fstatat(objects_.get(), object.c_str(), &kept, AT_SYMLINK_NOFOLLOW) == 0 &&
        kept.st_size == before.st_size;
    const bool is_kept = has_it || write(source.get(), file, object, before.st_mtim.tv_sec);
    if (::fstat(source.get(), &after) != 0) fail("cannot look at", path);
    if (is_kept && is_same_state(before, after)) return file;
  }
  throw base::Error(base::Code::Retry, base::printable(path) +
                                           " is being written while it is frozen; submit again "
                                           "when it stands still, or have git ignore it");
}

bool ObjectStore::write(int source, const FrozenFile& file, const std::string& object,
                        std::int64_t seconds) {
  const std::string folder = object.substr(0, 2);
  if (::mkdirat(objects_.get(), folder.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    fail("cannot make", (store_ / "objects" / folder).string());
  }
  const std::string temporary = temporary_beside(object);
  const base::UniqueFd target(::openat(objects_.get(), temporary.c_str(),
                                       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFolderMode));
  if (!target.valid()) fail("cannot make a file in", (store_ / "objects").string());
  try {
    if (copy(source, target.get(), &buffer_) != file.digest) {
      ::unlinkat(objects_.get(), temporary.c_str(), 0);
      return false;
    }
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    const mode_t mode = file.kind == FrozenFile::Kind::Program ? kProgramMode : kPlainMode;
    if (::fchmod(target.get(), mode) != 0 || ::futimens(target.get(), times) != 0 ||
        ::renameat(objects_.get(), temporary.c_str(), objects_.get(), object.c_str()) != 0) {
      base::throw_errno(errno, "cannot keep it");
    }
    return true;
  } catch (const base::Error& error) {
    ::unlinkat(objects_.get(), temporary.c_str(), 0);
    throw base::Error(error.code(), "cannot freeze " + base::printable(file.path) + " in " +
                                        base::printable(store_.string()) + ": " + error.what());
  }
}

void ObjectStore::place(const FrozenFile& file, int tree, const std::string& path) const {
  const std::string object = object_of(file);
  if (::linkat(objects_.get(), object.c_str(), tree, path.c_str(), 0) == 0) return;
  if (errno != EMLINK && errno != EPERM && errno != EXDEV && errno != EOPNOTSUPP) {
    fail("cannot place", path);
  }
  const base::UniqueFd source(::openat(objects_.get(), object.c_str(), O_RDONLY | O_CLOEXEC));
  const mode_t mode = file.kind == FrozenFile::Kind::Program ? kProgramMode : kPlainMode;
  const base::UniqueFd target(
      ::openat(tree, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!source.valid() || !target.valid()) fail("cannot place", path);
  std::vector<char> buffer(kBufferBytes);
  if (copy(source.get(), target.get(), &buffer) != file.digest) {
    throw base::Error(base::Code::Operator,
                      "the frozen copy of " + base::printable(path) + " is damaged; remove " +
                          base::printable((store_ / "objects" / object).string()));
  }
}

}  // namespace regatta::orchestrator::frozen
