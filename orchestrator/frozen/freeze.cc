#include "orchestrator/frozen/freeze.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "orchestrator/frozen/object_store.h"
#include "orchestrator/frozen/work_tree.h"

namespace regatta::orchestrator::frozen {
namespace {

namespace fs = std::filesystem;

constexpr int kNameBytes = 4;
constexpr std::size_t kLargestShown = 3;
constexpr std::uint64_t kMostIdBytes = 64;
constexpr std::size_t kMostLinkBytes = 4096;
constexpr const char* kStaging = ".new-";

base::UniqueFd open_folder(const base::Path& path) {
  base::UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) base::throw_errno(errno, "cannot open " + base::printable(path.string()));
  return folder;
}

bool is_below(const std::string& path, const std::string& folder) {
  return path == folder || (path.size() > folder.size() && path[folder.size()] == '/' &&
                            path.compare(0, folder.size(), folder) == 0);
}

// What Python makes of sources by itself: beside frozen ones it would be that of the live ones.
bool is_byproduct(const std::string& path) {
  const base::Path name = base::Path(path).filename();
  return name == "__pycache__" || name.extension() == ".pyc";
}

// "20261124T101502.123Z", so that names are in order of time.
std::string stamp(std::string iso) {
  std::erase_if(iso, [](char c) { return c == '-' || c == ':'; });
  return iso;
}

// Takes one tree into a staging folder, then to its name.
class Freezer {
 public:
  explicit Freezer(const FreezeRequest& request)
      : request_(request), objects_(request.store), jobs_(request.store / "jobs") {
    std::error_code error;
    fs::create_directory(jobs_, error);
    fs::permissions(jobs_, fs::perms::owner_all, error);
    staging_ = jobs_ / (kStaging + base::random_hex(kNameBytes));
  }
  ~Freezer() {
    std::error_code error;
    fs::remove_all(staging_, error);  // nothing there when it went to its name
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  Frozen freeze() {
    const WorkTree tree = read_work_tree(request_.directory, request_.most_files);
    describe(tree);
    fs::create_directory(staging_);
    fs::permissions(staging_, fs::perms::owner_all);
    fs::create_directory(staging_ / "tree");
    tree_ = open_folder(staging_ / "tree");
    std::vector<std::string> files = tree.files;
    base::Path from = tree.root;
    if (request_.commit) {
      from = staging_ / "checkout";
      check_out(tree.root, *out_.job.commit, from);
      files = files_below(from, request_.most_files);
    }
    take(from, files);
    link_ignored(tree);
    fs::remove_all(staging_ / "checkout");
    take_script_from_elsewhere();
    make_folders_of(out_.job.directory + "/.");
    out_.job.tree = tree_digest(out_.job.files);
    write_frozen_job(base::posix_file_system(), staging_, out_.job);
    base::posix_file_system().rename(staging_, out_.folder);
    return std::move(out_);
  }

 private:
  void describe(const WorkTree& tree) {
    FrozenJob& job = out_.job;
    job.made = base::iso8601(base::system_clock().utc_seconds());
    job.name = stamp(job.made) + "-" + base::random_hex(kNameBytes);
    job.root = tree.root;
    job.directory = request_.directory.lexically_relative(tree.root).string();
    if (job.directory == ".") job.directory.clear();
    job.at_commit = request_.commit.has_value();
    if (request_.commit && !tree.has_git) {
      throw base::Error(base::Code::User, base::printable(request_.directory.string()) +
                                              " is in no git working tree; --freeze without a "
                                              "commit takes the folder as it is");
    }
    job.commit = request_.commit ? commit_of(tree.root, *request_.commit) : tree.commit;
    for (const std::string& ignored : tree.ignored) {
      if (job.directory.empty() || !is_below(job.directory, ignored)) continue;
      throw base::Error(base::Code::User, "git ignores " +
                                              base::printable((tree.root / ignored).string()) +
                                              ", so nothing in it can be frozen; submit from a "
                                              "folder that git keeps");
    }
    job.script = request_.script;
    job.command = request_.command;
    out_.folder = jobs_ / job.name;
    out_.directory = out_.folder / "tree";
    if (!job.directory.empty()) out_.directory /= job.directory;
    const std::string store = request_.store.lexically_relative(tree.root).string();
    if (store.compare(0, 2, "..") != 0) own_ = store;
  }

  void take(const base::Path& from, const std::vector<std::string>& files) {
    const base::UniqueFd source = open_folder(from);
    check_size(source.get(), files);
    for (const std::string& path : files) {
      if (is_own(path)) continue;
      struct stat about {};
      if (::fstatat(source.get(), path.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) continue;  // tracked, but gone
        base::throw_errno(errno, "cannot look at " + base::printable(path));
      }
      if (S_ISREG(about.st_mode)) {
        make_folders_of(path);
        out_.job.files.push_back(objects_.keep(source.get(), path));
        objects_.place(out_.job.files.back(), tree_.get(), path);
      } else if (S_ISLNK(about.st_mode)) {
        make_folders_of(path);
        take_link(source.get(), path);
      } else {
        out_.left_out.push_back(path);
      }
    }
  }

  [[nodiscard]] bool is_own(const std::string& path) const {
    return !own_.empty() && is_below(path, own_);
  }

  void take_link(int source, const std::string& path) {
    std::string target(kMostLinkBytes, '\0');
    const ssize_t size = ::readlinkat(source, path.c_str(), target.data(), target.size());
    if (size < 0) base::throw_errno(errno, "cannot read the link " + base::printable(path));
    target.resize(static_cast<std::size_t>(size));
    out_.job.files.push_back(
        {path, base::digest_of(target), target.size(), FrozenFile::Kind::Link});
    const std::string there = frozen_target(out_.job.root, path, target);
    if (::symlinkat(there.c_str(), tree_.get(), path.c_str()) != 0) {
      base::throw_errno(errno, "cannot make the link " + base::printable(path));
    }
  }

  // Data, environments, results: they lie where they are, and what a job writes there stays there.
  void link_ignored(const WorkTree& tree) {
    for (const std::string& path : tree.ignored) {
      if (is_byproduct(path) || (!own_.empty() && is_below(own_, path))) continue;
      make_folders_of(path);
      const base::Path target = tree.root / path;
      // A commit may have had a file of that name.
      if (::symlinkat(target.c_str(), tree_.get(), path.c_str()) == 0) {
        out_.job.linked.push_back(path);
      } else if (errno != EEXIST && errno != ENOTDIR) {
        base::throw_errno(errno, "cannot make the link " + base::printable(path));
      }
    }
  }

  void take_script_from_elsewhere() {
    FrozenJob& job = out_.job;
    if (!job.script) return;
    const std::string path = job.script->lexically_relative(job.root).string();
    const bool is_taken = std::any_of(job.files.begin(), job.files.end(),
                                      [&](const FrozenFile& file) { return file.path == path; });
    if (is_taken) return;
    const FrozenFile file = objects_.keep(AT_FDCWD, job.script->string());
    objects_.place(file, open_folder(staging_).get(), "script");
    job.script_digest = file.digest;
  }

  void make_folders_of(const std::string& path) {
    const std::size_t end = path.rfind('/');
    if (end == std::string::npos || end == 0) return;
    const std::string folder = path.substr(0, end);
    if (!made_.insert(folder).second) return;
    make_folders_of(folder);
    if (::mkdirat(tree_.get(), folder.c_str(), S_IRWXU) != 0 && errno != EEXIST &&
        errno != ENOTDIR) {
      base::throw_errno(errno, "cannot make the folder " + base::printable(folder));
    }
  }

  void check_size(int source, const std::vector<std::string>& files) const {
    std::vector<std::pair<std::uint64_t, std::string>> sizes;
    std::uint64_t all = 0;
    for (const std::string& path : files) {
      struct stat about {};
      if (is_own(path)) continue;
      if (::fstatat(source, path.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (!S_ISREG(about.st_mode)) continue;
      sizes.emplace_back(static_cast<std::uint64_t>(about.st_size), path);
      all += sizes.back().first;
    }
    if (all <= request_.most_bytes) return;
    std::sort(sizes.rbegin(), sizes.rend());
    if (sizes.size() > kLargestShown) sizes.resize(kLargestShown);
    std::vector<std::string> shown;
    for (const auto& [bytes, path] : sizes) {
      shown.push_back(base::printable(path) + " (" + base::human_bytes(bytes) + ")");
    }
    throw base::Error(base::Code::User,
                      "the files of " + base::printable(out_.job.root.string()) + " are " +
                          base::human_bytes(all) + ", more than the " +
                          base::human_bytes(request_.most_bytes) +
                          " that are frozen, most of it in " + base::join(shown, ", ") +
                          "; name in .gitignore what the job does not need frozen, or allow more "
                          "with --freeze-limit=SIZE");
  }

  const FreezeRequest& request_;
  ObjectStore objects_;
  base::Path jobs_, staging_;
  std::string own_;  // the store, where it lies within the tree
  base::UniqueFd tree_;
  std::set<std::string> made_;  // folders
  Frozen out_;
};

}  // namespace

Frozen freeze(const FreezeRequest& request) {
  try {
    return Freezer(request).freeze();
  } catch (const fs::filesystem_error& error) {
    base::throw_errno(error.code().value(),
                      "cannot freeze into " + base::printable(request.store.string()));
  }
}

std::string frozen_target(const base::Path& root, const std::string& path,
                          const std::string& target) {
  const base::Path folder = (root / path).parent_path();
  const base::Path there = (folder / target).lexically_normal();
  const base::Path within = there.lexically_relative(root);
  const bool is_within = !within.empty() && *within.begin() != "..";
  if (!base::Path(target).is_absolute()) return is_within ? target : there.string();
  return is_within ? there.lexically_relative(folder).string() : target;
}

void keep_job_id(const base::Path& folder, const std::string& id) {
  base::replace_file(base::posix_file_system(), folder / "job", id + "\n");
}

void discard(const base::Path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
}

std::optional<base::Path> find_frozen(const base::Path& store, const std::string& id_or_name) {
  base::FileSystem& files = base::posix_file_system();
  std::vector<std::string> names = files.list(store / "jobs");
  for (auto name = names.rbegin(); name != names.rend(); ++name) {  // newest first
    if (name->front() == '.') continue;
    const base::Path folder = store / "jobs" / *name;
    if (*name == id_or_name) return folder;
    try {
      const std::string id = files.read(folder / "job", kMostIdBytes);
      if (id == id_or_name + "\n") return folder;
    } catch (const base::Error&) {  // none was told, or it is being removed
    }
  }
  return std::nullopt;
}

}  // namespace regatta::orchestrator::frozen
