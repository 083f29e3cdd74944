#include "base/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace regatta::base {
namespace {

class PosixFile final : public WritableFile {
 public:
  PosixFile(UniqueFd fd, Path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_errno(errno, "cannot write " + path_.string());
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void sync() override {
    if (::fsync(fd_.get()) != 0) throw_errno(errno, "cannot sync " + path_.string());
  }

 private:
  UniqueFd fd_;
  Path path_;
};

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> open(const Path& path, Open how) override {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    if (how == Open::CreateNew) flags |= O_EXCL;
    if (how == Open::Truncate) flags |= O_TRUNC;
    if (how == Open::Append) flags |= O_APPEND;
    UniqueFd fd(::open(path.c_str(), flags, 0600));
    if (!fd.valid() && errno == EEXIST) {
      throw Error(Code::Conflict, path.string() + " exists already");
    }
    if (!fd.valid()) throw_errno(errno, "cannot create " + path.string());
    return std::make_unique<PosixFile>(std::move(fd), path);
  }

  std::string read(const Path& path, std::uint64_t limit) override {
    std::string text = read_at(path, 0, limit + 1);
    if (text.size() > limit) {
      throw Error(Code::User, path.string() + " is larger than " + human_bytes(limit));
    }
    return text;
  }

  std::string read_at(const Path& path, std::uint64_t offset, std::uint64_t limit) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) throw_errno(errno, "cannot open " + path.string());
    std::string text;
    constexpr std::size_t kBlock = std::size_t{1} << 20U;
    while (text.size() < limit) {
      const std::size_t before = text.size();
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, limit - before));
      text.resize(before + wanted);
      const ssize_t got =
          ::pread(fd.get(), text.data() + before, wanted, static_cast<off_t>(offset + before));
      if (got < 0 && errno != EINTR) throw_errno(errno, "cannot read " + path.string());
      text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (got == 0) break;
    }
    return text;
  }

  bool create_directory(const Path& path) override {
    if (::mkdir(path.c_str(), 0700) == 0) return true;
    const int reason = errno;
    std::error_code ignored;
    if (reason == EEXIST && std::filesystem::is_directory(path, ignored)) return false;
    throw_errno(reason, "cannot create the directory " + path.string());
  }

  void rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      throw_errno(errno, "cannot rename " + from.string() + " to " + to.string());
    }
  }

  void sync_directory(const Path& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) throw_errno(errno, "cannot open the directory " + path.string());
    if (::fsync(fd.get()) != 0) throw_errno(errno, "cannot sync the directory " + path.string());
  }

  void remove_file(const Path& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      throw_errno(errno, "cannot remove " + path.string());
    }
  }

  void remove_tree(const Path& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) throw_errno(error.value(), "cannot remove " + path.string());
  }

  std::vector<std::string> list(const Path& path) override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      throw_errno(error.value(), "cannot list " + path.string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  bool exists(const Path& path) override {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
  }

  std::uint64_t free_bytes(const Path& path) override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0) {
      throw_errno(errno, "cannot read the free space of " + path.string());
    }
    return std::uint64_t{status.f_bavail} * status.f_frsize;
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;  // stateless
  return files;
}

void replace_file(FileSystem& files, const Path& path, std::string_view text) {
  const Path temporary = path.string() + ".tmp-" + random_hex(4);
  try {
    const auto file = files.open(temporary, FileSystem::Open::CreateNew);
    file->append(text);
    file->sync();
    files.rename(temporary, path);
  } catch (...) {
    try {
      files.remove_file(temporary);
    } catch (const Error&) {  // the first failure is the one to report
    }
    throw;
  }
  files.sync_directory(path.has_parent_path() ? path.parent_path() : Path("."));
}

}  // namespace regatta::base
