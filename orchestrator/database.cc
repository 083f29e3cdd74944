#include "orchestrator/database.h"

#include <sqlite3.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator {
namespace {

constexpr int kBusyMilliseconds = 5000;

[[noreturn]] void fail(sqlite3* connection, int status, const std::string& what) {
  const std::string reason =
      connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(status);
  switch (status & 0xFF) {
    case SQLITE_FULL:
      throw base::Error(base::Code::Operator,
                        what + ": the disk is full; free some space and try again");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw base::Error(base::Code::Retry, what + ": the store is busy; try again");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw base::Error(base::Code::Operator,
                        what + ": the store is damaged (" + reason +
                            "); move it away, and it is rebuilt from the run directories");
    default:
      throw base::Error(base::Code::Operator, what + ": " + base::printable(reason));
  }
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement::Statement(sqlite3* connection, std::string_view sql) : connection_(connection) {
  sqlite3_stmt* statement = nullptr;
  const int status =
      sqlite3_prepare_v2(connection, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  statement_.reset(statement);
  if (status != SQLITE_OK) fail(connection, status, "cannot ask the store");
}

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
void Statement::bind_null(int index) {
  base::check(sqlite3_bind_null(statement_.get(), index) == SQLITE_OK,
              "a statement is bound to as many values as it has parameters");
}

bool Statement::step() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_ROW) return true;
  sqlite3_reset(statement_.get());
  if (status != SQLITE_DONE) fail(connection_, status, "cannot use the store");
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
std::optional<double> Statement::optional_number(int column) const {
  if (is_null(column)) return std::nullopt;
  return sqlite3_column_double(statement_.get(), column);
}
std::optional<std::int64_t> Statement::optional_integer(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}
std::string Statement::text(int column) const {
  const unsigned char* const bytes = sqlite3_column_text(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

void Database::Close::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }

Database::Database(const base::Path& path, Access access) {
  sqlite3* connection = nullptr;
  const int flags = access == Access::ReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                                : SQLITE_OPEN_READONLY;
  const int status =
      sqlite3_open_v2(path.c_str(), &connection, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  connection_.reset(connection);
  if (status != SQLITE_OK) fail(connection, status, "cannot open the store " + path.string());
  sqlite3_extended_result_codes(connection, 1);
  sqlite3_busy_timeout(connection, kBusyMilliseconds);
  if (access == Access::ReadWrite) {
    execute("PRAGMA journal_mode = WAL");
    execute("PRAGMA synchronous = NORMAL");
  }
}

void Database::execute(const std::string& sql) {
  const int status = sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) fail(connection_.get(), status, "cannot use the store");
}

std::int64_t Database::changes() const { return sqlite3_changes(connection_.get()); }
std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(connection_.get()); }

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}
Transaction::~Transaction() {
  if (done_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const base::Error&) {  // SQLite has already rolled back (disk full, I/O error)
  }
}
void Transaction::commit() {
  database_.execute("COMMIT");
  done_ = true;
}

std::optional<std::string> network_file_system_name(std::uint64_t type) {
  // statfs(2); Lustre, GPFS and BeeGFS from their own sources.
  switch (type & 0xFFFFFFFFU) {
    case 0x6969:
      return "NFS";
    case 0x517B:
    case 0xFF534D42:
    case 0xFE534D42:
      return "SMB/CIFS";
    case 0x0BD00BD0:
    case 0x0BD00BD1:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x19830326:
      return "BeeGFS";
    case 0x00C36400:
      return "Ceph";
    case 0x5346414F:
      return "AFS";
    case 0x01021997:
      return "9P";
    default:
      return std::nullopt;
  }
}

void refuse_network_file_system(const base::Path& directory, const std::string& what) {
  struct statfs status {};
  if (::statfs(directory.c_str(), &status) != 0) {
    base::throw_errno(errno, "cannot look at the file system of " + directory.string());
  }
  if (const auto name = network_file_system_name(static_cast<std::uint64_t>(status.f_type))) {
    throw base::Error(
        base::Code::Operator,
        what + " cannot be on a network file system: " + base::printable(directory.string()) +
            " is on " + *name + "; name a local path, for example --data /var/tmp/regatta");
  }
}

}  // namespace regatta::orchestrator
