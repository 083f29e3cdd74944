#include "orchestrator/api/answer_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }
Json numbers(const runs::Metrics& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = number(value);
  return json;
}
Json moment(const std::optional<double>& utc) {
  return utc && *utc > 0 ? Json(base::iso8601(*utc)) : Json(nullptr);
}
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json& AnswerWriter::at(const runs::RecordField& field) { return json_[std::string(field.key)]; }

void AnswerWriter::write(const runs::RecordField& field, bool value) { at(field) = value; }
void AnswerWriter::write(const runs::RecordField& field, std::int64_t value) { at(field) = value; }
void AnswerWriter::write(const runs::RecordField& field, const std::optional<double>& value) {
  at(field) = field.is_moment ? moment(value) : number(value);
}
void AnswerWriter::write(const runs::RecordField& field, const std::string& value) {
  at(field) = field.empty_is_null ? text_or_null(value) : Json(value);
}
void AnswerWriter::write(const runs::RecordField& field, const std::vector<std::string>& values) {
  at(field) = values;
}
void AnswerWriter::write(const runs::RecordField& field, const runs::Metrics& values) {
  at(field) = numbers(values);
}
void AnswerWriter::write(const runs::RecordField& field, runs::RunState value) {
  at(field) = runs::name_of(value);
}
void AnswerWriter::write(const runs::RecordField& field, const std::optional<int>& value) {
  at(field) = value ? Json(*value) : Json(nullptr);
}
void AnswerWriter::write(const runs::RecordField& field, const std::optional<std::int64_t>& value) {
  at(field) = value ? Json(*value) : Json(nullptr);
}
void AnswerWriter::write(const runs::RecordField& field, const std::optional<slurm::Gpus>& value) {
  if (!value) {
    at(field) = nullptr;
    return;
  }
  Json types = Json::object();
  for (const auto& [type, count] : value->by_type) types[type] = count;
  at(field) = {{"count", value->count}, {"types", std::move(types)}};
}

}  // namespace regatta::orchestrator::api
