// The runs of an experiment with their figures, which are of all steps of each run that succeeded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "orchestrator/experiments/run_figures.h"
#include "orchestrator/files/name_locks.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::api {

// With the tag of one experiment, at most.
inline constexpr int kMostExperimentRuns =
    static_cast<int>(experiments::kMostLayouts * experiments::kMostSeeds);

// Histories are read a part at a time, each in a snapshot of its own, and what was read stays in
// memory: a run that is over does not change, so each part is read once. A request reads for so
// long at most, and one request at a time; whoever asks again goes on where the last one ended.
class ExperimentReader {
 public:
  struct Limits {
    double seconds = 4;       // of reading, for one request
    double waiting = 1;       // seconds, for another request that reads
    int rows = 5000;          // of a history, in one snapshot
    std::size_t runs = 2000;  // whose figures stay in memory
  };
  explicit ExperimentReader(const base::Clock& clock) : ExperimentReader(clock, Limits()) {}
  ExperimentReader(const base::Clock& clock, const Limits& limits)
      : clock_(clock), limits_(limits) {}

  // Those with the experiment's tag, archived ones too, in the order in which the store got them;
  // empty: there are none. Code::Retry where more is to be read than one request may;
  // Code::Conflict where more runs have the tag than an experiment can have. Thread-safe.
  [[nodiscard]] std::vector<experiments::ExperimentRun> runs(store::Store& store,
                                                             const std::string& experiment);

 private:
  // What the store has of a history; with another one it is read anew.
  struct Extent {
    std::int64_t cursor = 0;  // of its newest row
    int resolution = 0;       // seconds; 0: every step
    std::size_t attempts = 0;

    bool operator==(const Extent&) const = default;
  };
  struct Read {
    Extent of;
    std::int64_t steps = 0, evaluations = 0;  // cursors: read up to there
    bool whole = false;
    experiments::HistoryFigures figures;
  };
  struct Member {
    runs::RunNumber number{};
    experiments::ExperimentRun run;
    Extent extent;
  };

  [[nodiscard]] std::vector<Member> members(store::Store& store, const std::string& experiment);
  // Whole, or nothing.
  [[nodiscard]] std::shared_ptr<const Read> kept(const Member& member);
  void keep(const Member& member, std::shared_ptr<const Read> read);
  // Of runs that are not kept whole; holds reading_.
  void read_missing(store::Store& store, const std::vector<Member>& members);
  void read_part(store::Store& store, const Member& member, Read* read) const;

  const base::Clock& clock_;
  const Limits limits_;
  files::NameLocks reading_;
  std::mutex mutex_;  // of reads_
  std::map<runs::RunNumber, std::shared_ptr<const Read>> reads_;
};

}  // namespace regatta::orchestrator::api
