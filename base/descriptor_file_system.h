// The operations of FileSystem, each relative to an open directory: what posix_file_system() and
// ConfinedFileSystem share. They differ only in how a path becomes a place.
#pragma once

#include <fcntl.h>

#include <optional>
#include <string>

#include "base/file_system.h"
#include "base/unique_fd.h"

namespace regatta::base {

// A name in a directory.
struct Place {
  UniqueFd directory;  // none: the working directory
  std::string name;
  enum class Links { Follow, Refuse };
  Links links = Links::Follow;  // where `name` itself is a symbolic link
  Path path;                    // for messages

  [[nodiscard]] int at() const { return directory.valid() ? directory.get() : AT_FDCWD; }
};

[[nodiscard]] Place plain_place(const Path& path, Place::Links links = Place::Links::Follow);

// Opens a regular file, never waiting; anything else of that name is refused before a byte of it is
// read, written or truncated. flags: those of open(2), except O_TRUNC. Code::Conflict if the name
// is taken and O_EXCL is given. verb: for the message, "cannot VERB PATH".
[[nodiscard]] UniqueFd open_regular(const Place& place, int flags, const char* verb);

class DescriptorFileSystem : public FileSystem {
 public:
  [[nodiscard]] std::unique_ptr<WritableFile> open(const Path& path, Open how) override;
  [[nodiscard]] std::string read(const Path& path, std::uint64_t limit) override;
  [[nodiscard]] std::string read_at(const Path& path, std::uint64_t offset,
                                    std::uint64_t limit) override;
  [[nodiscard]] std::size_t read_into(const Path& path, std::uint64_t offset,
                                      std::span<std::byte> out) override;
  [[nodiscard]] std::uint64_t size(const Path& path) override;
  bool create_directory(const Path& path) override;
  void rename(const Path& from, const Path& to) override;
  void sync_directory(const Path& path) override;
  void remove_file(const Path& path) override;
  void remove_tree(const Path& path) override;
  [[nodiscard]] std::vector<std::string> list(const Path& path) override;
  [[nodiscard]] bool exists(const Path& path) override;
  [[nodiscard]] std::uint64_t free_bytes(const Path& path) override;
  // When a regular file was written last, seconds since 1970. Code::NotFound when absent.
  [[nodiscard]] double modified_utc(const Path& path) const;

 private:
  // Code::NotFound where the directory is not there.
  [[nodiscard]] virtual Place resolve(const Path& path) const = 0;
  // Nothing where the directory is not there.
  [[nodiscard]] std::optional<Place> find(const Path& path) const;
};

// When a file was written last; nothing where `files` is not of this machine and keeps no times.
[[nodiscard]] std::optional<double> modified_utc(const FileSystem& files, const Path& path);

}  // namespace regatta::base
