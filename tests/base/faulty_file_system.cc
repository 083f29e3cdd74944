#include "tests/base/faulty_file_system.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

namespace regatta::tests {

using base::Path;

class FaultyFile final : public base::WritableFile {
 public:
  FaultyFile(FaultyFileSystem& owner, Path path, std::unique_ptr<base::WritableFile> real)
      : owner_(&owner), path_(std::move(path)), real_(std::move(real)) {}

  void append(std::span<const std::byte> bytes) override {
    const auto lock = owner_->enter();
    if (owner_->strikes()) {
      real_->append(bytes.first(bytes.size() / 2));
      owner_->fail("cannot write " + path_.string());
    }
    real_->append(bytes);
  }
  void sync() override {
    const auto lock = owner_->enter();
    owner_->strike_or_pass("cannot sync " + path_.string());
    owner_->synced_[path_] = std::filesystem::file_size(path_);
  }

 private:
  FaultyFileSystem* owner_;
  Path path_;  // under which it was opened: no writer here renames a file and goes on writing
  std::unique_ptr<base::WritableFile> real_;
};

FaultyFileSystem::FaultyFileSystem(base::FileSystem& real) : real_(&real) {
  std::string name = testing::TempDir() + "regatta-graveyard-XXXXXX";
  base::check(mkdtemp(name.data()) != nullptr, "the temporary directory is writable");
  graveyard_ = name;
}

FaultyFileSystem::~FaultyFileSystem() {
  std::error_code ignored;
  std::filesystem::remove_all(graveyard_, ignored);
}

void FaultyFileSystem::fail_at(std::int64_t n, Fault fault, base::Code code) {
  const std::lock_guard lock(mutex_);
  fail_from_ = operations_ + n;
  fault_ = fault;
  code_ = code;
}

void FaultyFileSystem::heal() {
  const std::lock_guard lock(mutex_);
  fail_from_ = 0;
}

std::int64_t FaultyFileSystem::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

void FaultyFileSystem::set_free_bytes(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_bytes_ = bytes;
}

bool FaultyFileSystem::strikes() {
  ++operations_;
  if (fail_from_ == 0) return false;
  return fault_ == Fault::Once ? operations_ == fail_from_ : operations_ >= fail_from_;
}

void FaultyFileSystem::fail(const std::string& what) const {
  throw base::Error(code_,
                    what + ": simulated failure of operation " + std::to_string(operations_));
}

void FaultyFileSystem::strike_or_pass(const std::string& what) {
  if (strikes()) fail(what);
}

Path FaultyFileSystem::keep_copy(const Path& path) {
  const Path copy = graveyard_ / std::to_string(copies_++);
  std::filesystem::copy(path, copy, std::filesystem::copy_options::recursive);
  return copy;
}

void FaultyFileSystem::note(const Path& changed, std::function<void()> undo) {
  changes_.push_back({changed.parent_path(), std::move(undo)});
}

// Follows files through the renaming of themselves or of a directory above them.
void FaultyFileSystem::move_sizes(const Path& from, const Path& to) {
  std::map<Path, std::uintmax_t> moved;
  for (const auto& [path, size] : synced_) {
    const auto [rest, unused] = std::mismatch(path.begin(), path.end(), from.begin(), from.end());
    const bool below =
        std::mismatch(from.begin(), from.end(), path.begin(), path.end()).first == from.end();
    if (!below) {
      moved.emplace(path, size);
      continue;
    }
    Path renamed = to;
    for (auto part = rest; part != path.end(); ++part) renamed /= *part;
    moved.insert_or_assign(renamed, size);
  }
  synced_ = std::move(moved);
}

// Leaves of the bytes behind `synced` what a disk may have got of them.
void FaultyFileSystem::tear(const Path& path, std::uintmax_t synced, Crash how,
                            std::mt19937_64& random) {
  const std::uintmax_t size = std::filesystem::file_size(path);
  if (how == Crash::TornEnds) {
    std::filesystem::resize_file(path, synced + random() % (size - synced + 1));
    return;
  }
  constexpr std::uintmax_t kBlock = 4096;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (std::uintmax_t at = synced; at < size; at = (at / kBlock + 1) * kBlock) {
    std::string block(std::min(size, (at / kBlock + 1) * kBlock) - at, '\0');
    const std::uint64_t fate = random() % 3;
    if (fate == 0) continue;  // it got through
    if (fate == 1) {
      for (char& byte : block) byte = static_cast<char>(random());
    }
    file.seekp(static_cast<std::streamoff>(at));
    file.write(block.data(), static_cast<std::streamsize>(block.size()));
  }
}

void FaultyFileSystem::crash(Crash how, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  std::mt19937_64 random(seed);
  const bool torn = how == Crash::TornEnds || how == Crash::TornBlocks;
  for (const auto& [path, size] : synced_) {
    std::error_code ignored;
    const std::uintmax_t now = std::filesystem::file_size(path, ignored);
    if (ignored || now <= size) continue;
    if (torn) {
      tear(path, size, how, random);
    } else {
      std::filesystem::resize_file(path, size, ignored);
    }
  }
  std::size_t lost = how == Crash::LoseEverything ? changes_.size() : 0;
  if (torn) lost = random() % (changes_.size() + 1);
  for (; lost > 0; --lost) {
    changes_.back().undo();
    changes_.pop_back();
  }
  changes_.clear();
  synced_.clear();
  fail_from_ = 0;
}

std::unique_lock<std::mutex> FaultyFileSystem::enter() {
  if (before_each_) before_each_();
  return std::unique_lock(mutex_);
}

std::unique_ptr<base::WritableFile> FaultyFileSystem::open(const Path& path, Open how) {
  const auto lock = enter();
  strike_or_pass("cannot create " + path.string());
  const bool fresh = !real_->exists(path);
  // crash() has to know what is in the file, so nothing may wait in a buffer.
  auto file = real_->open(path, how == Open::CreateNewDirect ? Open::CreateNew : how);
  if (fresh) {
    note(path, [path] { std::filesystem::remove(path); });
    synced_[path] = 0;
  } else if (synced_.count(path) == 0) {
    synced_[path] = std::filesystem::file_size(path);  // what was there before is on the disk
  }
  return std::make_unique<FaultyFile>(*this, path, std::move(file));
}

std::string FaultyFileSystem::read(const Path& path, std::uint64_t limit) {
  const auto lock = enter();
  strike_or_pass("cannot read " + path.string());
  return real_->read(path, limit);
}

std::string FaultyFileSystem::read_at(const Path& path, std::uint64_t offset, std::uint64_t limit) {
  const auto lock = enter();
  strike_or_pass("cannot read " + path.string());
  return real_->read_at(path, offset, limit);
}

std::size_t FaultyFileSystem::read_into(const Path& path, std::uint64_t offset,
                                        std::span<std::byte> out) {
  const auto lock = enter();
  strike_or_pass("cannot read " + path.string());
  return real_->read_into(path, offset, out);
}

std::uint64_t FaultyFileSystem::size(const Path& path) {
  const auto lock = enter();
  strike_or_pass("cannot read the size of " + path.string());
  return real_->size(path);
}

bool FaultyFileSystem::create_directory(const Path& path) {
  const auto lock = enter();
  strike_or_pass("cannot create the directory " + path.string());
  const bool fresh = real_->create_directory(path);
  if (fresh) note(path, [path] { std::filesystem::remove_all(path); });
  return fresh;
}

void FaultyFileSystem::rename(const Path& from, const Path& to) {
  const auto lock = enter();
  strike_or_pass("cannot rename " + from.string());
  const Path replaced = real_->exists(to) ? keep_copy(to) : Path();
  real_->rename(from, to);
  move_sizes(from, to);
  note(to, [from, to, replaced] {
    std::filesystem::rename(to, from);
    if (!replaced.empty()) {
      std::filesystem::copy(replaced, to, std::filesystem::copy_options::recursive);
    }
  });
}

void FaultyFileSystem::sync_directory(const Path& path) {
  const auto lock = enter();
  strike_or_pass("cannot sync the directory " + path.string());
  std::erase_if(changes_, [&](const Change& change) { return change.directory == path; });
}

void FaultyFileSystem::remove_file(const Path& path) {
  const auto lock = enter();
  strike_or_pass("cannot remove " + path.string());
  if (!real_->exists(path)) return;
  const Path copy = keep_copy(path);
  real_->remove_file(path);
  synced_.erase(path);
  note(path, [copy, path] { std::filesystem::copy(copy, path); });
}

void FaultyFileSystem::remove_tree(const Path& path) {
  const auto lock = enter();
  if (strikes()) {
    if (std::filesystem::is_directory(path)) {
      std::vector<std::string> names = real_->list(path);
      std::sort(names.begin(), names.end());
      if (!names.empty()) bury(path / names.front());
    }
    fail("cannot remove " + path.string());
  }
  if (real_->exists(path)) bury(path);
}

void FaultyFileSystem::bury(const Path& path) {
  const Path copy = keep_copy(path);
  real_->remove_tree(path);
  note(path, [copy, path] {
    std::filesystem::copy(copy, path, std::filesystem::copy_options::recursive);
  });
}

std::vector<std::string> FaultyFileSystem::list(const Path& path) {
  const auto lock = enter();
  strike_or_pass("cannot list " + path.string());
  return real_->list(path);
}

bool FaultyFileSystem::exists(const Path& path) { return real_->exists(path); }

std::uint64_t FaultyFileSystem::free_bytes(const Path& path) {
  const auto lock = enter();
  strike_or_pass("cannot read the free space of " + path.string());
  return free_bytes_ != 0 ? free_bytes_ : real_->free_bytes(path);
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = testing::TempDir() + "regatta-XXXXXX";
  base::check(mkdtemp(name.data()) != nullptr, "the temporary directory is writable");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace regatta::tests
