// Records as the API answers them: what their lists of fields (runs/fields.h) serve.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "orchestrator/runs/fields.h"
#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::api {

// null where there is none, or no finite one.
[[nodiscard]] nlohmann::ordered_json number(double value);
[[nodiscard]] nlohmann::ordered_json number(const std::optional<double>& value);
[[nodiscard]] nlohmann::ordered_json numbers(const runs::Metrics& values);  // by name
// Seconds since 1970 as ISO 8601; null where they are not known, or not positive.
[[nodiscard]] nlohmann::ordered_json moment(const std::optional<double>& utc);
[[nodiscard]] nlohmann::ordered_json text_or_null(const std::string& text);

// Keys of an answer, for one that has no others.
class ChosenKeys {
 public:
  ChosenKeys(std::initializer_list<std::string_view> keys) : in_order_(keys), sorted_(keys) {
    std::sort(sorted_.begin(), sorted_.end());
  }
  [[nodiscard]] bool have(std::string_view key) const {
    return std::binary_search(sorted_.begin(), sorted_.end(), key);
  }
  [[nodiscard]] const std::vector<std::string_view>& in_order() const { return in_order_; }

 private:
  std::vector<std::string_view> in_order_, sorted_;
};

// An archive that writes an answer. Parts of the record are for whoever shows them.
class AnswerWriter {
 public:
  // chosen: only these keys; null: all.
  explicit AnswerWriter(nlohmann::ordered_json& json, const ChosenKeys* chosen = nullptr)
      : json_(json), chosen_(chosen) {}

  template <typename Value>
  void operator()(const runs::RecordField& field, const Value& value) {
    if (field.key.empty() || (chosen_ != nullptr && !chosen_->have(field.key))) return;
    write(field, value);
  }
  template <typename Record>
  void part(const Record&) {}

 private:
  void write(const runs::RecordField& field, bool value);
  void write(const runs::RecordField& field, std::int64_t value);
  void write(const runs::RecordField& field, int value) { write(field, std::int64_t{value}); }
  void write(const runs::RecordField& field, double value) { write(field, std::optional(value)); }
  void write(const runs::RecordField& field, const std::optional<double>& value);
  void write(const runs::RecordField& field, const std::string& value);
  void write(const runs::RecordField& field, const std::vector<std::string>& values);
  void write(const runs::RecordField& field, const runs::Metrics& values);
  void write(const runs::RecordField& field, runs::RunState value);
  void write(const runs::RecordField& field, const std::optional<int>& value);
  void write(const runs::RecordField& field, const std::optional<std::int64_t>& value);
  void write(const runs::RecordField& field, const std::optional<slurm::Gpus>& value);
  [[nodiscard]] nlohmann::ordered_json& at(const runs::RecordField& field);
  template <typename Value>
  void write(const runs::RecordField&, const Value&) {
    base::check(false, "what is served has a form in answers");
  }

  nlohmann::ordered_json& json_;
  const ChosenKeys* chosen_;
};
template <typename Record>
void add_fields(const Record& record, nlohmann::ordered_json* json,
                const ChosenKeys* chosen = nullptr) {
  AnswerWriter writer(*json, chosen);
  fields(writer, record);
}

}  // namespace regatta::orchestrator::api
