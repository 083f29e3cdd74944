// `regatta compare` of files.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/orchestrator/cli/regatta_process.h"
#include "trainer/contract/environment_file.h"
#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

class CompareFiles : public tests::RegattaProcess {};

TEST_F(CompareFiles, TellsInWhatTheyDiffer) {
  script("pause_ms 1");
  serve();
  const std::string id = submit();
  ASSERT_TRUE(reaches(id, "succeeded"));
  const base::Path attempts = base::Path(show(id)["directory"].get<std::string>()) / "attempts";
  Json sections;
  for (const std::string_view name : trainer::contract::kEnvironmentSections) {
    sections[std::string(name)] = {{"said", 1}};
  }
  const auto write = [&](const base::Path& path) {
    tests::write_file(path, trainer::contract::sealed_environment(sections).dump(2));
    return path.string();
  };
  write(attempts / base::posix_file_system().list(attempts).at(0) /
        trainer::contract::kEnvironmentFile);
  sections["numerics"]["threads"] = 3;
  const std::string theirs = write(folder_.path() / "theirs.json");
  for (const std::vector<std::string>& sides : {std::vector{id, theirs}, {theirs, id}}) {
    const base::Output text = regatta({"compare", sides[0], sides[1]});
    EXPECT_EQ(text.exit.code, 0) << text.errors;
    EXPECT_THAT(text.text, HasSubstr(sides[0] == id ? "numerics threads: none | 3\n"
                                                    : "numerics threads: 3 | none\n"));
  }
  const base::Output same = regatta({"compare", theirs, theirs, "-o", "json"});
  EXPECT_EQ(Json::parse(same.text, nullptr, false)["equal"], true) << same.errors;

  trainer::contract::PlatformBench bench;
  bench.host = "n1";
  bench.version = "1";
  bench.processor = "P";
  bench.instruction_set = bench.products = bench.file_system = "x";
  bench.figures = {{"memory.cpu.copy", "B/s", 2e10, 0, 7, true, "w"}};
  const std::string one = (folder_.path() / "one.json").string();
  tests::write_file(one, trainer::contract::to_json(bench).dump());
  bench.figures[0].value = 1e10;
  const std::string two = (folder_.path() / "two.json").string();
  tests::write_file(two, trainer::contract::to_json(bench).dump());
  const base::Output benches = regatta({"compare", one, two});
  EXPECT_EQ(benches.exit.code, 0) << benches.errors;
  EXPECT_THAT(benches.text, testing::ContainsRegex("memory.cpu.copy +20 GB/s +10 GB/s +-50 %"));

  const std::string broken = (folder_.path() / "broken.json").string();
  tests::write_file(broken, "\x1b[2J");
  struct Refusal {
    std::vector<std::string> words;
    int code;
    std::string why;
  };
  for (const Refusal& refusal :
       std::vector<Refusal>{{{one, theirs}, 2, "name two of a kind"},
                            {{one, id}, 2, "name two of a kind"},
                            {{one, two, "--speed"}, 2, "one of these is a path"},
                            {{one, two, theirs}, 2, "compare two, not 3"},
                            {{one, "nothing.json"}, 3, "nothing.json"},
                            {{"nobody", theirs}, 3, "nobody"},
                            {{one, broken}, 7, "is neither an environment.json"}}) {
    std::vector<std::string> words{"compare"};
    words.insert(words.end(), refusal.words.begin(), refusal.words.end());
    const base::Output output = regatta(words);
    EXPECT_EQ(output.exit.code, refusal.code) << output.errors;
    EXPECT_THAT(output.errors, HasSubstr(refusal.why));
    EXPECT_THAT(output.errors, Not(HasSubstr("\x1b")));
    EXPECT_EQ(output.text, "");
  }
}

}  // namespace
}  // namespace regatta::orchestrator
