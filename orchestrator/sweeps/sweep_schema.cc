#include "orchestrator/sweeps/sweep_schema.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "orchestrator/sweeps/read_sweep.h"
#include "orchestrator/sweeps/run_file_keys.h"
#include "trainer/contract/run_schema.h"

namespace regatta::orchestrator::sweeps {
namespace {

using SchemaJson = nlohmann::ordered_json;

SchemaJson whole_number(std::int64_t low, std::int64_t high) {
  return {{"type", "integer"}, {"minimum", low}, {"maximum", high}};
}

SchemaJson choice_of(const std::vector<std::string>& words) {
  SchemaJson schema;
  schema["enum"] = words;
  return schema;
}

SchemaJson with_default(SchemaJson schema, const SchemaJson& value) {
  schema["default"] = value;
  return schema;
}

SchemaJson mapping_of(SchemaJson properties) {
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

// One needs no list.
SchemaJson values_schema() {
  const SchemaJson types{"string", "number", "boolean"};
  return {{"type", {"array", "string", "number", "boolean"}}, {"items", {{"type", types}}}};
}

SchemaJson named(const char* key, const SchemaJson& schema) {
  return {{"properties", {{key, schema}}}, {"required", {key}}};
}

SchemaJson parameter_schema() {
  SchemaJson schema =
      mapping_of({{"kind", choice_of(kind_names())},
                  {"low", {{"type", "number"}}},
                  {"high", {{"type", "number"}}},
                  {"log", with_default({{"type", "boolean"}}, false)},
                  {"points", whole_number(2, kMostTrials)},
                  {"values", values_schema()},
                  {"when", {{"type", "object"}, {"additionalProperties", values_schema()}}}});
  schema["required"] = {"kind"};
  schema["if"] = named("kind", {{"const", kind_names().back()}});
  schema["then"] = {{"required", {"values"}}};
  schema["else"] = {{"required", {"low", "high"}}};
  return schema;
}

SchemaJson section_schema() {
  const SweepSettings usual;
  SchemaJson parameters{{"type", "object"}, {"minProperties", 1}};
  parameters["propertyNames"] = choice_of(run_file_keys());
  parameters["additionalProperties"] = parameter_schema();
  SchemaJson schema = mapping_of(
      {{"method", choice_of(method_names())},
       {"trials", whole_number(1, kMostTrials)},
       {"concurrency", with_default(whole_number(1, kMostConcurrency), usual.concurrency)},
       {"seed", with_default({{"type", "integer"}, {"minimum", 0}}, usual.seed)},
       {"objective",
        mapping_of({{"kind", with_default(choice_of(objective_names()), objective_names().front())},
                    {"direction", choice_of(direction_names())}})},
       {"budget",
        mapping_of({{"unit", with_default(choice_of(unit_names()), unit_names().front())},
                    {"min", whole_number(1, kMostBudget)},
                    {"max", whole_number(1, kMostBudget)},
                    {"factor", with_default(whole_number(2, kMostFactor), usual.factor)}})},
       {"parameters", std::move(parameters)}});
  schema["required"] = {"method", "parameters"};
  const auto method = [](SweepMethod each) {
    return named("method", {{"const", method_names().at(static_cast<std::size_t>(each))}});
  };
  SchemaJson rungs{{"properties", {{"budget", {{"required", {"min", "max"}}}}}},
                   {"required", {"budget", "trials"}}};
  schema["allOf"] = {{{"if", method(SweepMethod::Asha)}, {"then", std::move(rungs)}},
                     {{"if", method(SweepMethod::Grid)}, {"else", {{"required", {"trials"}}}}}};
  return schema;
}

}  // namespace

std::string sweep_file_schema() {
  auto schema = base::parse_json<SchemaJson>(trainer::contract::run_file_schema());
  schema["properties"]["sweep"] = section_schema();
  schema["required"].push_back("sweep");
  schema["description"] = "A run file of Regatta with a sweep; its YAML is the same.";
  return base::json_text(schema, 1) + "\n";
}

}  // namespace regatta::orchestrator::sweeps
