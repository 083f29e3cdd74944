#include "base/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace regatta::base {
namespace {

// O_DIRECT wants memory, offset and length in multiples of the disk's block, which is at most this.
constexpr std::size_t kAlignment = 4096;
// Large writes are what makes it fast: 8 MiB at a time reach the disk's pace, 1 MiB a third of it.
constexpr std::size_t kDirectBuffer = std::size_t{8} << 20U;
static_assert(kDirectBuffer % kAlignment == 0);

class PosixFile final : public WritableFile {
 public:
  PosixFile(UniqueFd fd, Path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) bytes = bytes.subspan(write_some(bytes));
  }

  void sync() override {
    if (::fsync(fd_.get()) != 0) throw_errno(errno, "cannot sync " + path_.string());
  }

  // Writes from the front of `bytes`; how many, at least one. 0 when the kernel refuses the way of
  // writing (EINVAL) and `or_refuse`.
  std::size_t write_some(std::span<const std::byte> bytes, bool or_refuse = false) {
    for (;;) {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written > 0) return static_cast<std::size_t>(written);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EINVAL && or_refuse) return 0;
      throw_errno(written < 0 ? errno : EIO, "cannot write " + path_.string());
    }
  }

  // Whether writes bypass the page cache from now on.
  bool set_direct(bool on) {
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    if (flags < 0) return false;
    return ::fcntl(fd_.get(), F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 && on;
  }

 private:
  UniqueFd fd_;
  Path path_;
};

// Gathers what is appended into whole blocks. The first bytes that do not fill one, at a sync, end
// the direct writing: the rest goes through the page cache.
class DirectFile final : public WritableFile {
 public:
  DirectFile(UniqueFd fd, Path path)
      : file_(std::move(fd), std::move(path)),
        buffer_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kDirectBuffer))),
        direct_(buffer_ != nullptr && file_.set_direct(true)) {}

  void append(std::span<const std::byte> bytes) override {
    while (direct_ && !bytes.empty()) {
      const std::size_t part = std::min(bytes.size(), kDirectBuffer - filled_);
      std::memcpy(buffer_.get() + filled_, bytes.data(), part);
      filled_ += part;
      bytes = bytes.subspan(part);
      if (filled_ == kDirectBuffer) flush();
    }
    file_.append(bytes);
  }

  void sync() override {
    flush();
    file_.sync();
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  // Writes out the buffer. A refusal or a piece of a block (a disk about to be full) ends the
  // direct writing.
  void flush() {
    std::span<const std::byte> rest(buffer_.get(), filled_);
    while (direct_ && !rest.empty()) {
      const std::size_t whole = rest.size() - rest.size() % kAlignment;
      const std::size_t written = whole == 0 ? 0 : file_.write_some(rest.first(whole), true);
      rest = rest.subspan(written);
      if (written == 0 || written % kAlignment != 0) direct_ = file_.set_direct(false);
    }
    file_.append(rest);
    filled_ = 0;
  }

  PosixFile file_;
  std::unique_ptr<std::byte, Free> buffer_;
  std::size_t filled_ = 0;  // bytes in buffer_; 0 unless direct_
  bool direct_;
};

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

UniqueFd open_to_read(const Path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) throw_errno(errno, "cannot open " + path.string());
  return fd;
}

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> open(const Path& path, Open how) override {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    if (how == Open::CreateNew || how == Open::CreateNewDirect) flags |= O_EXCL;
    if (how == Open::Truncate) flags |= O_TRUNC;
    if (how == Open::Append) flags |= O_APPEND;
    UniqueFd fd(::open(path.c_str(), flags, 0600));
    if (!fd.valid() && errno == EEXIST) {
      throw Error(Code::Conflict, path.string() + " exists already");
    }
    if (!fd.valid()) throw_errno(errno, "cannot create " + path.string());
    if (how == Open::CreateNewDirect) return std::make_unique<DirectFile>(std::move(fd), path);
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
    const UniqueFd fd = open_to_read(path);  // one for all blocks: the name may be renamed away
    std::string text;
    constexpr std::size_t kBlock = std::size_t{1} << 20U;
    while (text.size() < limit) {
      const std::size_t before = text.size();
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, limit - before));
      text.resize(before + wanted);
      const auto block = std::as_writable_bytes(std::span(text)).subspan(before);
      const std::size_t got = read_all(fd, path, offset + before, block);
      text.resize(before + got);
      if (got < wanted) break;
    }
    return text;
  }

  std::size_t read_into(const Path& path, std::uint64_t offset, std::span<std::byte> out) override {
    return read_all(open_to_read(path), path, offset, out);
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
