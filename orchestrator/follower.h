// Reads the journals of a run's attempts into the store.
#pragma once

#include "base/file_system.h"
#include "orchestrator/run.h"
#include "orchestrator/store.h"

namespace regatta::orchestrator {

struct Followed {
  bool read_any = false;  // some bytes were new
  bool more = false;      // a bound was reached; call again
};

// Not thread-safe. Reads by open and read at an offset; never looks at a file's times.
class Follower {
 public:
  // chunk_bytes: the most that one call reads of one journal; at least a record (1 MiB).
  Follower(base::FileSystem& files, Store& store,
           std::uint64_t chunk_bytes = std::uint64_t{4} << 20U)
      : files_(files), store_(store), chunk_bytes_(chunk_bytes) {}

  // Finds new attempts and reads on where the store left off, attempts in order of number; updates
  // run->summary, whose derived figures the caller stores. An attempt that cannot be read is logged
  // and skipped.
  Followed follow(Run* run);
  // Computes again what follows from the stored series: times, prediction, rates. Needed after a
  // restart, which may have come between the rows and these.
  void refresh(Run* run);

 private:
  Followed follow_attempt(Run* run, Attempt* attempt, const base::Path& journal);

  base::FileSystem& files_;
  Store& store_;
  std::uint64_t chunk_bytes_;
};

}  // namespace regatta::orchestrator
