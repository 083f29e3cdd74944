// Commits that a loss of power does not take.
#pragma once

#include "orchestrator/store/database.h"

namespace regatta::orchestrator::store {

// What is committed while one lives is on the disk before the next step is taken: somebody was told
// of it, or a job is started because of it. The rest is read again from the run directories, so a
// loss of power may take it. Not within a transaction.
class OnDisk {
 public:
  explicit OnDisk(Database& database);
  ~OnDisk();
  OnDisk(const OnDisk&) = delete;
  OnDisk& operator=(const OnDisk&) = delete;

 private:
  Database& database_;
};

}  // namespace regatta::orchestrator::store
