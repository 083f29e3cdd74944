// Events as they are written, each in the transaction of what it tells of.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/slurm/node_changes.h"
#include "orchestrator/slurm/node_suspicion.h"
#include "orchestrator/store/database.h"
#include "orchestrator/store/events.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator::store {

// The store's; under its lock.
class EventLog {
 public:
  EventLog(Database& database, base::Clock& clock);

  // number is given here; utc: 0 stands for now.
  void note(Event event);

  void note_added(const runs::Run& run, const std::string& by);
  // What these rows change; before they are written.
  void note_run(const runs::Run& run);
  // Of its file (words: of which keys; empty: of none), whose target an evaluation of before may
  // have met; before the row is written.
  void note_changed(const runs::Run& run, const std::string& words, const std::string& by);
  void note_launch(runs::RunNumber run, const runs::Launch& launch);
  bool note_start(const runs::Run& run, const runs::Attempt& attempt);  // whether it is one
  void note_end(const runs::Run& run, const runs::Attempt& attempt);
  // A record that the store did not have.
  void note_record(const runs::Run& run, const runs::Attempt& attempt,
                   const trainer::contract::JournalRecord& record);
  void note_blame(const slurm::NodeEvent& blame);
  void note_change(const slurm::NodeChange& change, double utc);
  // What somebody asked of a run.
  void note_wish(runs::RunNumber run, const char* kind, const std::string& by,
                 const std::string& words = {});

  // What somebody had done with a bench of a node.
  void note_bench(const char* kind, const std::string& node, const std::string& by,
                  const std::string& id);

  // What somebody asked for that is about no run.
  void note_asked(const char* kind, const std::string& by, const std::string& words);

  // At least the number of the newest event that was committed. From any thread.
  [[nodiscard]] std::int64_t newest() const { return newest_; }

 private:
  // Of a run that was found: only what happened since.
  void note(const runs::Run& run, Event event);
  [[nodiscard]] std::string id_of(runs::RunNumber run);
  [[nodiscard]] bool was(const runs::Attempt& attempt, const char* condition);

  Database& database_;
  base::Clock& clock_;
  std::atomic<std::int64_t> newest_ = 0;
  std::int64_t since_cut_ = 0;
};

}  // namespace regatta::orchestrator::store
