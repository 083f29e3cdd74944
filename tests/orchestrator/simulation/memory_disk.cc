#include "tests/orchestrator/simulation/memory_disk.h"

#include <algorithm>
#include <cstring>

namespace regatta::tests::simulation {
namespace {

void settle(const std::shared_ptr<Inode>& inode, Chance& chance) {
  if (!inode->is_directory) {
    if (!inode->torn) return;
    inode->torn = false;
    const bool grew = inode->bytes.compare(0, inode->synced.size(), inode->synced) == 0;
    if (grew) {
      const std::size_t more = inode->bytes.size() - inode->synced.size();
      inode->bytes.resize(inode->synced.size() +
                          static_cast<std::size_t>(chance.below(static_cast<int>(more) + 1)));
    } else {
      inode->bytes = inode->synced;
    }
    inode->synced = inode->bytes;
    return;
  }
  if (inode->torn) {
    inode->torn = false;
    if (chance.one_in(2)) inode->names = inode->synced_names;
    inode->synced_names = inode->names;
  }
  for (const auto& [name, child] : inode->names) settle(child, chance);
}

[[noreturn]] void missing(const base::Path& path) {
  throw base::Error(base::Code::NotFound, path.string() + ": no such file or directory");
}

}  // namespace

MemoryDisk::MemoryDisk() : root_(std::make_shared<Inode>()) { root_->is_directory = true; }

void MemoryDisk::lose_power(Chance& chance) { settle(root_, chance); }

std::shared_ptr<Inode> MemoryDisk::find(const base::Path& path) const {
  std::shared_ptr<Inode> at = root_;
  for (const base::Path& part : path.relative_path()) {
    if (!at->is_directory) return nullptr;
    if (part.empty() || part == ".") continue;
    const auto next = at->names.find(part.string());
    if (next == at->names.end()) return nullptr;
    at = next->second;
  }
  return at;
}

class MemoryFile final : public base::WritableFile {
 public:
  MemoryFile(Mount& mount, base::Path path, std::shared_ptr<Inode> inode)
      : mount_(mount), path_(std::move(path)), inode_(std::move(inode)) {}

  void append(std::span<const std::byte> bytes) override {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    try {
      mount_.enter(path_, Mount::Access::Write);
    } catch (const base::Error&) {  // a disk that fills up takes some of it
      inode_->bytes += text.substr(0, text.size() / 2);
      inode_->torn = true;
      throw;
    }
    inode_->bytes += text;
    inode_->torn = true;
    if (mount_.writes_ == Mount::Writes::Synced) settle();
  }
  void sync() override {
    mount_.enter(path_, Mount::Access::Write);
    settle();
  }

 private:
  void settle() {
    inode_->synced = inode_->bytes;
    inode_->torn = false;
  }

