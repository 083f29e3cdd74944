#include "trainer/contract/platform_bench.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace regatta::trainer::contract {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

PlatformBench whole() {
  PlatformBench bench;
  bench.host = "n1";
  bench.utc = 1796000000.25;
  bench.seconds = 97.5;
  bench.version = "0.1.0";
  bench.commit = "0123456789ab";
  bench.processor = "A Processor";
  bench.threads = 8;
  bench.memory_bytes = 1LL << 35;
  bench.gpu = "A GPU";
  bench.instruction_set = "avx512";
  bench.products = "oneDNN";
  bench.file_system = "ext4";
  bench.load_average = 0.5;
  bench.figures = {{"product.cpu.float32.fc1", "FLOP/s", 1.25e11, 1e9, 7, true, "2·3·4·5 FLOP"},
                   {"storage.fsync", "s", 0.003, 0, 3, false, "4096 B"}};
  bench.absent = {{"transfer.cuda", "no GPU"}};
  return bench;
}

TEST(PlatformBench, ReadsBackWhatItWrote) {
  for (const PlatformBench& bench : {whole(), PlatformBench{}}) {
    EXPECT_EQ(parse_platform_bench(to_json(bench), "it"), bench);
    const std::string text = to_json(bench).dump(2);
    EXPECT_EQ(parse_platform_bench(std::string_view(text), "it"), bench);
  }
}

TEST(PlatformBench, WritesWhatThePageOfTheFormatSays) {
  const Json json = to_json(whole());
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["at"], "2026-11-30T00:53:20.250Z");  // date -u -d @1796000000
  EXPECT_EQ(json["machine"]["gpu"], "A GPU");
  EXPECT_EQ(json["figures"][0]["better"], "higher");
  EXPECT_EQ(json["figures"][1]["better"], "lower");
  EXPECT_EQ(json["absent"][0], Json({{"name", "transfer.cuda"}, {"why", "no GPU"}}));
  EXPECT_FALSE(to_json(PlatformBench{})["machine"].contains("gpu")) << "absent, not empty";
}

TEST(PlatformBench, PartAndKind) {
  BenchFigure figure = whole().figures[0];
  EXPECT_EQ(part_of(figure), "product");
  figure.name = "alone";
  EXPECT_EQ(part_of(figure), "alone");
  PlatformBench other = whole();
  EXPECT_EQ(machine_kind(other), machine_kind(whole()));
  other.host = "n2";
  other.memory_bytes = 5;
  EXPECT_EQ(machine_kind(other), machine_kind(whole()));
  for (const auto& change : std::vector<std::function<void(PlatformBench&)>>{
           [](PlatformBench& b) { b.threads = 9; }, [](PlatformBench& b) { b.gpu = ""; },
           [](PlatformBench& b) { b.processor = "B"; }}) {
    other = whole();
    change(other);
    EXPECT_NE(machine_kind(other), machine_kind(whole()));
  }
}

TEST(PlatformBench, RefusesWhatIsNoneWithTheKey) {
  struct Row {
    const char* says;
    std::function<void(Json&)> change;
  };
  const Row rows[] = {
      {"is not an object", [](Json& j) { j = Json::array(); }},
      {"'format' is missing", [](Json& j) { j.erase("format"); }},
      {"'format' is 2", [](Json& j) { j["format"] = 2; }},
      {"'workload' is 0", [](Json& j) { j["workload"] = 0; }},
      {"'host' is not a text", [](Json& j) { j["host"] = 5; }},
      {"'host' has more than", [](Json& j) { j["host"] = std::string(400, 'x'); }},
      {"not UTF-8", [](Json& j) { j["host"] = "\xff"; }},
      {"'utc' is -1", [](Json& j) { j["utc"] = -1; }},
      {"'utc' is not a number", [](Json& j) { j["utc"] = "now"; }},
      {"'surplus' is unknown", [](Json& j) { j["surplus"] = 1; }},
      {"'machine' is not an object", [](Json& j) { j["machine"] = 1; }},
      {"'machine.threads' is 0", [](Json& j) { j["machine"]["threads"] = 0; }},
      {"'machine.threads' is not a whole", [](Json& j) { j["machine"]["threads"] = 1.5; }},
      {"'machine.memory_bytes' is 1e+30", [](Json& j) { j["machine"]["memory_bytes"] = 1e30; }},
      {"'machine.cores' is unknown", [](Json& j) { j["machine"]["cores"] = 1; }},
      {"'figures' is not a list", [](Json& j) { j["figures"] = Json::object(); }},
      {"'figures' has more than 500", [](Json& j) { j["figures"] = Json(501, j["figures"][0]); }},
      {"'figures[1].name' is a duplicate", [](Json& j) { j["figures"][1] = j["figures"][0]; }},
      {"'figures[0].name' is 'Ä b'", [](Json& j) { j["figures"][0]["name"] = "Ä b"; }},
      {"'figures[0].name' is 'a..b'", [](Json& j) { j["figures"][0]["name"] = "a..b"; }},
      {"'figures[0].name' is '.a'", [](Json& j) { j["figures"][0]["name"] = ".a"; }},
      {"'figures[0].name' is 'a.'", [](Json& j) { j["figures"][0]["name"] = "a."; }},
      {"'figures[0].unit' is 'parsec'", [](Json& j) { j["figures"][0]["unit"] = "parsec"; }},
      {"'figures[0].value' is 0; what a machine lacks",
       [](Json& j) { j["figures"][0]["value"] = 0; }},
      {"'figures[0].value' is -3", [](Json& j) { j["figures"][0]["value"] = -3; }},
      {"'figures[0].value' is 1e+31", [](Json& j) { j["figures"][0]["value"] = 1e31; }},
      {"'figures[0].value' is less than", [](Json& j) { j["figures"][0]["value"] = 1e-31; }},
      {"'figures[0].value' is null",
       [](Json& j) { j["figures"][0]["value"] = std::numeric_limits<double>::infinity(); }},
      {"'figures[0].spread' is -1", [](Json& j) { j["figures"][0]["spread"] = -1; }},
      {"'figures[0].repeats' is 0", [](Json& j) { j["figures"][0]["repeats"] = 0; }},
      {"'figures[0].better' is 'more'", [](Json& j) { j["figures"][0]["better"] = "more"; }},
      {"'figures[0]' is not an object", [](Json& j) { j["figures"][0] = nullptr; }},
      {"'absent[0].why' is missing", [](Json& j) { j["absent"][0].erase("why"); }},
  };
  for (const Row& row : rows) {
    Json json = to_json(whole());
    row.change(json);
    try {
      (void)parse_platform_bench(json, "bench.json");
      ADD_FAILURE() << row.says;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << row.says;
      EXPECT_THAT(error.what(), HasSubstr(row.says));
      EXPECT_THAT(error.what(), HasSubstr("bench.json is no bench of a platform"));
    }
  }
}

TEST(PlatformBench, RefusesTextsThatAreTooMuch) {
  const std::string deep = "[[[[[[[[[[[[[[[[";
  for (const std::string& text : {std::string(), std::string("{"), deep, std::string("3"),
                                  std::string(kMostBenchBytes + 1, ' ')}) {
    EXPECT_THROW((void)parse_platform_bench(std::string_view(text), "x"), base::Error)
        << text.substr(0, 20);
  }
}

}  // namespace
}  // namespace regatta::trainer::contract
