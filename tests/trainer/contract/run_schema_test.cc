#include "trainer/contract/run_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {
namespace {

using Json = nlohmann::json;

// Every key that a canonical configuration has, the schema has, and no section is without keys.
void expect_named(const Json& config, const Json& schema, const std::string& path) {
  for (const auto& [key, value] : config.items()) {
    ASSERT_TRUE(schema.at("properties").contains(key)) << path << key;
    if (value.is_object()) expect_named(value, schema["properties"][key], path + key + ".");
  }
}

TEST(RunSchema, NamesWhatARunFileMaySay) {
  const Json schema = Json::parse(run_file_schema());
  expect_named(Json::parse(to_json(parse_run_config(
                   R"({"data": {"path": "/d"}, "target": {"value": 0.5}, "slurm": {"nodes": 1},
                       "mllog": {"file": "f", "submitter": "s"}})",
                   "f"))),
               schema, "");
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["required"], Json({"data"}));
}

TEST(RunSchema, HasWhatDependsOnNothingElse) {
  const Json keys = Json::parse(run_file_schema())["properties"];
  EXPECT_EQ(keys["steps"]["minimum"], 1);
  EXPECT_EQ(keys["steps"]["maximum"], 1'000'000'000);
  EXPECT_EQ(keys["optimizer"]["properties"]["beta1"]["exclusiveMaximum"], 1);
  EXPECT_EQ(keys["optimizer"]["properties"]["learning_rate"]["default"], 0.001);
  EXPECT_EQ(keys["optimizer"]["properties"]["name"]["enum"], Json({"adamw", "lamb"}));
  EXPECT_EQ(keys["optimizer"]["properties"]["name"]["default"], "adamw");
  EXPECT_EQ(keys["graphs"]["type"], "boolean");
  EXPECT_EQ(keys["deterministic"]["deprecated"], true);
  EXPECT_EQ(keys["determinism"]["type"], Json({"object", "string"}));
  EXPECT_EQ(keys["determinism"]["anyOf"][1]["enum"], Json({"fast", "run", "elastic", "portable"}));
  EXPECT_EQ(keys["determinism"]["properties"]["shards"]["maximum"], 4096);
  EXPECT_EQ(keys["model"]["properties"]["max_positions"]["maximum"], 4096);
  EXPECT_EQ(keys["model"]["properties"]["layers"]["minimum"], 1);
  EXPECT_EQ(keys["data"]["properties"]["path"]["pattern"], R"(^[^\x00-\x1F\x7F]+$)");
  // At most the batch; at most the model's positions; by the preset.
  EXPECT_FALSE(keys["batch"]["properties"]["micro"].contains("maximum"));
  EXPECT_TRUE(keys["batch"]["properties"]["micro"].contains("minimum"));
  EXPECT_FALSE(keys["data"]["properties"]["max_length"].contains("maximum"));
  EXPECT_FALSE(keys["model"]["properties"]["layers"].contains("default"));
  EXPECT_TRUE(keys["slurm"]["properties"]["environment"].contains("additionalProperties"));
}

}  // namespace
}  // namespace regatta::trainer::contract
