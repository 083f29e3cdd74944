#include "orchestrator/store/integrity.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "orchestrator/store/migration.h"

namespace regatta::orchestrator::store {
namespace {

constexpr std::chrono::milliseconds kAskAgain{2};  // whether an interrupted look has ended

}  // namespace

std::vector<std::string> tables_of(Database& database) {
  Statement ask = database.prepare(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
      "ESCAPE '\\' ORDER BY name");
  return all<std::string>(ask, [](const Statement& row) { return row.text(0); });
}

std::string damage_of(Database& database, Thoroughness how, const std::string& table) {
  const std::string of = table.empty() ? "(1)" : "('" + table + "')";
  Statement ask = database.prepare(
      (how == Thoroughness::Quick ? "PRAGMA quick_check" : "PRAGMA integrity_check") + of);
  if (!ask.step()) return "it cannot be checked";
  // "ok", or its findings, of which the first lines are joined below a heading.
  std::string first = ask.text(0);
  if (first == "ok") return "";
  if (first.rfind("***", 0) == 0) first.erase(0, first.find('\n') + 1);
  return base::printable(first.substr(0, first.find('\n')));
}

IntegrityCheck::IntegrityCheck(const base::Path& file)
    : database_(file, Database::Access::ReadOnly),
      thread_([this](const std::stop_token& stop) { look(stop); }) {}

IntegrityCheck::~IntegrityCheck() {
  thread_.request_stop();
  for (bool ended = false; !ended; std::this_thread::sleep_for(kAskAgain)) {
    database_.interrupt();  // counts only for a statement that has begun
    const std::scoped_lock lock(mutex_);
    ended = ended_;
  }
}

IntegrityCheck::Result IntegrityCheck::result() const {
  const std::scoped_lock lock(mutex_);
  return result_;
}

void IntegrityCheck::note(Result result) {
  const std::scoped_lock lock(mutex_);
  result_ = std::move(result);
}

void IntegrityCheck::look(const std::stop_token& stop) {
  Result found{true, {}, {}};
  try {
    for (const std::string& table : tables_of(database_)) {
      if (stop.stop_requested() || !found.damage.empty()) break;
      const std::string damage = damage_of(database_, Thoroughness::Quick, table);
      if (!damage.empty()) {
        found.damage =
            "the store is damaged (table " + table + ": " + damage + "); " + kDamageRemedy;
      }
    }
  } catch (const Damaged& error) {
    found.damage = error.what();
  } catch (const base::Error& error) {  // a disk that fails, or a lock, says nothing of the pages
    found.unchecked = std::string("the pages of the store were not checked: ") + error.what();
  }
  if (!stop.stop_requested()) {
    if (!found.damage.empty()) base::log(base::LogLevel::Error, found.damage);
    if (!found.unchecked.empty()) base::log(base::LogLevel::Warning, found.unchecked);
    note(std::move(found));
  }
  const std::scoped_lock lock(mutex_);
  ended_ = true;
}

}  // namespace regatta::orchestrator::store
