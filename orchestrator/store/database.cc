#include "orchestrator/store/database.h"

#include <sqlite3.h>

#include <cerrno>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/store/migration.h"

namespace regatta::orchestrator::store {
namespace {

[[noreturn]] void fail(sqlite3* connection, int status, const std::string& what,
                       const StatementCache* cache) {
  const auto tell = [&](const std::string& text) {
    if (cache != nullptr && cache->on_disk_failure) cache->on_disk_failure(text);
  };
  const std::string reason =
      connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(status);
  const int system = connection != nullptr ? sqlite3_system_errno(connection) : 0;
  const bool io = (status & 0xFF) == SQLITE_IOERR || (status & 0xFF) == SQLITE_CANTOPEN;
  if ((status & 0xFF) == SQLITE_FULL || (io && (system == ENOSPC || system == EDQUOT))) {
    tell("its disk is full; free some space");
    throw DiskFull(base::Code::Operator,
                   what + ": the disk is full; free some space and try again");
  }
  switch (status & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw base::Error(base::Code::Retry, what + ": the store is busy; try again");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Damaged(what + ": the store is damaged (" + reason + "); " + kDamageRemedy, reason);
    default:
      if (io || (status & 0xFF) == SQLITE_READONLY) tell(base::printable(reason));
      throw base::Error(base::Code::Operator, what + ": " + base::printable(reason));
  }
}

}  // namespace

StatementCache::~StatementCache() {
  for (sqlite3_stmt* statement : kept_) sqlite3_finalize(statement);
}

sqlite3_stmt* StatementCache::take(std::string_view sql) {
  for (auto it = kept_.rbegin(); it != kept_.rend(); ++it) {
    if (sqlite3_sql(*it) != sql) continue;
    sqlite3_stmt* const statement = *it;
    kept_.erase(std::next(it).base());
    return statement;
  }
  sqlite3_stmt* statement = nullptr;
  const int status = sqlite3_prepare_v3(connection_, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (status != SQLITE_OK) fail(connection_, status, "cannot ask the store", this);
  return statement;
}

void StatementCache::give_back(sqlite3_stmt* statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  if (kept_.size() == kMost) {
    sqlite3_finalize(kept_.front());
    kept_.erase(kept_.begin());
  }
  kept_.push_back(statement);  // there is room, so this does not throw
}

std::vector<StatementFigures> StatementCache::figures() const {
  std::vector<StatementFigures> figures;
  for (sqlite3_stmt* statement : kept_) {
    figures.push_back({sqlite3_sql(statement),
                       sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_FULLSCAN_STEP, 0),
                       sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_SORT, 0),
                       sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 0)});
  }
  return figures;
}

void Statement::GiveBack::operator()(sqlite3_stmt* statement) const { cache->give_back(statement); }

Statement::Statement(StatementCache& cache, std::string_view sql)
    : connection_(cache.connection()), statement_(cache.take(sql), GiveBack{&cache}) {}

void Statement::bind_one(int index, std::int64_t value) {
  base::check(sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK,
              "a statement is bound to as many values as it has parameters");
}
void Statement::bind_one(int index, double value) {
  if (std::isnan(value)) return bind_null(index);
  base::check(sqlite3_bind_double(statement_.get(), index, value) == SQLITE_OK,
              "a statement is bound to as many values as it has parameters");
}
void Statement::bind_one(int index, std::string_view value) {
  const char* const bytes = value.data() != nullptr ? value.data() : "";
  base::check(sqlite3_bind_text(statement_.get(), index, bytes, static_cast<int>(value.size()),
                                SQLITE_STATIC) == SQLITE_OK,
              "a statement is bound to as many values as it has parameters");
}
void Statement::bind_one(int index, Bytes value) {
  base::check(sqlite3_bind_blob(statement_.get(), index, value.of.data(),
                                static_cast<int>(value.of.size()), SQLITE_STATIC) == SQLITE_OK,
              "a statement is bound to as many values as it has parameters");
}
void Statement::bind_null(int index) {
  base::check(sqlite3_bind_null(statement_.get(), index) == SQLITE_OK,
              "a statement is bound to as many values as it has parameters");
}

bool Statement::step() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_ROW) return true;
  sqlite3_reset(statement_.get());
  if (status != SQLITE_DONE) {
    fail(connection_, status, "cannot use the store", statement_.get_deleter().cache);
  }
  return false;
}

void Statement::run() {
  while (step()) {
  }
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}
std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
double Statement::number(int column) const {
  if (is_null(column)) return std::numeric_limits<double>::quiet_NaN();
  return sqlite3_column_double(statement_.get(), column);
}
std::string Statement::text(int column) const {
  const unsigned char* const bytes = sqlite3_column_text(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::string_view Statement::bytes(int column) const {
  const void* const bytes = sqlite3_column_blob(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

void Database::Close::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }

Database::Database(const base::Path& path, Access access, const std::string& vfs) {
  sqlite3* connection = nullptr;
  const int flags = access == Access::ReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                                : SQLITE_OPEN_READONLY;
  const int status = sqlite3_open_v2(path.c_str(), &connection, flags | SQLITE_OPEN_NOMUTEX,
                                     vfs.empty() ? nullptr : vfs.c_str());
  connection_.reset(connection);
  if (status != SQLITE_OK) {
    fail(connection, status, "cannot open the store " + path.string(), nullptr);
  }
  cache_ = std::make_unique<StatementCache>(connection);
  sqlite3_extended_result_codes(connection, 1);
  sqlite3_busy_timeout(connection, kBusyMilliseconds);
  if (access == Access::ReadWrite) {
    execute("PRAGMA journal_mode = WAL");
    execute("PRAGMA synchronous = NORMAL");
  }
}

void Database::execute(const std::string& sql) {
  const int status = sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) {
    fail(connection_.get(), status, "cannot use the store", cache_.get());
  }
}

void Database::on_disk_failure(std::function<void(const std::string&)> told) {
  cache_->on_disk_failure = std::move(told);
}

void Database::sync_log() {
  sqlite3_file* log = nullptr;
  sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log == nullptr || log->pMethods == nullptr) return;  // there is none
  const int status = log->pMethods->xSync(log, SQLITE_SYNC_FULL);
  if (status == SQLITE_OK) return;
  const std::string file = sqlite3_db_filename(connection_.get(), "main");
  throw base::Error(base::Code::Operator, "cannot put the log of writes, " + base::printable(file) +
                                              "-wal, on the disk: " + sqlite3_errstr(status) +
                                              "; look at that disk, and start again");
}

void Database::interrupt() { sqlite3_interrupt(connection_.get()); }
std::int64_t Database::changes() const { return sqlite3_changes(connection_.get()); }
std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(connection_.get()); }

Transaction::Transaction(Database& database) : database_(database) {
  database_.prepare("BEGIN IMMEDIATE").run();
}
Transaction::~Transaction() {
  if (done_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const base::Error&) {  // SQLite has already rolled back (disk full, I/O error)
  }
}
void Transaction::commit() {
  database_.prepare("COMMIT").run();
  done_ = true;
}

}  // namespace regatta::orchestrator::store
