// Comments name files and sections that are there: a reader who follows one arrives.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/file_system.h"

namespace regatta::base {
namespace {

const Path kSource = REGATTA_SOURCE_DIR;
// Whose C++ comments are checked.
const char* const kFolders[] = {"base", "topology", "checkpoint", "orchestrator"};
// Whose CMake files are.
const char* const kBuilt[] = {"base",    "checkpoint",   "cmake", "topology",
                              "trainer", "orchestrator", "tests"};

std::string text_of(const Path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool is_cmake(const Path& path) {
  return path.extension() == ".cmake" || path.filename() == "CMakeLists.txt";
}

bool is_code(const Path& path) {
  return std::set<std::string>{".h", ".cc", ".cu", ".cuh"}.count(path.extension()) != 0;
}

// The file's comments in one line, without what separates their lines.
std::string comments_of(const Path& path) {
  const std::string mark = is_cmake(path) ? "#" : "//";
  std::istringstream lines(text_of(path));
  std::string comments, line;
  while (std::getline(lines, line)) {
    const std::size_t begin = line.find(mark);
    if (begin != std::string::npos && line.find("://") == std::string::npos) {
      comments += line.substr(begin + mark.size()) + " ";
    }
  }
  return comments;
}

// "" when it is there; from the root, a layer or the file's own folder.
std::string missing_file(const Path& folder, const std::string& named) {
  if (named.rfind("linux/", 0) == 0) return "";  // the kernel's
  for (const Path& from :
       {kSource, kSource / "orchestrator", kSource / "trainer", kSource / "topology", folder}) {
    if (std::filesystem::exists(from / named)) return "";
  }
  return named;
}

// How many files and sections the comments of `path` name, all of which must be there.
int checked(const Path& path) {
  static const std::regex file(R"([a-z_][a-z_0-9./-]*/[a-z_0-9.-]+\.(h|cc|md|py|sh|cmake)\b)");
  static const std::regex section(R"re(([\w./-]*(?:\.md|\bREADME)), +"([^"]+)")re");
  static const std::regex elsewhere(R"(design decision|facts: |facts/)");
  const Path folder = path.parent_path();
  const std::string comments = comments_of(path);
  int named = 0;
  EXPECT_FALSE(std::regex_search(comments, elsewhere)) << path;
  for (std::sregex_iterator it(comments.begin(), comments.end(), file), end; it != end; ++it) {
    ++named;
    EXPECT_EQ(missing_file(folder, it->str()), "") << path;
  }
  for (std::sregex_iterator it(comments.begin(), comments.end(), section), end; it != end; ++it) {
    ++named;
    const std::string page = (*it)[1];
    const Path from = page.rfind("README", 0) == 0 ? folder / "README.md" : kSource / page;
    EXPECT_NE(text_of(from).find("# " + (*it)[2].str()), std::string::npos)
        << path << " names the section " << it->str();
  }
  return named;
}

// The same for each file beneath `folder` that `chosen` takes.
int checked_beneath(const Path& folder, bool (*chosen)(const Path&)) {
  int named = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (chosen(entry.path())) named += checked(entry.path());
  }
  return named;
}

TEST(Comments, NameWhatIsThere) {
  int named = 0;
  for (const char* folder : kFolders) named += checked_beneath(kSource / folder, is_code);
  EXPECT_GT(named, 10);
}

TEST(Comments, OfTheBuildNameWhatIsThere) {
  int named = checked(kSource / "CMakeLists.txt");
  for (const char* folder : kBuilt) named += checked_beneath(kSource / folder, is_cmake);
  EXPECT_GT(named, 5);
}

}  // namespace
}  // namespace regatta::base
