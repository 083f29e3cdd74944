#include "orchestrator/api/schema_forms.h"

#include <nlohmann/json.hpp>

#include "orchestrator/api/schemas.h"

namespace regatta::orchestrator::api {
namespace forms {

Json of_type(const char* type) { return {{"type", type}}; }
Json integer() { return of_type("integer"); }
Json any_number() { return of_type("number"); }
Json text() { return of_type("string"); }
Json flag() { return of_type("boolean"); }
Json any_moment() { return {{"type", "string"}, {"format", "date-time"}}; }
Json any_object() { return {{"type", "object"}, {"additionalProperties", true}}; }
Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }
Json by_name(Json values) {
  return {{"type", "object"}, {"additionalProperties", std::move(values)}};
}
Json one_of(const std::vector<std::string>& words) { return {{"type", "string"}, {"enum", words}}; }

Json or_null(Json schema) {
  if (!schema.contains("type") || schema.contains("enum")) {
    return {{"anyOf", {std::move(schema), of_type("null")}}};
  }
  schema["type"] = {schema["type"], "null"};
  return schema;
}

Json tuple_of(std::initializer_list<Json> items) {
  return {{"type", "array"},
          {"prefixItems", std::vector<Json>(items)},
          {"minItems", items.size()},
          {"maxItems", items.size()}};
}

void add(Json* schema, const std::string& key, Json value) {
  (*schema)["properties"][key] = std::move(value);
  (*schema)["required"].push_back(key);
}
Json object(Properties properties) {
  Json schema{{"type", "object"},
              {"properties", Json::object()},
              {"required", Json::array()},
              {"additionalProperties", false}};
  for (const auto& [key, value] : properties) add(&schema, key, value);
  return schema;
}
Json optionally(Json schema, Properties properties) {
  for (const auto& [key, value] : properties) schema["properties"][key] = value;
  return schema;
}
Json with(Json schema, Properties properties) {
  for (const auto& [key, value] : properties) add(&schema, key, value);
  return schema;
}

void SchemaWriter::note(const runs::RecordField& field, Json form) {
  add(&schema_, std::string(field.key), std::move(form));
}
void SchemaWriter::write(const runs::RecordField& field, bool) { note(field, flag()); }
void SchemaWriter::write(const runs::RecordField& field, int) { note(field, integer()); }
void SchemaWriter::write(const runs::RecordField& field, std::int64_t) { note(field, integer()); }
void SchemaWriter::write(const runs::RecordField& field, double) {
  note(field, or_null(field.is_moment ? any_moment() : any_number()));
}
void SchemaWriter::write(const runs::RecordField& field, const std::optional<double>&) {
  note(field, or_null(field.is_moment ? any_moment() : any_number()));
}
void SchemaWriter::write(const runs::RecordField& field, const std::optional<int>&) {
  note(field, or_null(integer()));
}
void SchemaWriter::write(const runs::RecordField& field, const std::optional<std::int64_t>&) {
  note(field, or_null(integer()));
}
void SchemaWriter::write(const runs::RecordField& field, const std::optional<slurm::Gpus>&) {
  note(field, or_null(object({{"count", integer()}, {"types", by_name(integer())}})));
}
void SchemaWriter::write(const runs::RecordField& field, const std::string&) {
  note(field, field.empty_is_null ? or_null(text()) : text());
}
void SchemaWriter::write(const runs::RecordField& field, const std::vector<std::string>&) {
  note(field, list_of(text()));
}
void SchemaWriter::write(const runs::RecordField& field, const runs::Metrics&) {
  note(field, by_name(or_null(any_number())));
}
void SchemaWriter::write(const runs::RecordField& field, runs::RunState) {
  note(field, reference("RunState"));
}

}  // namespace forms

nlohmann::ordered_json reference(std::string_view schema) {
  return {{"$ref", "#/components/schemas/" + std::string(schema)}};
}

}  // namespace regatta::orchestrator::api
