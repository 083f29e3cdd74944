// A plan with everything, and one with nothing, by the schema that the API's document has of it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/api/schemas.h"
#include "topology/plan/plan.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

bool is_of(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

// What a plan's schema says: types, items, keys that may be there and keys that must.
void expect_fits(const Json& value, const Json& schema, const std::string& where) {
  ASSERT_TRUE(is_of(value, schema["type"].get<std::string>())) << where << value;
  if (value.is_array()) {
    for (const Json& each : value) expect_fits(each, schema["items"], where + "[]");
  }
  if (!value.is_object()) return;
  for (const auto& [key, each] : value.items()) {
    const std::string path = where + "." + key;
    if (schema["additionalProperties"].is_object()) {
      expect_fits(each, schema["additionalProperties"], path);
    } else {
      ASSERT_TRUE(schema["properties"].contains(key)) << path;
      expect_fits(each, schema["properties"][key], path);
    }
  }
  for (const Json& key : schema.value("required", Json::array())) {
    EXPECT_TRUE(value.contains(key.get<std::string>())) << where << key;
  }
}

TEST(PlanSchema, IsOfWholePlansAndOfTheLeast) {
  const Json schema = schemas()["Plan"];
  topology::plan::Plan plan = topology::plan::default_plan(2);
  const Json least = Json::parse(topology::plan::to_json(plan));
  expect_fits(least, schema, "least");
  EXPECT_EQ(least.size(), schema["required"].size());
  plan.topology = std::string(32, 'a');
  plan.cut = "25 MB";
  plan.placement = {{{"NCCL_ALGO", "Ring"}}, "1@10", 4, {"node07"}};
  plan.seats = {{"node01", 0, "mlx5_0"}, {"node01", 1, ""}};
  plan.decisions = {{"sharding.optimizer", "true", "false", "it is faster", {{"true", 0.5}}}};
  plan.tuner.ranges.resize(2);
  plan.tuner.ranges.front().to_bytes = 4096;
  plan.alternatives = {{"25 MB", 1, 0.5, 0.6}};
  plan.timeline.emplace().buckets.resize(1);
  const Json whole = Json::parse(topology::plan::to_json(plan));
  expect_fits(whole, schema, "whole");
  EXPECT_EQ(whole.size(), schema["properties"].size()) << "every key";
}

}  // namespace
}  // namespace regatta::orchestrator::api
