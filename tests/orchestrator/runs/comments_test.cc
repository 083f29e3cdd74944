// Comments name files and sections that are there: a reader who follows one arrives.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/file_system.h"

namespace regatta::orchestrator {
namespace {

const base::Path kSource = REGATTA_SOURCE_DIR;

std::string text_of(const base::Path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The file's comments in one line, without what separates their lines.
std::string comments_of(const base::Path& path) {
  std::istringstream lines(text_of(path));
  std::string comments, line;
  while (std::getline(lines, line)) {
    const std::size_t begin = line.find("//");
    if (begin != std::string::npos && line.find("://") == std::string::npos) {
      comments += line.substr(begin + 2) + " ";
    }
  }
  return comments;
}

// "" when it is there; from the root, a layer or the file's own folder.
std::string missing_file(const base::Path& folder, const std::string& named) {
  if (named.rfind("linux/", 0) == 0) return "";  // the kernel's
  for (const base::Path& from : {kSource, kSource / "orchestrator", kSource / "trainer", folder}) {
    if (std::filesystem::exists(from / named)) return "";
  }
  return named;
}

TEST(Comments, NameWhatIsThere) {
  const std::regex file(R"([a-z_][a-z_0-9./-]*/[a-z_0-9.-]+\.(h|cc|md|py|sh)\b)");
  const std::regex section(R"re(([\w./-]*\.md), +"([^"]+)")re");
  const std::regex elsewhere(R"(design decision|facts: |facts/)");
  int named = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(kSource / "orchestrator")) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    const base::Path folder = entry.path().parent_path();
    const std::string comments = comments_of(entry.path());
    EXPECT_FALSE(std::regex_search(comments, elsewhere)) << entry.path();
    for (std::sregex_iterator it(comments.begin(), comments.end(), file), end; it != end; ++it) {
      ++named;
      EXPECT_EQ(missing_file(folder, it->str()), "") << entry.path();
    }
    for (std::sregex_iterator it(comments.begin(), comments.end(), section), end; it != end; ++it) {
      ++named;
      const std::string page = (*it)[1];
      const base::Path path = page == "README.md" ? folder / page : kSource / page;
      EXPECT_NE(text_of(path).find("# " + (*it)[2].str()), std::string::npos)
          << entry.path() << " names the section " << it->str();
    }
  }
  EXPECT_GT(named, 10);
}

}  // namespace
}  // namespace regatta::orchestrator
