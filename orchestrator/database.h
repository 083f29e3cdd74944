// A thin layer over SQLite: connections and statements that clean up after themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

struct sqlite3;
struct sqlite3_stmt;

namespace regatta::orchestrator {

// One prepared statement. Text that is bound must outlive the statement's last step().
class Statement {
 public:
  Statement(sqlite3* connection, std::string_view sql);

  // Binds ?1, ?2, … in order. NaN and an empty optional become NULL.
  template <typename... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }
  // True while there is a row. After the last row the statement can be bound and stepped again.
  bool step();
  // Steps to the end, for statements without rows; ready to be bound again.
  void run();

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double number(int column) const;  // NULL is NaN
  [[nodiscard]] std::optional<double> optional_number(int column) const;
  [[nodiscard]] std::optional<std::int64_t> optional_integer(int column) const;
  [[nodiscard]] std::string text(int column) const;

 private:
  void bind_one(int index, std::int64_t value);
  void bind_one(int index, int value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, bool value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, double value);
  void bind_one(int index, std::string_view value);
  void bind_one(int index, const std::string& value) { bind_one(index, std::string_view(value)); }
  void bind_one(int index, const char* value) { bind_one(index, std::string_view(value)); }
  void bind_null(int index);
  template <typename Value>
  void bind_one(int index, const std::optional<Value>& value) {
    if (value) {
      bind_one(index, *value);
    } else {
      bind_null(index);
    }
  }

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  sqlite3* connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// What `read` makes of each row that is left.
template <typename Row, typename Read>
std::vector<Row> all(Statement& statement, Read read) {
  std::vector<Row> rows;
  while (statement.step()) rows.push_back(read(statement));
  return rows;
}

// One connection. Not thread-safe: its owner locks.
class Database {
 public:
  enum class Access { ReadWrite, ReadOnly };

  // ReadWrite creates the file when absent (its folder is 0700). Every error is a base::Error; a
  // full disk says so.
  Database(const base::Path& path, Access access);

  void execute(const std::string& sql);
  [[nodiscard]] Statement prepare(std::string_view sql) { return {connection_.get(), sql}; }
  // Rows that the last statement inserted, changed or deleted.
  [[nodiscard]] std::int64_t changes() const;
  [[nodiscard]] std::int64_t last_row() const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  std::unique_ptr<sqlite3, Close> connection_;
};

// Rolls back unless commit() was called.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool done_ = false;
};

// Throws Code::Operator when `directory` lies on a network file system, where SQLite's locks and
// WAL are not safe; `what` names the thing and the option that moves it.
void refuse_network_file_system(const base::Path& directory, const std::string& what);
// The part of it that tests can reach: the name of a network file system by statfs's f_type.
[[nodiscard]] std::optional<std::string> network_file_system_name(std::uint64_t type);

}  // namespace regatta::orchestrator
