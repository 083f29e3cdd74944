// Records as the JSON of files, by the names of their fields (fields.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/runs/fields.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::runs {

// An archive that writes. The JSON outlives it.
class JsonWriter {
 public:
  explicit JsonWriter(nlohmann::ordered_json& json) : json_(json) {}

  void operator()(const RecordField& field, bool value);
  void operator()(const RecordField& field, int value);
  void operator()(const RecordField& field, std::int64_t value);
  void operator()(const RecordField& field, double value);
  void operator()(const RecordField& field, const std::string& value);
  void operator()(const RecordField& field, const std::vector<std::string>& values);
  void operator()(const RecordField& field, RunState value);
  void operator()(const RecordField& field, Wanted value);
  template <typename Value>
  void operator()(const RecordField& field, const std::optional<Value>& value) {
    if (value) (*this)(field, *value);
  }

 private:
  nlohmann::ordered_json& json_;
};

// An archive that reads. What is not there stays as it is, but for a state, which has to be.
class JsonReader {
 public:
  explicit JsonReader(const nlohmann::ordered_json& json) : json_(json) {}

  // The first field that is of another type; empty: none is.
  [[nodiscard]] const std::string& fault() const { return fault_; }

  void operator()(const RecordField& field, bool& value);
  void operator()(const RecordField& field, int& value);
  void operator()(const RecordField& field, std::int64_t& value);
  void operator()(const RecordField& field, double& value);
  void operator()(const RecordField& field, std::string& value);
  void operator()(const RecordField& field, std::vector<std::string>& values);
  void operator()(const RecordField& field, RunState& value);
  void operator()(const RecordField& field, Wanted& value);
  template <typename Value>
  void operator()(const RecordField& field, std::optional<Value>& value) {
    if (!has(field)) return;
    (*this)(field, value.emplace());
  }

 private:
  [[nodiscard]] bool has(const RecordField& field) const;
  template <typename Value>
  void take(const RecordField& field, Value& value);
  void note_fault(const RecordField& field);

  const nlohmann::ordered_json& json_;
  std::string fault_;
};

template <typename Record>
void write_fields(const Record& record, nlohmann::ordered_json* json) {
  JsonWriter writer(*json);
  fields(writer, record);
}
// Nothing when it is damaged; `fault` then gets the field.
template <typename Record>
std::optional<Record> read_fields(const nlohmann::ordered_json& json,
                                  std::string* fault = nullptr) {
  Record record;
  JsonReader reader(json);
  fields(reader, record);
  if (reader.fault().empty()) return record;
  if (fault != nullptr) *fault = reader.fault();
  return std::nullopt;
}

}  // namespace regatta::orchestrator::runs
