#include "orchestrator/runs/record_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace regatta::orchestrator::runs {
namespace {

using Json = nlohmann::ordered_json;

// In the order of Wanted; the others are the store's alone, until the controller did what they ask.
constexpr std::array kWanted{"run", "cancel", "observe"};

}  // namespace

void JsonWriter::operator()(const RecordField& field, bool value) {
  if (value || !field.may_be_absent) json_[std::string(field.name)] = value;
}
void JsonWriter::operator()(const RecordField& field, int value) {
  (*this)(field, std::int64_t{value});
}
void JsonWriter::operator()(const RecordField& field, std::int64_t value) {
  json_[std::string(field.name)] = value;
}
void JsonWriter::operator()(const RecordField& field, double value) {
  json_[std::string(field.name)] = value;
}
void JsonWriter::operator()(const RecordField& field, const std::string& value) {
  if (!value.empty() || !field.may_be_absent) json_[std::string(field.name)] = value;
}
void JsonWriter::operator()(const RecordField& field, const std::vector<std::string>& values) {
  if (!values.empty() || !field.may_be_absent) json_[std::string(field.name)] = values;
}
void JsonWriter::operator()(const RecordField& field, RunState value) {
  json_[std::string(field.name)] = name_of(value);
}
void JsonWriter::operator()(const RecordField& field, Wanted value) {
  base::check(value <= Wanted::Observe, "a run directory says what its run was submitted for");
  json_[std::string(field.name)] = kWanted.at(static_cast<std::size_t>(value));
}

bool JsonReader::has(const RecordField& field) const {
  const auto it = json_.find(std::string(field.name));
  return it != json_.end() && !it->is_null();
}

void JsonReader::note_fault(const RecordField& field) {
  if (fault_.empty()) fault_ = field.name;
}

template <typename Value>
void JsonReader::take(const RecordField& field, Value& value) {
  const auto it = json_.find(std::string(field.name));
  if (it == json_.end()) return;
  try {
    value = it->template get<Value>();
  } catch (const Json::exception&) {
    note_fault(field);
  }
}

void JsonReader::operator()(const RecordField& field, bool& value) { take(field, value); }
void JsonReader::operator()(const RecordField& field, int& value) { take(field, value); }
void JsonReader::operator()(const RecordField& field, std::int64_t& value) { take(field, value); }
void JsonReader::operator()(const RecordField& field, double& value) { take(field, value); }
void JsonReader::operator()(const RecordField& field, std::string& value) { take(field, value); }
void JsonReader::operator()(const RecordField& field, std::vector<std::string>& values) {
  take(field, values);
}
void JsonReader::operator()(const RecordField& field, RunState& value) {
  std::string word;
  take(field, word);
  const auto state = parse_run_state(word);
  if (!state) note_fault(field);
  value = state.value_or(value);
}
void JsonReader::operator()(const RecordField& field, Wanted& value) {
  std::string word;
  take(field, word);
  const auto* const found = std::find(kWanted.begin(), kWanted.end(), word);
  if (found != kWanted.end()) value = static_cast<Wanted>(found - kWanted.begin());
}

}  // namespace regatta::orchestrator::runs
