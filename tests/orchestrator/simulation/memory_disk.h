// A shared file system in memory. Each machine has a mount of it: what a machine has not synced is
// lost, in whole or in part, when that machine loses its power; the others see it until then.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "tests/orchestrator/simulation/chance.h"

namespace regatta::tests::simulation {

struct Inode {
  bool is_directory = false;
  std::string bytes, synced;                                          // of a file
  std::map<std::string, std::shared_ptr<Inode>> names, synced_names;  // of a directory
  bool torn = false;  // its content or its names are not synced
};

class MemoryDisk {
 public:
  MemoryDisk();

  // Of everything that is not synced some is kept: of a file a prefix of what was appended or all
  // that was there before, of a directory its old names or its new ones.
  void lose_power(Chance& chance);
  // The file or directory; null where there is none.
  [[nodiscard]] std::shared_ptr<Inode> find(const base::Path& path) const;
  [[nodiscard]] const std::shared_ptr<Inode>& root() const { return root_; }

 private:
  std::shared_ptr<Inode> root_;
};

// Not thread-safe. Fails as FileSystem says, and with Code::Operator where a fault is due.
class Mount final : public base::FileSystem {
 public:
  // Synced: whatever is written counts as synced at once, and nothing fails. life: of the
  // controller whose mount it is; null: nobody's. All outlive the mount.
  enum class Writes { Unsynced, Synced };
  Mount(MemoryDisk& disk, Writes writes, Life* life, Chance* chance);

  // Every how many operations one fails, about; 0: none.
  void fail_one_in(int operations) { fail_one_in_ = operations; }
  // No write succeeds: reads do.
  void fill(bool full) { full_ = full; }

  [[nodiscard]] std::unique_ptr<base::WritableFile> open(const base::Path& path, Open how) override;
  [[nodiscard]] std::string read(const base::Path& path, std::uint64_t limit) override;
  [[nodiscard]] std::string read_at(const base::Path& path, std::uint64_t offset,
                                    std::uint64_t limit) override;
  [[nodiscard]] std::size_t read_into(const base::Path& path, std::uint64_t offset,
                                      std::span<std::byte> out) override;
  [[nodiscard]] std::uint64_t size(const base::Path& path) override;
  bool create_directory(const base::Path& path) override;
  void rename(const base::Path& from, const base::Path& to) override;
  void sync_directory(const base::Path& path) override;
  void remove_file(const base::Path& path) override;
  void remove_tree(const base::Path& path) override;
  [[nodiscard]] std::vector<std::string> list(const base::Path& path) override;
  [[nodiscard]] bool exists(const base::Path& path) override;
  [[nodiscard]] std::uint64_t free_bytes(const base::Path& path) override;

 private:
  friend class MemoryFile;
  enum class Access { Read, Write };

  void enter(const base::Path& path, Access access);
  void renamed(const std::shared_ptr<Inode>& directory) const;
  [[nodiscard]] std::shared_ptr<Inode> regular(const base::Path& path) const;
  [[nodiscard]] std::shared_ptr<Inode> directory(const base::Path& path) const;

  MemoryDisk& disk_;
  Writes writes_;
  Life* life_;
  Chance* chance_;
  int fail_one_in_ = 0;
  bool full_ = false;
};

}  // namespace regatta::tests::simulation
