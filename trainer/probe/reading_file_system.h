// A file system that is only read through: so that who looks at a run leaves no trace in it.
#pragma once

#include "base/file_system.h"

namespace regatta::trainer::probe {

// Reads what `files` has, which outlives it; everything else is Code::Operator.
class ReadingFileSystem final : public base::FileSystem {
 public:
  explicit ReadingFileSystem(base::FileSystem& files) : files_(files) {}

  [[nodiscard]] std::unique_ptr<base::WritableFile> open(const base::Path& path, Open how) override;
  [[nodiscard]] std::string read(const base::Path& path, std::uint64_t limit) override {
    return files_.read(path, limit);
  }
  [[nodiscard]] std::string read_at(const base::Path& path, std::uint64_t offset,
                                    std::uint64_t limit) override {
    return files_.read_at(path, offset, limit);
  }
  [[nodiscard]] std::size_t read_into(const base::Path& path, std::uint64_t offset,
                                      std::span<std::byte> out) override {
    return files_.read_into(path, offset, out);
  }
  [[nodiscard]] std::uint64_t size(const base::Path& path) override { return files_.size(path); }
  bool create_directory(const base::Path& path) override;
  void rename(const base::Path& from, const base::Path& to) override;
  void sync_directory(const base::Path& path) override;
  void remove_file(const base::Path& path) override;
  void remove_tree(const base::Path& path) override;
  [[nodiscard]] std::vector<std::string> list(const base::Path& path) override {
    return files_.list(path);
  }
  [[nodiscard]] bool exists(const base::Path& path) override { return files_.exists(path); }
  [[nodiscard]] std::uint64_t free_bytes(const base::Path& path) override {
    return files_.free_bytes(path);
  }

 private:
  base::FileSystem& files_;
};

}  // namespace regatta::trainer::probe
