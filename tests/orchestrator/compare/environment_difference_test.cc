#include "orchestrator/compare/environment_difference.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::compare {
namespace {

using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty, testing::Not;
using Json = nlohmann::ordered_json;

// An environment of these facts, with what two attempts always differ in.
Json whole_environment(const Json& facts, int number) {
  Json sections;
  for (const std::string_view name : trainer::contract::kEnvironmentSections) {
    sections[std::string(name)] = Json::object();
  }
  sections.merge_patch(facts);
  Json whole = trainer::contract::sealed_environment(sections);
  const std::string at = "2026-01-0" + std::to_string(number) + "T00:00:00Z";
  whole["attempt"] = {{"number", number},
                      {"execution", at},
                      {"host", "n1"},
                      {"started", at},
                      {"clocks", {{"mean_mhz", 1000 * number}}}};
  whole["training"] = {
      {"ended", at}, {"clocks", {{"mean_mhz", 3000 + number}, {"throttled", {{"core", number}}}}}};
  return whole;
}

std::vector<std::string> keys_in(const Json& difference) {
  std::vector<std::string> keys;
  for (const Json& fact : difference.at("differences")) keys.push_back(fact.at("key"));
  return keys;
}

TEST(EnvironmentDifference, OfEqualAttemptsIsNothing) {
  const Json facts = {{"numerics", {{"threads", 2}}}, {"machine", {{"cores", 4}}}};
  const Json a = whole_environment(facts, 1);
  const Json told = environment_difference(a, whole_environment(facts, 2));
  EXPECT_TRUE(told.at("equal").get<bool>());
  EXPECT_THAT(told.at("differences"), IsEmpty());
  EXPECT_EQ(told.at("equal_sections").size(), trainer::contract::kEnvironmentSections.size());
  EXPECT_EQ(environment_difference_text(told, 9),
            "environments: equal, " + a.at("fingerprint").get<std::string>() + "\n");
}

TEST(EnvironmentDifference, HasWhatDecidesAboutNumbersFirst) {
  const Json a =
      whole_environment({{"build", {{"version", "1"}, {"libraries", {{"oneDNN", "2.6"}}}}},
                         {"machine", {{"cores", 4}, {"processor", {{"name", "P"}}}}},
                         {"numerics", {{"threads", 2}, {"gelu", "erf"}}},
                         {"configuration", {{"name", "x"}, {"optimizer", {{"rate", 1}}}}},
                         {"data", {{"fingerprint", "1"}}},
                         {"variables", {{"OMP_NUM_THREADS", "2"}}}},
                        1);
  const Json b =
      whole_environment({{"build", {{"version", "1"}, {"libraries", {{"oneDNN", "3.1"}}}}},
                         {"machine", {{"cores", 8}, {"processor", {{"name", "Q"}}}}},
                         {"numerics", {{"threads", 4}, {"gelu", "erf"}}},
                         {"configuration", {{"name", "y"}, {"optimizer", {{"rate", 2}}}}},
                         {"data", {{"fingerprint", "2"}}},
                         {"variables", {{"NCCL_ALGO", "Ring"}}}},
                        2);
  const Json told = environment_difference(a, b);
  EXPECT_FALSE(told.at("equal").get<bool>());
  EXPECT_THAT(
      keys_in(told),
      ElementsAre("numerics threads", "data fingerprint", "configuration optimizer rate",
                  "machine processor name", "build libraries oneDNN", "variables OMP_NUM_THREADS",
                  "variables NCCL_ALGO", "machine cores", "configuration name"));
  EXPECT_EQ(told.at("differences").at(0).at("values"), Json({2, 4}));
  EXPECT_EQ(told.at("differences").at(5).at("values"), Json({"2", nullptr}));
  EXPECT_THAT(told.at("equal_sections"), ElementsAre("devices", "fabric", "randomness", "model"));
  const std::string first = environment_difference_text(told, 2);
  EXPECT_EQ(first,
            "environments: 9 facts differ, the important first\n"
            "    numerics threads: 2 | 4\n"
            "    data fingerprint: 1 | 2\n"
            "    and 7 more: --environment\n"
            "    equal: devices, fabric, randomness, model\n");
  EXPECT_THAT(environment_difference_text(told, 9), Not(HasSubstr("more")));
}

TEST(EnvironmentDifference, TellsOfClocksThatAreOfAnotherSpeed) {
  const Json a = whole_environment(Json::object(), 1);
  Json b = a;
  b["training"]["clocks"]["mean_mhz"] = 3001 * 0.985;
  EXPECT_THAT(keys_in(environment_difference(a, b)), IsEmpty());
  b["training"]["clocks"]["mean_mhz"] = 3001 * 0.97;
  EXPECT_THAT(keys_in(environment_difference(a, b)), ElementsAre("training clocks mean_mhz"));
  b = a;
  b["attempt"]["host"] = "\x1b[2Jn2";
  const Json told = environment_difference(a, b);
  EXPECT_THAT(keys_in(told), ElementsAre("attempt host"));
  EXPECT_THAT(environment_difference_text(told, 9), Not(HasSubstr("\x1b")));
}

// Keys of later versions, and sections that only one has.
TEST(EnvironmentDifference, TakesWhatItDoesNotKnow) {
  const Json a = whole_environment(Json::object(), 1);
  Json b = a;
  b["numerics"]["later"] = {{"deep", {1, 2}}};
  b["another"] = {{"section", 1}};
  b["format"] = 3;
  EXPECT_THAT(keys_in(environment_difference(a, b)), ElementsAre("numerics later"));
  EXPECT_THAT(keys_in(environment_difference(b, a)), ElementsAre("numerics later"));
}

}  // namespace
}  // namespace regatta::orchestrator::compare
