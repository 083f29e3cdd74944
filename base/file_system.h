// The few file operations that must survive faults, behind one class so that tests can fail the
// n-th of them (tests/base/faulty_file_system.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::base {

using Path = std::filesystem::path;

class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Appends all of the bytes or throws.
  virtual void append(std::span<const std::byte> bytes) = 0;
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  // After it returns the bytes survive a crash of the machine (fsync).
  virtual void sync() = 0;
};

// Every call throws base::Error naming the path; none leaves a partial result behind, except
// `append` (the owner of the file then removes or ignores it). Only regular files are read and
// written: a named pipe, a socket or a device is refused (Code::Operator) and no call waits for
// one; what is to be read from a pipe is opened elsewhere. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // CreateNew fails with Code::Conflict when the file exists. CreateNewDirect does too; it is for
  // large files that are written once: the bytes bypass the page cache where the file system can,
  // and what was appended since the last sync() is lost when the file is closed without one.
  enum class Open { CreateNew, CreateNewDirect, Truncate, Append };
  // Mode 0600.
  [[nodiscard]] virtual std::unique_ptr<WritableFile> open(const Path& path, Open how) = 0;
  // The whole file. Code::NotFound when absent; Code::User above `limit` bytes.
  [[nodiscard]] virtual std::string read(const Path& path, std::uint64_t limit) = 0;
  // At most `limit` bytes from `offset`; fewer at the end of the file.
  [[nodiscard]] virtual std::string read_at(const Path& path, std::uint64_t offset,
                                            std::uint64_t limit) = 0;
  // Reads into `out`, from `offset`. Returns the number of bytes read, which is less than the size
  // of `out` only at the end of the file.
  [[nodiscard]] virtual std::size_t read_into(const Path& path, std::uint64_t offset,
                                              std::span<std::byte> out) = 0;
  // Bytes in the file. Code::NotFound when absent.
  [[nodiscard]] virtual std::uint64_t size(const Path& path) = 0;
  // Creates one directory, mode 0700; false when it was already there.
  virtual bool create_directory(const Path& path) = 0;
  // Atomic within a file system.
  virtual void rename(const Path& from, const Path& to) = 0;
  // Makes creations, renames and removals inside `path` survive a crash.
  virtual void sync_directory(const Path& path) = 0;
  // Does nothing if there is no such file.
  virtual void remove_file(const Path& path) = 0;
  // Removes the tree without following symbolic links; does nothing if it does not exist.
  virtual void remove_tree(const Path& path) = 0;
  // Names only, sorted; empty when the directory is absent.
  [[nodiscard]] virtual std::vector<std::string> list(const Path& path) = 0;
  // Whether anything has this name, a dangling link included. Throws when that cannot be found out:
  // files on a mount that fails are not gone.
  [[nodiscard]] virtual bool exists(const Path& path) = 0;
  [[nodiscard]] virtual std::uint64_t free_bytes(const Path& path) = 0;
};

[[nodiscard]] FileSystem& posix_file_system();

// The last `limit` bytes of a file.
[[nodiscard]] std::string read_tail(FileSystem& files, const Path& path, std::uint64_t limit);

// Writes `text` to a temporary name beside `path`, syncs it, renames it into place and syncs the
// directory: readers see the old file or the new one, never a part.
void replace_file(FileSystem& files, const Path& path, std::string_view text);

}  // namespace regatta::base
