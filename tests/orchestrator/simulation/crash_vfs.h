// An SQLite VFS whose files are in memory, and lose at a power failure what was not synced.
#pragma once

#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/orchestrator/simulation/chance.h"

namespace regatta::tests::simulation {

// Registered under a name of its own while it lives. Not thread-safe. Ends the controller's life
// where a write, a sync or a deletion is the step that it dies at; a dead one writes nothing.
class CrashVfs {
 public:
  CrashVfs(Life& life, Chance& chance);
  ~CrashVfs();
  CrashVfs(const CrashVfs&) = delete;
  CrashVfs& operator=(const CrashVfs&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // Every how many writes one fails, about; 0: none.
  void fail_one_in(int writes) { fail_one_in_ = writes; }
  // No connection is open. Of what was not synced any part may be kept: blocks of writes are
  // reordered on their way to a disk, and the last of them is torn.
  void lose_power();
  // The process died: its memory is gone, what it wrote is there. No connection is open.
  void forget_locks();
  void remove_all() { files_.clear(); }

 private:
  friend struct Vfs;
  static constexpr int kLocks = SQLITE_SHM_NLOCK;
  struct Write {
    std::int64_t offset = 0;
    std::string bytes;
    bool truncates = false;  // to `offset`
  };
  struct File {
    std::string bytes, synced;
    std::vector<Write> unsynced;
    int shared = 0;
    bool reserved = false, exclusive = false;
    std::vector<std::unique_ptr<std::array<char, 32768>>> memory;  // the shared index of the log
    std::array<int, kLocks> memory_locks{};                        // holders; -1: exclusive
  };
  static void apply(const Write& write, std::string* bytes);

  Life& life_;
  Chance& chance_;
  int fail_one_in_ = 0;
  std::string name_;
  sqlite3_vfs vfs_{};
  std::map<std::string, std::shared_ptr<File>> files_;
};

}  // namespace regatta::tests::simulation
