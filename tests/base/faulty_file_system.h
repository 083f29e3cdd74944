// A file system that fails on purpose: the n-th operation once or from then on, and a crash that
// loses what was not synced.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"

namespace regatta::tests {

enum class Fault { Once, ForEver };

enum class Crash {
  LoseBytes,       // names reached the disk, unsynced bytes did not
  LoseEverything,  // unsynced names are undone as well: creations, renames and removals
  // Some of it got through, as the seed says: names up to one in the order of their changes, and
  TornEnds,    // a part of each file's unsynced bytes, from the front
  TornBlocks,  // some of its blocks of 4 KiB; others hold zeroes, or what the disk held there
               // before
};

// Works on another file system (default: the real one). Every call of FileSystem except exists(),
// and every append and sync of its files, is one operation. A failing append writes half of its
// bytes first; a failing remove_tree removes the first entry. Thread-safe.
class FaultyFileSystem final : public base::FileSystem {
 public:
  explicit FaultyFileSystem(base::FileSystem& real = base::posix_file_system());
  ~FaultyFileSystem() override;

  // The n-th operation from now (1 is the next) fails with Error(code).
  void fail_at(std::int64_t n, Fault fault, base::Code code = base::Code::Operator);
  void heal();
  // Operations so far.
  [[nodiscard]] std::int64_t operations() const;
  // What free_bytes says from now on.
  void set_free_bytes(std::uint64_t bytes);

  // The machine stops: what was not synced is lost as `how` says. Files still open must not be used
  // afterwards.
  void crash(Crash how, std::uint64_t seed = 0);
  // Called at the begin of every operation, before it counts, by the thread that wants it. Set it
  // while no other thread is at work.
  void set_before_each(std::function<void()> call) { before_each_ = std::move(call); }

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
  friend class FaultyFile;
  // A name that came, went or changed and is not on the disk until its directory is synced.
  struct Change {
    base::Path directory;
    std::function<void()> undo;
  };

  [[nodiscard]] std::unique_lock<std::mutex> enter();
  // Counts one operation; true when it has to fail.
  [[nodiscard]] bool strikes();
  void strike_or_pass(const std::string& what);
  [[noreturn]] void fail(const std::string& what) const;
  [[nodiscard]] base::Path keep_copy(const base::Path& path);
  // Removes what is there, until a crash.
  void bury(const base::Path& path);
  void note(const base::Path& changed, std::function<void()> undo);
  void tear(const base::Path& path, std::uintmax_t synced, Crash how, std::mt19937_64& random);
  void move_sizes(const base::Path& from, const base::Path& to);

  base::FileSystem* real_;
  std::function<void()> before_each_;
  mutable std::mutex mutex_;
  std::int64_t operations_ = 0;
  std::int64_t fail_from_ = 0;  // 0: never
  Fault fault_ = Fault::Once;
  base::Code code_ = base::Code::Operator;
  std::uint64_t free_bytes_ = 0;  // 0: as it is
  std::map<base::Path, std::uintmax_t>
      synced_;  // bytes that are on the disk, of files written here
  std::vector<Change> changes_;
  base::Path graveyard_;  // copies of what was removed or replaced
  int copies_ = 0;
};

// A fresh directory below testing::TempDir(), removed with its contents at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  base::Path path_;
};

}  // namespace regatta::tests
