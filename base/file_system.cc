#include "base/file_system.h"

#include "base/descriptor_file_system.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::base {
namespace {

// Paths as the kernel reads them, links included.
class PosixFileSystem final : public DescriptorFileSystem {
 private:
  [[nodiscard]] Place resolve(const Path& path) const override { return plain_place(path); }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;  // stateless
  return files;
}

std::string read_tail(FileSystem& files, const Path& path, std::uint64_t limit) {
  const std::uint64_t size = files.size(path);
  return files.read_at(path, size > limit ? size - limit : 0, limit);
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
