// Reading connections that threads take turns with.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/store/database.h"
#include "orchestrator/store/run_totals.h"

namespace regatta::orchestrator::store {

// Thread-safe. Outlives its leases.
class ReaderPool {
 public:
  // Opens `count` connections to the file `path`; vfs: as Database has it.
  ReaderPool(const base::Path& path, int count, const std::string& vfs = {});

  // A connection that is this thread's until the lease ends.
  class Lease {
   public:
    Lease(ReaderPool* pool, Database* connection) : pool_(pool), connection_(connection) {}
    ~Lease() {
      if (pool_ != nullptr) pool_->give_back(connection_);
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Database* operator->() const { return connection_; }
    Database& operator*() const { return *connection_; }

   private:
    ReaderPool* pool_;  // null: somebody else gives it back
    Database* connection_;
  };
  // Waits for one; after kMostWait Code::Retry. A thread that has one and asks for another may wait
  // for itself.
  [[nodiscard]] Lease take();

  // What any of them has counted.
  [[nodiscard]] RunTotals& totals() { return totals_; }

  // Of all connections; while nobody reads.
  [[nodiscard]] std::vector<StatementFigures> figures();

 private:
  void give_back(Database* connection);

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Database>> connections_;
  std::vector<Database*> free_;
  RunTotals totals_;
};

}  // namespace regatta::orchestrator::store
