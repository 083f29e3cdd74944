#include "orchestrator/frozen/work_tree.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace regatta::orchestrator::frozen {
namespace {

namespace fs = std::filesystem;

constexpr double kGitSeconds = 60;                              // of one call
constexpr std::size_t kMostNamesBytes = std::size_t{1} << 30U;  // of a list of names
constexpr int kNoProgram = 127;                                 // env's code
constexpr int kMostDepth = 16;                                  // of submodules in submodules
constexpr std::string_view kSubmodule = "160000";               // git's mode of one

[[noreturn]] void too_many(const base::Path& directory, std::size_t most) {
  throw base::Error(base::Code::User,
                    base::printable(directory.string()) + " has more than " + std::to_string(most) +
                        " files that git does not ignore; name what the job does not need in "
                        ".gitignore");
}

base::Output git_output(const base::Path& directory, const std::vector<std::string>& arguments,
                        const base::Path& index) {
  base::Command command;
  // A hook of git's has variables that name another tree. A file watcher that the tree's
  // configuration names is a program that nobody asked for.
  command.arguments = {"env",
                       "-u",
                       "GIT_DIR",
                       "-u",
                       "GIT_WORK_TREE",
                       "-u",
                       "GIT_INDEX_FILE",
                       "-u",
                       "GIT_PREFIX",
                       "GIT_OPTIONAL_LOCKS=0"};
  if (!index.empty()) command.arguments.push_back("GIT_INDEX_FILE=" + index.string());
  for (const char* const word : {"git", "-c", "core.fsmonitor=false", "-C"}) {
    command.arguments.emplace_back(word);
  }
  command.arguments.push_back(directory.string());
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  command.most_text = kMostNamesBytes;
  try {
    return base::run(command, kGitSeconds);
  } catch (const base::Error& error) {
    throw base::Error(base::Code::Operator, std::string("cannot ask git what ") +
                                                base::printable(directory.string()) +
                                                " holds: " + error.what());
  }
}

std::string git(const base::Path& directory, const std::vector<std::string>& arguments,
                const base::Path& index = {}) {
  const base::Output output = git_output(directory, arguments, index);
  const std::string place =
      "git " + arguments.front() + " in " + base::printable(directory.string());
  if (output.timed_out || output.cut) {
    throw base::Error(base::Code::Operator,
                      place +
                          (output.cut ? " lists more than can be kept" : " takes over a minute") +
                          "; freeze a smaller tree");
  }
  if (output.exit.code == kNoProgram) {
    throw base::Error(base::Code::Operator,
                      "there is no git in PATH, and " + base::printable(directory.string()) +
                          " is a working tree of git's; call this where git is");
  }
  if (output.exit.code != 0) {
    const std::string words = output.errors.substr(0, output.errors.find_last_not_of('\n') + 1);
    throw base::Error(base::Code::Operator, place + " fails: " + base::printable(words));
  }
  return output.text;
}

std::vector<std::string> names(const std::string& text) {
  std::vector<std::string> all = base::split(text, '\0');
  std::erase(all, "");
  return all;
}

std::string one_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool has_git(const base::Path& directory) {
  std::error_code error;
  return fs::exists(directory / ".git", error);
}

// The folder itself, or the first above it, that is a working tree of git's.
std::optional<base::Path> top_of(base::Path directory) {
  for (;; directory = directory.parent_path()) {
    if (has_git(directory)) return directory;
    if (directory == directory.parent_path()) return std::nullopt;
  }
}

void list_tree(const base::Path& root, const std::string& prefix, std::size_t most, int depth,
               WorkTree* tree) {
  const base::Path directory = root / prefix;
  if (depth > kMostDepth) {
    throw base::Error(base::Code::User, base::printable(directory.string()) +
                                            " is a submodule in more than " +
                                            std::to_string(kMostDepth) + " others");
  }
  for (std::string& name :
       names(git(directory, {"ls-files", "-z", "--cached", "--others", "--exclude-standard"}))) {
    if (name.back() == '/') name.pop_back();  // a tree of its own that is no submodule
    std::string path = prefix + name;
    std::error_code error;
    if (fs::symlink_status(root / path, error).type() != fs::file_type::directory) {
      tree->files.push_back(std::move(path));
    } else if (has_git(root / path)) {
      list_tree(root, path + "/", most, depth + 1, tree);
    }
    if (tree->files.size() > most) too_many(tree->root, most);
  }
  for (std::string& name : names(git(directory, {"ls-files", "-z", "--others", "--ignored",
                                                 "--exclude-standard", "--directory"}))) {
    if (name.back() == '/') name.pop_back();
    tree->ignored.push_back(prefix + name);
  }
}

void check_out_below(const base::Path& root, const std::string& commit, const base::Path& target,
                     int depth) {
  const base::Path index = target.string() + ".index";
  fs::create_directories(target);
  git(root, {"read-tree", commit}, index);
  git(root, {"checkout-index", "--all", "--force", "--prefix=" + target.string() + "/"}, index);
  const std::vector<std::string> entries = names(git(root, {"ls-files", "-z", "--stage"}, index));
  fs::remove(index);
  for (const std::string& entry : entries) {  // "MODE ID STAGE\tPATH"
    if (entry.compare(0, kSubmodule.size(), kSubmodule) != 0) continue;
    const std::string id = base::split(entry, ' ').at(1);
    const std::string path = entry.substr(entry.find('\t') + 1);
    if (!has_git(root / path)) continue;  // never fetched, so the job would not find it either
    const base::Output known = git_output(root / path, {"cat-file", "-e", id + "^{commit}"}, {});
    if (known.exit.code != 0 || depth >= kMostDepth) {
      throw base::Error(base::Code::User, "the submodule " + base::printable(path) +
                                              " has no commit " + id.substr(0, 12) +
                                              " here; git submodule update --init brings it");
    }
    check_out_below(root / path, id, target / path, depth + 1);
  }
}

}  // namespace

