#include "trainer/contract/run_schema.h"

#include <list>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/error.h"
#include "base/json.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {
namespace {

using base::AskedKey;
using Json = nlohmann::ordered_json;
using Form = AskedKey::Form;

// Two files with every section that is only read where it is there. Whatever limit or default is
// not the same with both depends on something else in the file.
constexpr const char* kSamples[] = {
    R"({"name": "a", "data": {"mixture": [{"path": "/a"}]}, "target": {"value": 0.5},
        "from": {"path": "/a"}, "mllog": {"file": "a", "submitter": "a"},
        "slurm": {"requeue": true}})",
    R"({"name": "b", "data": {"mixture": [{"path": "/b", "weight": 2}], "max_length": 32},
        "target": {"metric": "mlm_loss", "value": 2},
        "model": {"preset": "mini", "max_positions": 64}, "batch": {"size": 8}, "steps": 7,
        "ranks": 2, "from": {"path": "/b"}, "optimizer": {"learning_rate": 0.5},
        "mllog": {"file": "b", "submitter": "b"}, "slurm": {"ranks_per_node": 1}})"};

std::list<AskedKey> asked_of(const char* sample) {
  std::list<AskedKey> asked;
  (void)parse_run_config(sample, "a sample", &asked);
  return asked;
}

template <typename Value>
void keep_equal(Value* value, const Value& other) {
  if (*value != other) *value = Value{};
}

// Of the keys of both only what both say.
void intersect(std::list<AskedKey>* keys, const std::list<AskedKey>& others) {
  auto other = others.begin();
  for (AskedKey& key : *keys) {
    base::check(other != others.end() && key.name == other->name && key.form == other->form,
                "every run file is asked for the same keys");
    keep_equal(&key.absent, other->absent);
    keep_equal(&key.low, other->low);
    keep_equal(&key.high, other->high);
    intersect(&key.below, (other++)->below);
  }
}

Json mapping(const std::list<AskedKey>& keys);

void add_range(const AskedKey& key, Json* schema) {
  const auto bound = [&](const std::optional<double>& at, const char* name) {
    if (!at) return;
    const bool whole = key.form == Form::Whole;
    (*schema)[name] = whole ? Json(static_cast<std::int64_t>(*at)) : Json(*at);
  };
  bound(key.low, key.low_is_out ? "exclusiveMinimum" : "minimum");
  bound(key.high, key.high_is_out ? "exclusiveMaximum" : "maximum");
}

Json schema_of(const AskedKey& key) {
  Json schema;
  switch (key.form) {
    case Form::Flag:
      schema["type"] = "boolean";
      break;
    case Form::Whole:
      schema["type"] = "integer";
      break;
    case Form::Number:
      schema["type"] = "number";
      break;
    case Form::Text:  // a number without quotes is one, too
      schema["type"] = {"string", "number", "boolean"};
      break;
    case Form::Texts:  // one needs no list
      schema["type"] = {"array", "string", "number", "boolean"};
      schema["items"]["type"] = {"string", "number", "boolean"};
      break;
    case Form::Choice:
      schema["enum"] = key.choices;
      break;
    case Form::Mapping:
      return mapping(key.below);
    case Form::Mappings:
      schema["type"] = "array";
      schema["items"] = mapping(key.below);
      break;
  }
  add_range(key, &schema);
  if (!key.absent.empty()) schema["default"] = base::parse_json<Json>(key.absent);
  return schema;
}

// One that is asked for no key takes any (names of variables, with texts).
Json mapping(const std::list<AskedKey>& keys) {
  Json schema{{"type", "object"}};
  if (keys.empty()) {
    schema["additionalProperties"]["type"] = {"string", "number", "boolean", "null"};
    return schema;
  }
  for (const AskedKey& key : keys) schema["properties"][key.name] = schema_of(key);
  schema["additionalProperties"] = false;
  return schema;
}

// A mapping that names a dataset or a mixture, or a list, which is a mixture.
void limit_data(Json* data) {
  Json& keys = (*data)["properties"];
  keys["path"]["pattern"] = R"(^[^\x00-\x1F\x7F]+$)";  // no control characters
  Json mixture = keys["mixture"];
  mixture["minItems"] = 1;
  mixture["maxItems"] = kMostDatasets;
  mixture["items"]["properties"]["path"]["pattern"] = keys["path"]["pattern"];
  mixture["items"]["required"] = {"path"};
  keys["mixture"] = mixture;
  (*data)["type"] = {"object", "array"};
  for (const char* const key : {"minItems", "maxItems", "items"}) (*data)[key] = mixture[key];
  (*data)["anyOf"] = {{{"required", {"path"}}}, {{"required", {"mixture"}}}};  // lists have neither
  (*data)["not"] = {{"type", "object"}, {"required", {"path", "mixture"}}};
}

}  // namespace

std::string run_file_schema() {
  std::list<AskedKey> keys = asked_of(kSamples[0]);
  intersect(&keys, asked_of(kSamples[1]));
  Json schema = mapping(keys);
  schema["required"] = {"data"};
  limit_data(&schema["properties"]["data"]);
  Json& from = schema["properties"]["from"];
  from["anyOf"] = Json::array({{{"required", {"path"}}}, {{"required", {"run"}}}});
  from["type"] = {"object", "string"};
  Json& determinism = schema["properties"]["determinism"];
  determinism["anyOf"] = Json::array({{{"type", "object"}}, {{"enum", determinism_names()}}});
  determinism["type"] = {"object", "string"};
  schema["properties"]["deterministic"]["deprecated"] = true;
  schema["description"] = "A run file of Regatta; its YAML is the same.";
  return base::json_text(schema, 1) + "\n";
}

}  // namespace regatta::trainer::contract
