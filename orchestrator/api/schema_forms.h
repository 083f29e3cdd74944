// What schemas.cc and machine_schemas.cc make schemas of.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "orchestrator/runs/fields.h"
#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::api::forms {

using Json = nlohmann::ordered_json;
using Properties = std::initializer_list<std::pair<const char*, Json>>;

[[nodiscard]] Json of_type(const char* type);
[[nodiscard]] Json integer();
[[nodiscard]] Json any_number();
[[nodiscard]] Json text();
[[nodiscard]] Json flag();
[[nodiscard]] Json any_moment();
[[nodiscard]] Json any_object();
[[nodiscard]] Json list_of(Json items);
[[nodiscard]] Json by_name(Json values);  // an object with any keys
[[nodiscard]] Json one_of(const std::vector<std::string>& words);
[[nodiscard]] Json or_null(Json schema);
// An array of exactly these.
[[nodiscard]] Json tuple_of(std::initializer_list<Json> items);
void add(Json* schema, const std::string& key, Json value);
// Without a property, an object has none. All are there but for those of optionally().
[[nodiscard]] Json object(Properties properties);
[[nodiscard]] Json optionally(Json schema, Properties properties);
[[nodiscard]] Json with(Json schema, Properties properties);

// An archive that notes what AnswerWriter writes.
class SchemaWriter {
 public:
  explicit SchemaWriter(Json& schema) : schema_(schema) {}

  template <typename Value>
  void operator()(const runs::RecordField& field, const Value& value) {
    if (!field.key.empty()) write(field, value);
  }
  template <typename Record>
  void part(const Record&) {}

 private:
  void write(const runs::RecordField& field, bool);
  void write(const runs::RecordField& field, int);
  void write(const runs::RecordField& field, std::int64_t);
  void write(const runs::RecordField& field, double);
  void write(const runs::RecordField& field, const std::optional<double>&);
  void write(const runs::RecordField& field, const std::optional<int>&);
  void write(const runs::RecordField& field, const std::optional<std::int64_t>&);
  void write(const runs::RecordField& field, const std::optional<slurm::Gpus>&);
  void write(const runs::RecordField& field, const std::string&);
  void write(const runs::RecordField& field, const std::vector<std::string>&);
  void write(const runs::RecordField& field, const runs::Metrics&);
  void write(const runs::RecordField& field, runs::RunState);
  template <typename Value>
  void write(const runs::RecordField&, const Value&) {
    base::check(false, "what is served has a schema");
  }
  void note(const runs::RecordField& field, Json form);

  Json& schema_;
};
// All that answers have of such a record.
template <typename Record>
void add_record(Json* schema) {
  const Record absent{};
  SchemaWriter writer(*schema);
  fields(writer, absent);
}

}  // namespace regatta::orchestrator::api::forms
