// General functions are defined once, in base; a second definition elsewhere drifts away from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>

#include "base/file_system.h"

namespace regatta::base {
namespace {

const Path kSource = REGATTA_SOURCE_DIR;
// They say more of bad JSON than base::parse_json and base::json_text do.
const std::array<std::string, 3> kStrict{"checkpoint/safetensors.cc",
                                         "orchestrator/frozen/frozen_job.cc",
                                         "trainer/data/dataset_format.cc"};
const char* const kFolders[] = {"topology", "checkpoint", "trainer", "orchestrator"};

// What matches at the beginning of `line`: a function's definition or declaration outside of a
// class, or anywhere in it: a call that asks the system.
std::string second_of(const std::string& line) {
  static const std::regex defined(
      R"(^[A-Za-z\[][\w:<>&*, \[\]]*[ &*](median|percentile|mean|variance|plural|percent|)"
      R"(short_number|formatted|trim|trimmed|lower|upper|lower_case|upper_case|is_digits|)"
      R"(has_control|hex|host_name|boot_id|user_name|starts_with|ends_with)\()");
  static const std::regex asks(R"(\b(gethostname|sched_getaffinity|getpwuid|nth_element)\()");
  static const std::regex json(R"(\b[Jj]son::(parse)\(|(?:\.|->)(dump)\()");
  std::smatch found;
  if (line.find('(') == std::string::npos) return "";
  if (std::regex_search(line, found, asks)) return found[1];
  if (std::regex_search(line, found, json)) return found[found[1].matched ? 1 : 2];
  return std::regex_search(line, found, defined) ? found[1].str() : "";
}

TEST(GeneralFunctions, AreDefinedInBaseOnly) {
  int files = 0;
  for (const char* folder : kFolders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc") continue;
      ++files;
      const std::string file = std::filesystem::relative(entry.path(), kSource).string();
      std::ifstream lines(entry.path());
      for (std::string line; std::getline(lines, line);) {
        const std::string name = second_of(line);
        const bool is_json = name == "parse" || name == "dump";
        if (is_json && std::count(kStrict.begin(), kStrict.end(), file) > 0) continue;
        EXPECT_EQ(name, "") << file << ": " << line
                            << "\nuse that of base (base/README.md, \"Map\")";
      }
    }
  }
  EXPECT_GT(files, 300);
}

TEST(GeneralFunctions, SecondDefinitionsAreSeen) {
  for (const char* line :
       {"double median(std::vector<double> values) {", "  ::gethostname(name, sizeof name - 1);",
        "[[nodiscard]] std::string_view trimmed(std::string_view text);",
        "static std::string percent(double share) {", "bool is_digits(View text) { return true; }",
        "  Json json = Json::parse(text);", "  return json[\"a\"].dump();"}) {
    EXPECT_NE(second_of(line), "") << line;
  }
  for (const char* line :
       {"  [[nodiscard]] double mean() const;", "double LengthTable::mean() const {",
        "  const double middle = base::median(values);",
        "std::string percentage(double share) {"}) {
    EXPECT_EQ(second_of(line), "") << line;
  }
}

}  // namespace
}  // namespace regatta::base
