#include "orchestrator/store/rows.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::store {

std::string selection(const std::vector<Column>& columns, std::string_view table,
                      std::string_view without) {
  std::vector<std::string> names;
  for (const Column& column : columns) {
    names.push_back(column.name == without ? "''" : std::string(table) + "." + column.name);
  }
  return base::join(names, ", ");
}

std::string insertion(std::string_view into, const std::vector<std::string>& given,
                      const std::vector<Column>& columns,
                      const std::vector<std::pair<std::string, std::string>>& computed) {
  std::vector<std::string> names = given;
  for (const Column& column : columns) names.push_back(column.name);
  std::vector<std::string> values;
  for (std::size_t i = 1; i <= names.size(); ++i) values.push_back("?" + std::to_string(i));
  for (const auto& [name, value] : computed) {
    names.push_back(name);
    values.push_back(value);
  }
  return std::string(into) + "(" + base::join(names, ", ") + ") VALUES(" +
         base::join(values, ", ") + ")";
}

std::string change(std::string_view table, std::string_view key,
                   const std::vector<Column>& columns) {
  std::vector<std::string> settings;
  for (const Column& column : columns) {
    if (column.fixed) continue;
    settings.push_back(column.name + " = ?" + std::to_string(settings.size() + 2));
  }
  return "UPDATE " + std::string(table) + " SET " + base::join(settings, ", ") + " WHERE " +
         std::string(key) + " = ?1";
}

std::string insertion_or_change(std::string_view table, const std::string& key,
                                const std::vector<Column>& columns) {
  std::vector<Column> changing;
  std::vector<std::string> settings;
  for (const Column& column : columns) {
    if (column.fixed) continue;
    changing.push_back(column);
    settings.push_back(column.name + " = excluded." + column.name);
  }
  return insertion("INSERT INTO " + std::string(table), {key}, changing) + " ON CONFLICT(" + key +
         ") DO UPDATE SET " + base::join(settings, ", ");
}

void RowReader::operator()(const runs::RecordField&, bool& value) {
  value = row_.integer(column_++) != 0;
}
void RowReader::operator()(const runs::RecordField&, int& value) {
  value = static_cast<int>(row_.integer(column_++));
}
void RowReader::operator()(const runs::RecordField&, std::int64_t& value) {
  value = row_.integer(column_++);
}
void RowReader::operator()(const runs::RecordField&, double& value) {
  value = row_.number(column_++);
}
void RowReader::operator()(const runs::RecordField&, std::string& value) {
  value = row_.text(column_++);
}
void RowReader::operator()(const runs::RecordField& field, std::vector<std::string>& values) {
  std::string text = row_.text(column_++);
  values.clear();
  if (text.empty()) return;
  if (field.is_terminated) text.pop_back();
  values = base::split(text, field.separator);
}
// As JSON text; what is no number in it reads as NaN.
void RowReader::operator()(const runs::RecordField&, std::vector<double>& values) {
  const nlohmann::json json = base::parse_json<nlohmann::json>(row_.text(column_++));
  values.clear();
  if (!json.is_array()) return;
  for (const auto& element : json) {
    values.push_back(element.is_number() ? element.get<double>()
                                         : std::numeric_limits<double>::quiet_NaN());
  }
}
// As JSON text, too.
void RowReader::operator()(const runs::RecordField&, runs::Metrics& values) {
  const nlohmann::json json = base::parse_json<nlohmann::json>(row_.text(column_++));
  values.clear();
  if (!json.is_object()) return;
  for (const auto& [name, value] : json.items()) {
    values[name] =
        value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  }
}
void RowReader::operator()(const runs::RecordField&, runs::RunNumber& value) {
  value = runs::RunNumber{row_.integer(column_++)};
}
void RowReader::operator()(const runs::RecordField&, runs::AttemptNumber& value) {
  value = runs::AttemptNumber{row_.integer(column_++)};
}
void RowReader::operator()(const runs::RecordField&, runs::RunState& value) {
  value = runs::parse_run_state(row_.text(column_++)).value_or(runs::RunState::Failed);
}
void RowReader::operator()(const runs::RecordField&, runs::Wanted& value) {
  value = static_cast<runs::Wanted>(row_.integer(column_++));
}
void RowReader::operator()(const runs::RecordField&, slurm::Blame& value) {
  value = slurm::parse_blame(row_.text(column_++)).value_or(slurm::Blame::Shared);
}

void RowBinder::bind(const runs::RecordField& field, const std::vector<std::string>& values) {
  std::string& text = texts_.emplace_back(base::join(values, std::string(1, field.separator)));
  if (field.is_terminated && !values.empty()) text += field.separator;
  statement_.bind_at(index_, text);
}
void RowBinder::bind(const runs::RecordField&, const std::vector<double>& values) {
  statement_.bind_at(index_, texts_.emplace_back(base::json_text(nlohmann::json(values))));
}
void RowBinder::bind(const runs::RecordField&, const runs::Metrics& values) {
  statement_.bind_at(index_, texts_.emplace_back(base::json_text(nlohmann::json(values))));
}
void RowBinder::bind(const runs::RecordField&, const runs::RunNumber& value) {
  statement_.bind_at(index_, runs::row_of(value));
}
void RowBinder::bind(const runs::RecordField&, const runs::AttemptNumber& value) {
  statement_.bind_at(index_, runs::row_of(value));
}
void RowBinder::bind(const runs::RecordField&, const runs::RunState& value) {
  statement_.bind_at(index_, runs::name_of(value));
}
void RowBinder::bind(const runs::RecordField&, const runs::Wanted& value) {
  statement_.bind_at(index_, static_cast<int>(value));
}
void RowBinder::bind(const runs::RecordField&, const slurm::Blame& value) {
  statement_.bind_at(index_, slurm::to_string(value));  // of static words
}

}  // namespace regatta::orchestrator::store
