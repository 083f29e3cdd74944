#include "tests/orchestrator/frozen/work_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/process.h"

namespace regatta::orchestrator::frozen {

namespace fs = std::filesystem;

TestTree::TestTree()
    : beside_(fs::canonical(temporary_.path())),
      root_(beside_ / "work"),
      store_(beside_ / "store") {
  fs::create_directory(root_);
}

void TestTree::write(const std::string& path, const std::string& text, unsigned mode) const {
  const base::Path whole = root_ / path;
  fs::create_directories(whole.parent_path());
  std::ofstream(whole, std::ios::binary | std::ios::trunc) << text;
  ASSERT_EQ(::chmod(whole.c_str(), mode), 0);
}

void TestTree::link(const std::string& path, const std::string& target) const {
  fs::create_directories((root_ / path).parent_path());
  fs::create_symlink(target, root_ / path);
}

void TestTree::remove(const std::string& path) const { fs::remove_all(root_ / path); }

std::string TestTree::git(const std::vector<std::string>& arguments,
                          const std::string& below) const {
  base::Command command;
  command.arguments = {"git",
                       "-C",
                       (root_ / below).string(),
                       "-c",
                       "user.name=Test",
                       "-c",
                       "user.email=test@localhost",
                       "-c",
                       "protocol.file.allow=always",
                       "-c",
                       "init.defaultBranch=main"};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  const base::Output output = base::run(command, 60);
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  return output.text.substr(0, output.text.find_last_not_of('\n') + 1);
}

void TestTree::commit_all(const std::string& below) const {
  if (!fs::exists(root_ / below / ".git")) git({"init", "-q"}, below);
  git({"add", "-A"}, below);
  git({"commit", "-q", "-m", "all"}, below);
}

std::string text_of(const base::Path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace regatta::orchestrator::frozen
