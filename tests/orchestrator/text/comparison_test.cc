// Runs beside each other.
#include "orchestrator/text/comparison.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr, testing::Not;

Json run(const std::string& id, const std::string& optimizer, double loss) {
  return {{"id", id},
          {"state", "succeeded"},
          {"loss", loss},
          {"config",
           {{"name", id},
            {"optimizer", {{"name", optimizer}, {"learning_rate", 0.001}}},
            {"steps", 100}}}};
}

TEST(Comparison, NamesWhatDiffersAndNothingElse) {
  Json third = run("c", "adamw", 2);
  third["config"]["slurm"]["nodes"] = 4;
  third["config"]["steps"] = 200;
  const Json all = comparison_of({run("a", "adamw", 2.5), run("b", "lamb", 2), third});
  EXPECT_EQ(all["runs"], Json({"a", "b", "c"}));
  EXPECT_EQ(all["figures"]["loss"], Json({2.5, 2.0, 2.0}));
  EXPECT_EQ(all["figures"]["goodput"], Json({nullptr, nullptr, nullptr}));
  EXPECT_EQ(all["differences"], (Json{{"optimizer.name", {"adamw", "lamb", "adamw"}},
                                      {"slurm.nodes", {nullptr, nullptr, 4}},
                                      {"steps", {100, 100, 200}}}));
  const std::string text = comparison_text(all);
  EXPECT_THAT(text, HasSubstr("optimizer.name  adamw  lamb  adamw"));
  EXPECT_THAT(text, HasSubstr("slurm.nodes     -      -     4"));
  EXPECT_THAT(text, Not(HasSubstr("learning_rate")));
}

TEST(Comparison, OfEqualRunsAndHostileText) {
  Json second = run("b\x1b[2J", "adamw", 2);
  second["config"]["name"] = "other";
  const Json all = comparison_of({run("a", "adamw", 2), second});
  EXPECT_TRUE(all["differences"].empty());
  const std::string text = comparison_text(all);
  EXPECT_THAT(text, HasSubstr("their configurations are equal"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_TRUE(comparison_of({{{"id", "x"}, {"config", nullptr}}, {{"id", "y"}}})["differences"]
                  .is_object());
}

}  // namespace
}  // namespace regatta::orchestrator::text
