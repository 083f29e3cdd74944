// Statements and rows from lists of fields (runs/fields.h): no column is named or counted twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orchestrator/runs/fields.h"
#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/slurm/node_suspicion.h"
#include "orchestrator/store/database.h"

namespace regatta::orchestrator::store {

struct Column {
  std::string name;
  bool fixed = false;
};

// An archive that notes columns, in the order of the fields.
class ColumnList {
 public:
  template <typename Value>
  void operator()(const runs::RecordField& field, const Value&) {
    columns.push_back({std::string(field.name), field.is_fixed});
  }
  template <typename Record>
  void part(const Record& record) {
    fields(*this, record);
  }
  template <typename Record>
  void part(const std::optional<Record>&) {
    const Record absent{};
    fields(*this, absent);
  }

  std::vector<Column> columns;
};
template <typename Record>
const std::vector<Column>& columns_of() {
  static const std::vector<Column> columns = [] {
    ColumnList list;
    const Record record{};
    fields(list, record);
    return list.columns;
  }();
  return columns;
}
// The place of the first column behind the record's.
template <typename Record>
int end_of() {
  return static_cast<int>(columns_of<Record>().size());
}

// "table.a, table.b"; without: a column that is read as ''.
[[nodiscard]] std::string selection(const std::vector<Column>& columns, std::string_view table,
                                    std::string_view without = {});
// into: "INSERT INTO table". given: columns for ?1, ?2, …; the record's come after them. computed:
// columns, and what they are.
[[nodiscard]] std::string insertion(
    std::string_view into, const std::vector<std::string>& given,
    const std::vector<Column>& columns,
    const std::vector<std::pair<std::string, std::string>>& computed = {});
// "UPDATE table SET … WHERE key = ?1", of all columns that are not fixed.
[[nodiscard]] std::string change(std::string_view table, std::string_view key,
                                 const std::vector<Column>& columns);

// An insertion() of what is not fixed, which changes the row instead where there is one of the key.
[[nodiscard]] std::string insertion_or_change(std::string_view table, const std::string& key,
                                              const std::vector<Column>& columns);

// An archive that reads a row, from one column on.
class RowReader {
 public:
  explicit RowReader(const Statement& row, int column) : row_(row), column_(column) {}

  void operator()(const runs::RecordField& field, bool& value);
  void operator()(const runs::RecordField& field, int& value);
  void operator()(const runs::RecordField& field, std::int64_t& value);
  void operator()(const runs::RecordField& field, double& value);
  void operator()(const runs::RecordField& field, std::string& value);
  void operator()(const runs::RecordField& field, std::vector<std::string>& values);
  void operator()(const runs::RecordField& field, std::vector<double>& values);
  void operator()(const runs::RecordField& field, runs::Metrics& values);
  void operator()(const runs::RecordField& field, runs::RunNumber& value);
  void operator()(const runs::RecordField& field, runs::AttemptNumber& value);
  void operator()(const runs::RecordField& field, runs::RunState& value);
  void operator()(const runs::RecordField& field, runs::Wanted& value);
  void operator()(const runs::RecordField& field, slurm::Blame& value);
  template <typename Value>
  void operator()(const runs::RecordField& field, std::optional<Value>& value) {
    if (row_.is_null(column_)) {
      value.reset();
      ++column_;
    } else {
      (*this)(field, value.emplace());
    }
  }
  template <typename Record>
  void part(Record& record) {
    fields(*this, record);
  }
  // Absent where its first column is.
  template <typename Record>
  void part(std::optional<Record>& record) {
    if (row_.is_null(column_)) {
      record.reset();
      column_ += end_of<Record>();
    } else {
      fields(*this, record.emplace());
    }
  }

 private:
  const Statement& row_;
  int column_;
};
template <typename Record>
Record read_row(const Statement& row, int column = 0) {
  Record record;
  RowReader reader(row, column);
  fields(reader, record);
  return record;
}
// All rows that are left.
template <typename Record>
std::vector<Record> read_rows(Statement& statement) {
  return all<Record>(statement, [](const Statement& row) { return read_row<Record>(row); });
}

// An archive that binds ?index, ?index + 1, … Record and binder outlive the statement's last step.
class RowBinder {
 public:
  enum class Which { All, NotFixed };
  RowBinder(Statement& statement, int index, Which which)
      : statement_(statement), index_(index), which_(which) {}

  template <typename Value>
  void operator()(const runs::RecordField& field, const Value& value) {
    if (!takes(field.is_fixed)) return;
    bind(field, value);
    ++index_;
  }
  template <typename Record>
  void part(const Record& record) {
    fields(*this, record);
  }
  template <typename Record>
  void part(const std::optional<Record>& record) {
    if (record) return fields(*this, *record);
    for (const Column& column : columns_of<Record>()) {
      if (takes(column.fixed)) statement_.bind_at(index_++, std::optional<int>());
    }
  }

 private:
  [[nodiscard]] bool takes(bool fixed) const { return which_ == Which::All || !fixed; }
  template <typename Value>
  void bind(const runs::RecordField&, const Value& value) {
    statement_.bind_at(index_, value);
  }
  void bind(const runs::RecordField& field, const std::vector<std::string>& values);
  void bind(const runs::RecordField& field, const std::vector<double>& values);
  void bind(const runs::RecordField& field, const runs::Metrics& values);
  void bind(const runs::RecordField& field, const runs::RunNumber& value);
  void bind(const runs::RecordField& field, const runs::AttemptNumber& value);
  void bind(const runs::RecordField& field, const runs::RunState& value);
  void bind(const runs::RecordField& field, const runs::Wanted& value);
  void bind(const runs::RecordField& field, const slurm::Blame& value);

  Statement& statement_;
  int index_;
  Which which_;
  std::deque<std::string> texts_;
};

// insertion() or change() of the record; given: for ?1, ?2, …
template <typename Record, typename... Given>
void write_row(Database& database, const std::string& sql, RowBinder::Which which,
               const Record& record, const Given&... given) {
  Statement statement = database.prepare(sql);
  statement.bind(given...);
  RowBinder binder(statement, static_cast<int>(sizeof...(given)) + 1, which);
  fields(binder, record);
  statement.run();
}

}  // namespace regatta::orchestrator::store