  Mount& mount_;
  base::Path path_;
  std::shared_ptr<Inode> inode_;
};

Mount::Mount(MemoryDisk& disk, Writes writes, Life* life, Chance* chance)
    : disk_(disk), writes_(writes), life_(life), chance_(chance) {}

void Mount::enter(const base::Path& path, Access access) {
  if (life_ != nullptr) life_->step_or_die();
  if (full_ && access == Access::Write) {
    throw base::Error(base::Code::Operator, path.string() + ": no space left on device");
  }
  if (fail_one_in_ > 0 && chance_->one_in(fail_one_in_)) {
    throw base::Error(base::Code::Operator, path.string() + ": input/output error");
  }
}

// The names of a directory have changed.
void Mount::renamed(const std::shared_ptr<Inode>& directory) const {
  if (writes_ == Writes::Synced) {
    directory->synced_names = directory->names;
    directory->torn = false;
  } else {
    directory->torn = true;
  }
}

std::shared_ptr<Inode> Mount::regular(const base::Path& path) const {
  std::shared_ptr<Inode> found = disk_.find(path);
  if (!found) missing(path);
  if (found->is_directory) {
    throw base::Error(base::Code::Conflict, path.string() + " is a directory");
  }
  return found;
}

std::shared_ptr<Inode> Mount::directory(const base::Path& path) const {
  std::shared_ptr<Inode> found = disk_.find(path);
  if (!found || !found->is_directory) missing(path);
  return found;
}

std::unique_ptr<base::WritableFile> Mount::open(const base::Path& path, Open how) {
  enter(path, Access::Write);
  const std::shared_ptr<Inode> parent = directory(path.parent_path());
  std::shared_ptr<Inode> file = disk_.find(path);
  if (file && (how == Open::CreateNew || how == Open::CreateNewDirect)) {
    throw base::Error(base::Code::Conflict, path.string() + " exists already");
  }
  if (file && file->is_directory) return std::make_unique<MemoryFile>(*this, path, regular(path));
  if (!file) {
    file = parent->names[path.filename().string()] = std::make_shared<Inode>();
    renamed(parent);
  } else if (how == Open::Truncate) {
    file->bytes.clear();
    file->torn = true;
  }
  return std::make_unique<MemoryFile>(*this, path, file);
}

std::string Mount::read(const base::Path& path, std::uint64_t limit) {
  std::string text = read_at(path, 0, limit + 1);
  if (text.size() > limit) throw base::Error(base::Code::User, path.string() + " is too large");
  return text;
}

std::string Mount::read_at(const base::Path& path, std::uint64_t offset, std::uint64_t limit) {
  enter(path, Access::Read);
  const std::string& bytes = regular(path)->bytes;
  return offset >= bytes.size() ? std::string() : bytes.substr(offset, limit);
}

std::size_t Mount::read_into(const base::Path& path, std::uint64_t offset,
                             std::span<std::byte> out) {
  const std::string text = read_at(path, offset, out.size());
  std::memcpy(out.data(), text.data(), text.size());
  return text.size();
}

std::uint64_t Mount::size(const base::Path& path) {
  enter(path, Access::Read);
  return regular(path)->bytes.size();
}

bool Mount::create_directory(const base::Path& path) {
  enter(path, disk_.find(path) ? Access::Read : Access::Write);
  if (const auto there = disk_.find(path)) {
    if (there->is_directory) return false;
    throw base::Error(base::Code::Conflict, path.string() + " is a file");
  }
  const std::shared_ptr<Inode> parent = directory(path.parent_path());
  const auto made = parent->names[path.filename().string()] = std::make_shared<Inode>();
  made->is_directory = true;
  renamed(parent);
  return true;
}

void Mount::rename(const base::Path& from, const base::Path& to) {
  enter(from, Access::Write);
  const std::shared_ptr<Inode> source = directory(from.parent_path());
  const std::shared_ptr<Inode> target = directory(to.parent_path());
  const std::shared_ptr<Inode> moved = disk_.find(from);
  const std::shared_ptr<Inode> there = disk_.find(to);
  if (!moved) missing(from);
  if (there && there->is_directory && !(moved->is_directory && there->names.empty())) {
    throw base::Error(base::Code::Operator, to.string() + ": directory not empty");
  }
  source->names.erase(from.filename().string());
  target->names[to.filename().string()] = moved;
  renamed(source);
  renamed(target);
}

void Mount::sync_directory(const base::Path& path) {
  enter(path, Access::Read);  // a full disk has room for what it has taken
  const std::shared_ptr<Inode> synced = directory(path);
  synced->synced_names = synced->names;
  synced->torn = false;
}

void Mount::remove_file(const base::Path& path) {
  enter(path, Access::Read);  // a full disk takes removals
  const std::shared_ptr<Inode> parent = disk_.find(path.parent_path());
  if (!parent || parent->names.erase(path.filename().string()) == 0) return;
  renamed(parent);
}

void Mount::remove_tree(const base::Path& path) {
  // From the leaves up, as it is where it can stop half way.
  const std::shared_ptr<Inode> found = disk_.find(path);
  if (found && found->is_directory) {
    std::vector<std::string> names;
    for (const auto& [name, child] : found->names) names.push_back(name);
    for (const std::string& name : names) remove_tree(path / name);
  }
  remove_file(path);
}

std::vector<std::string> Mount::list(const base::Path& path) {
  enter(path, Access::Read);
  std::vector<std::string> names;
  const std::shared_ptr<Inode> found = disk_.find(path);
  if (!found) return names;
  for (const auto& [name, child] : directory(path)->names) names.push_back(name);
  return names;
}

bool Mount::exists(const base::Path& path) {
  enter(path, Access::Read);
  return disk_.find(path) != nullptr;
}

std::uint64_t Mount::free_bytes(const base::Path& path) {
  enter(path, Access::Read);
  return full_ ? 0 : std::uint64_t{1} << 40U;
}

}  // namespace regatta::tests::simulation