WorkTree read_work_tree(const base::Path& directory, std::size_t most_files) {
  WorkTree tree;
  const auto top = top_of(directory);
  tree.has_git = top.has_value();
  tree.root = top.value_or(directory);
  if (!top) {
    tree.files = files_below(directory, most_files);
    return tree;
  }
  list_tree(tree.root, "", most_files, 0, &tree);
  std::sort(tree.files.begin(), tree.files.end());
  // A path that is in conflict stands there several times.
  tree.files.erase(std::unique(tree.files.begin(), tree.files.end()), tree.files.end());
  std::sort(tree.ignored.begin(), tree.ignored.end());
  const base::Output head = git_output(tree.root, {"rev-parse", "--verify", "-q", "HEAD"}, {});
  if (head.exit.code == 0) tree.commit = one_line(head.text);
  return tree;
}

std::string commit_of(const base::Path& root, const std::string& name) {
  const base::Output found =
      git_output(root, {"rev-parse", "--verify", "-q", "--end-of-options", name + "^{commit}"}, {});
  if (found.exit.code == 0) return one_line(found.text);
  throw base::Error(base::Code::User, "'" + base::printable(name) + "' is not a commit of " +
                                          base::printable(root.string()) +
                                          "; git log shows which there are");
}

void check_out(const base::Path& root, const std::string& commit, const base::Path& target) {
  check_out_below(root, commit, target, 0);
}

std::vector<std::string> files_below(const base::Path& directory, std::size_t most_files) {
  std::vector<std::string> files;
  try {
    for (auto at = fs::recursive_directory_iterator(directory); at != fs::end(at); ++at) {
      std::string path = at->path().lexically_relative(directory).string();
      if (at->symlink_status().type() != fs::file_type::directory) {
        files.push_back(std::move(path));
      }
      if (files.size() > most_files) too_many(directory, most_files);
    }
  } catch (const fs::filesystem_error& error) {
    base::throw_errno(error.code().value(), "cannot list " + error.path1().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace regatta::orchestrator::frozen
