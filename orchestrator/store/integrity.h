// Whether the pages of a store are sound.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/store/database.h"

namespace regatta::orchestrator::store {

enum class Thoroughness { Quick, Whole };  // PRAGMA quick_check or integrity_check
// What is wrong with the pages of one table and its indexes, or of all; empty: nothing.
[[nodiscard]] std::string damage_of(Database& database, Thoroughness how,
                                    const std::string& table = {});
[[nodiscard]] std::vector<std::string> tables_of(Database& database);

// Looks at one table after the other, in a thread and over a connection of its own, and never twice
// in one transaction: the log of writes goes on being folded in between. What it finds is logged.
class IntegrityCheck {
 public:
  // file: a store that is open.
  explicit IntegrityCheck(const base::Path& file);
  // Ends the look, whatever is left of it.
  ~IntegrityCheck();
  IntegrityCheck(const IntegrityCheck&) = delete;
  IntegrityCheck& operator=(const IntegrityCheck&) = delete;

  struct Result {
    bool done = false;
    std::string damage;     // what is wrong and what to do; empty: nothing so far
    std::string unchecked;  // why it could not look at all of them; empty: it could
  };
  [[nodiscard]] Result result() const;

 private:
  void look(const std::stop_token& stop);
  void note(Result result);

  Database database_;
  mutable std::mutex mutex_;
  Result result_;
  bool ended_ = false;
  std::jthread thread_;
};

}  // namespace regatta::orchestrator::store
