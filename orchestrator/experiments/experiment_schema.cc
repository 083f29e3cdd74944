#include "orchestrator/experiments/experiment_schema.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "orchestrator/experiments/parallel_experiment.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/parallel_config.h"
#include "trainer/contract/run_schema.h"

namespace regatta::orchestrator::experiments {
namespace {

using SchemaJson = nlohmann::ordered_json;

SchemaJson count_schema(std::int64_t high) {
  return {{"type", "integer"}, {"minimum", 1}, {"maximum", high}, {"default", 1}};
}

SchemaJson choice_schema(const std::vector<std::string>& words) {
  SchemaJson schema;
  schema["enum"] = words;
  schema["default"] = words.front();
  return schema;
}

SchemaJson layout_schema() {
  SchemaJson name{{"type", {"string", "number", "boolean"}}};
  name["pattern"] = "^[A-Za-z0-9._-]{1," + std::to_string(kLongestName) + "}$";
  SchemaJson schema{{"type", "object"},
                    {"properties",
                     {{"data", count_schema(kMostRanks)},
                      {"pipeline", count_schema(trainer::contract::kMostLayers)},
                      {"schedule", choice_schema(trainer::contract::pipeline_order_names())},
                      {"name", std::move(name)}}},
                    {"additionalProperties", false}};
  schema["anyOf"] = {{{"required", {"data"}}}, {{"required", {"pipeline"}}}};
  return schema;
}

}  // namespace

std::string experiment_file_schema() {
  auto schema = base::parse_json<SchemaJson>(trainer::contract::run_file_schema());
  schema["properties"].erase("parallel");  // the layouts say it
  const SchemaJson seed{{"type", {"integer", "string"}}, {"minimum", 0}, {"pattern", "^[0-9]+$"}};
  SchemaJson seeds{{"type", {"array", "integer", "string"}}, {"items", seed}};
  seeds["minItems"] = 1;
  seeds["maxItems"] = kMostSeeds;
  seeds["uniqueItems"] = true;
  SchemaJson layouts{{"type", "array"}, {"items", layout_schema()}};
  layouts["minItems"] = 1;
  layouts["maxItems"] = kMostLayouts;
  SchemaJson section{{"type", "object"},
                     {"properties",
                      {{"layouts", std::move(layouts)},
                       {"seeds", std::move(seeds)},
                       {"order", choice_schema(run_order_names())}}},
                     {"additionalProperties", false}};
  section["required"] = {"layouts", "seeds"};
  schema["properties"]["experiment"] = std::move(section);
  schema["required"].push_back("experiment");
  schema["description"] = "A run file of Regatta with an experiment; its YAML is the same.";
  return base::json_text(schema, 1) + "\n";
}

}  // namespace regatta::orchestrator::experiments
