#include "orchestrator/control/run_removal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "checkpoint/pins.h"
#include "checkpoint/store.h"

namespace regatta::orchestrator::control {
namespace {

constexpr const char* kRemoved = ".removed-";  // + the id, "-" and random digits
constexpr int kRemovedBytes = 4;
constexpr int kMostDepth = 32;  // directories in one another; what lies deeper is not counted
constexpr int kRemovalTries = 10;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

using Count = std::function<void(const std::string& path, std::uint64_t bytes)>;

// Of what changes meanwhile, what is there when it is looked at. `path`: below the first one.
void count_files(base::UniqueFd directory, const std::string& path, int depth, const Count& count) {
  const std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(directory.get()));
  if (!stream) return;
  const int fd = directory.release();
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    struct stat status {};
    if (name == "." || name == "..") continue;
    if (::fstatat(fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const std::string inside = path.empty() ? name : path + "/" + name;
    if (S_ISREG(status.st_mode)) count(inside, static_cast<std::uint64_t>(status.st_size));
    if (!S_ISDIR(status.st_mode) || depth == kMostDepth) continue;
    base::UniqueFd next(
        ::openat(fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (next.valid()) count_files(std::move(next), inside, depth + 1, count);
  }
}

// Nothing, where it is not there.
void count_below(const base::Path& path, const Count& count) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    base::throw_errno(errno, "cannot look at " + path.string());
  }
  if (S_ISLNK(status.st_mode)) {
    throw base::Error(base::Code::Conflict,
                      path.string() +
                          " is a symbolic link, and none is followed; remove what it "
                          "leads to and the link itself, then try again");
  }
  base::UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.valid()) base::throw_errno(errno, "cannot open " + path.string());
  count_files(std::move(directory), "", 1, count);
}

std::uint64_t* kind_of(const std::string& path, DirectoryUse* use) {
  const std::string first = path.substr(0, path.find('/'));
  if (first == "checkpoints") return &use->checkpoints;
  if (first == "exports") return &use->exports;
  if (first == "launches" || first == "submit") return &use->logs;
  if (first == "attempts") return &use->journal;
  return &use->other;
}

std::uint64_t bytes_below(const base::Path& path) {
  std::uint64_t sum = 0;
  count_below(path, [&](const std::string&, std::uint64_t bytes) { sum += bytes; });
  return sum;
}

}  // namespace

RunDirectoryLook look_at_directory(base::FileSystem& files, const base::Path& directory,
                                   double utc_seconds) {
  RunDirectoryLook look;
  look.exists = files.exists(directory);
  if (!look.exists) return look;
  count_below(directory, [&](const std::string& path, std::uint64_t bytes) {
    *kind_of(path, &look.use) += bytes;
    ++look.use.files;
  });
  const base::Path checkpoints = directory / "checkpoints";
  std::error_code error;
  if (std::filesystem::is_symlink(checkpoints, error)) return look;  // not the run's own
  for (const auto& [name, pin] : checkpoint::read_pins(files, checkpoints)) {
    look.pinned.push_back(name);
  }
  for (const std::string& name : checkpoint::read_marks(files, checkpoints, utc_seconds)) {
    look.read.push_back(name);
  }
  return look;
}

base::Path move_run_away(base::FileSystem& files, const base::Path& directory) {
  const base::Path runs = directory.parent_path();
  const base::Path away =
      runs / (kRemoved + directory.filename().string() + "-" + base::random_hex(kRemovedBytes));
  files.rename(directory, away);
  files.sync_directory(runs);
  return away;
}

std::optional<std::string> id_of_removed(const std::string& name) {
  const std::string prefix = kRemoved;
  const std::size_t end = name.rfind('-');
  if (name.rfind(prefix, 0) != 0 || end <= prefix.size()) return std::nullopt;
  const std::string digits = name.substr(end + 1);
  if (digits.size() != std::size_t{2} * kRemovedBytes ||
      digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  return name.substr(prefix.size(), end - prefix.size());
}

void remove_moved(base::FileSystem& files, const base::Path& path) {
  // Whoever moved it may have been killed before that was on the disk, and half a run must not come
  // back.
  files.sync_directory(path.parent_path());
  for (int i = 0; i < kRemovalTries; ++i) {
    try {
      files.remove_tree(path);
      return;
    } catch (const base::Error& error) {
      if (error.code() != base::Code::NotFound) throw;
    }
  }
}

ArchivedFiles archive_files(base::FileSystem& files, const base::Path& directory,
                            checkpoint::RetentionPolicy policy,
                            checkpoint::RetentionRound::Mode mode, std::uint64_t most_read,
                            double utc_seconds) {
  using Mode = checkpoint::RetentionRound::Mode;
  const base::Path checkpoints = directory / "checkpoints";
  checkpoint::CheckpointStore store(files, checkpoints);
  ArchivedFiles archived;
  std::map<std::string, std::uint64_t> bytes;
  bool small = true;
  const base::Path exports = directory / "exports";
  archived.exports = bytes_below(exports);
  for (const checkpoint::Entry& entry : store.list()) {
    bytes[entry.name] = bytes_below(checkpoints / entry.name);
    small = small && bytes[entry.name] <= most_read;
  }
  const bool removes = mode == Mode::Check;
  if (!small) mode = removes ? Mode::Apply : Mode::Plan;
  policy.keep_last = small ? 1 : 2;
  policy.keep_best = 1;
  policy.keep_every = 0;
  const auto outcome = checkpoint::apply_retention(files, store, policy, {"", utc_seconds, mode});
  for (const checkpoint::RetentionDecision& one : outcome.decisions) {
    (one.goes ? archived.removed : archived.kept)
        .push_back({one.name, one.step, bytes[one.name], one.reasons});
  }
  if (removes) files.remove_tree(exports);
  return archived;
}

}  // namespace regatta::orchestrator::control
