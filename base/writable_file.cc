#include "base/writable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"

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

}  // namespace

std::unique_ptr<WritableFile> writable_file(UniqueFd fd, const Path& path) {
  return std::make_unique<PosixFile>(std::move(fd), path);
}

std::unique_ptr<WritableFile> direct_file(UniqueFd fd, const Path& path) {
  return std::make_unique<DirectFile>(std::move(fd), path);
}

}  // namespace regatta::base
