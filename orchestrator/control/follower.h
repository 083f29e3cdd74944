// Reads the journals of a run's attempts into the store.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/control/run_reading.h"
#include "orchestrator/runs/crossing.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::control {

struct Followed {
  bool read_any = false;                       // some bytes were new
  bool more = false;                           // a bound was reached; call again
  std::string trouble;                         // why a journal could not be read; empty: all were
  std::vector<FollowedCorruption> corruption;  // whose rank is known
};

// Not thread-safe. Journals are read by open and read at an offset; nobody looks at a file's times.
class Follower {
 public:
  // chunk_bytes: the most that one reading has of one journal; at least a record (1 MiB).
  explicit Follower(store::Store& store, std::uint64_t chunk_bytes = std::uint64_t{4} << 20U)
      : store_(store), chunk_bytes_(chunk_bytes) {}

  // What to read of these attempts.
  [[nodiscard]] ReadingOrder order(const runs::Run& run,
                                   const std::vector<runs::Attempt>& attempts) const;
  // Takes in what was read, attempts in order of number: stores it, adds new ones to `attempts`,
  // and updates run->summary, whose derived figures the caller stores. An attempt that could not be
  // read is skipped.
  Followed take(runs::Run* run, std::vector<runs::Attempt>* attempts, const RunReading& reading);
  // Computes again what follows from the stored series: times, prediction, rates. Needed after a
  // restart, which may have come between the rows and these.
  void refresh(runs::Run* run, const std::vector<runs::Attempt>& attempts);
  // The same of a run whose file was changed, by what it says now.
  void take_changes(runs::Run* run, const std::vector<runs::Attempt>& attempts);

 private:
  struct Taken {
    bool any = false;
    bool moves_axis = false;  // an attempt's start or an evaluation was among it
    std::vector<FollowedCorruption> corruption;
  };
  // behind: a later attempt was read before, as this one could not be; the run is as that one says.
  Taken take_part(runs::Run* run, runs::Attempt* attempt, const JournalPart& part, bool behind);
  void refresh_axis(runs::Run* run, const std::vector<runs::Attempt>& attempts);
  void refresh_rates(runs::Run* run);

  // Of runs and targets that were asked for: they do not change.
  const std::vector<runs::PastRun>& past_of(const runs::Run& run);

  static constexpr std::size_t kMostPast = 256;
  store::Store& store_;
  std::uint64_t chunk_bytes_;
  std::map<std::pair<runs::RunNumber, double>, std::vector<runs::PastRun>> past_;
};

}  // namespace regatta::orchestrator::control
