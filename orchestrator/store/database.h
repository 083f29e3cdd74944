// A thin layer over SQLite: connections and statements that clean up after themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"

struct sqlite3;
struct sqlite3_stmt;

namespace regatta::orchestrator::store {

class StatementCache;

// A full disk: Code::Operator, too, but one that room mends.
class DiskFull : public base::Error {
 public:
  using base::Error::Error;
};

// What the file holds is no database, or not any more: Code::Operator.
class Damaged : public base::Error {
 public:
  Damaged(const std::string& message, std::string reason)
      : base::Error(base::Code::Operator, message), reason_(std::move(reason)) {}
  [[nodiscard]] const std::string& reason() const { return reason_; }  // SQLite's words

 private:
  std::string reason_;
};

// Bound as a BLOB.
struct Bytes {
  std::string_view of;
};

// One prepared statement, for one use: it goes back to its connection, reset, when it is destroyed,
// which it must be before the connection is. Text and bytes that are bound must outlive its last
// step().
class Statement {
 public:
  Statement(StatementCache& cache, std::string_view sql);

  // Binds ?1, ?2, … in order. NaN and an empty optional become NULL.
  template <typename... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }
  template <typename Value>
  void bind_at(int index, const Value& value) {
    bind_one(index, value);
  }
  // True while there is a row. After the last row the statement can be bound and stepped again.
  bool step();
  // Steps to the end, for statements without rows; ready to be bound again.
  void run();

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double number(int column) const;  // NULL is NaN
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::string_view bytes(int column) const;  // until the next step

 private:
  void bind_one(int index, std::int64_t value);
  void bind_one(int index, int value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, bool value) { bind_one(index, std::int64_t{value}); }
  void bind_one(int index, double value);
  void bind_one(int index, std::string_view value);
  void bind_one(int index, Bytes value);
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

  struct GiveBack {
    void operator()(sqlite3_stmt* statement) const;
    StatementCache* cache;
  };
  sqlite3* connection_;
  std::unique_ptr<sqlite3_stmt, GiveBack> statement_;
};

// What `read` makes of each row that is left.
template <typename Row, typename Read>
std::vector<Row> all(Statement& statement, Read read) {
  std::vector<Row> rows;
  while (statement.step()) rows.push_back(read(statement));
  return rows;
}

// What a kept statement has done so far, all uses together.
struct StatementFigures {
  std::string sql;
  std::int64_t scanned = 0;  // rows stepped over in scans without any constraint
  std::int64_t sorts = 0;
  std::int64_t steps = 0;  // of SQLite's machine
};

// The statements of a connection that are not in use, least recently used first.
class StatementCache {
 public:
  explicit StatementCache(sqlite3* connection) : connection_(connection) { kept_.reserve(kMost); }
  ~StatementCache();
  StatementCache(const StatementCache&) = delete;
  StatementCache& operator=(const StatementCache&) = delete;

  [[nodiscard]] sqlite3* connection() const { return connection_; }
  // Kept, or prepared now.
  [[nodiscard]] sqlite3_stmt* take(std::string_view sql);
  void give_back(sqlite3_stmt* statement);
  [[nodiscard]] std::vector<StatementFigures> figures() const;
  // Is called with what was wrong where the disk, and not the statement, made one fail.
  std::function<void(const std::string&)> on_disk_failure;

 private:
  // More than the store has texts.
  static constexpr std::size_t kMost = 80;

  sqlite3* connection_;
  std::vector<sqlite3_stmt*> kept_;
};

// One connection. Not thread-safe: its owner locks.
class Database {
 public:
  enum class Access { ReadWrite, ReadOnly };
  static constexpr int kBusyMilliseconds = 5000;    // that a statement waits for another connection
  static constexpr int kReadersMilliseconds = 200;  // that a fold of the log waits for one

  // ReadWrite creates the file when absent (its folder is 0700). vfs: the name of the SQLite VFS
  // that has the file; empty: the operating system's. Every error is a base::Error; a full disk
  // says so.
  Database(const base::Path& path, Access access, const std::string& vfs = {});

  // StatementCache::on_disk_failure.
  void on_disk_failure(std::function<void(const std::string&)> told);
  // What is committed is on the disk, also what a process that was killed had committed, of which
  // the system knows and the disk may not. For a connection that has begun a transaction before:
  // the others do not know the log.
  void sync_log();
  void execute(const std::string& sql);
  [[nodiscard]] Statement prepare(std::string_view sql) { return {*cache_, sql}; }
  // Ends the statement that another thread steps now, with an error.
  void interrupt();
  // Rows that the last statement inserted, changed or deleted.
  [[nodiscard]] std::int64_t changes() const;
  [[nodiscard]] std::int64_t last_row() const;
  // Of the statements that are kept.
  [[nodiscard]] std::vector<StatementFigures> figures() const { return cache_->figures(); }

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  std::unique_ptr<sqlite3, Close> connection_;
  std::unique_ptr<StatementCache> cache_;  // in a place of its own: statements point to it
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

}  // namespace regatta::orchestrator::store
