// Sweeps as they go on: a thread beside the controller's, which asks it for runs as any client
// does. What it wants is written down before it asks, and each wish has a key of its own, so that
// whoever is killed between the two asks again, and no trial is two runs.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "base/text.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/sweep_record.h"
#include "orchestrator/files/name_locks.h"
#include "orchestrator/files/shared_files.h"

namespace regatta::orchestrator::control {

struct SweepDriverOptions {
  double look_seconds = 0.5;             // between two looks at the runs of a sweep
  double write_seconds = 20;             // for a sweep's file to be read or written
  double pause_seconds = 5;              // after a trouble that may pass
  files::SharedFiles* shared = nullptr;  // null: files are touched in the caller's thread
  std::function<std::string(int bytes)> random_hex = base::random_hex;
};

class SweepDriver {
 public:
  using Shown = std::shared_ptr<const SweepRecord>;

  // Everything outlives it.
  SweepDriver(base::FileSystem& files, base::Clock& clock, Controller& controller,
              SweepDriverOptions options = {});
  ~SweepDriver();
  SweepDriver(const SweepDriver&) = delete;
  SweepDriver& operator=(const SweepDriver&) = delete;

  // step() in a thread of its own until destruction. Runs go on after that.
  void start();

  // The following from any thread.

  struct Accepted {
    Shown sweep;
    bool created = false;               // false: the same request had been made before
    std::vector<std::string> doubts{};  // as Controller::Accepted has them
  };
  // body: a run file with a section `sweep`, YAML or JSON. by, key: as Controller::submit() has
  // them. Code::User for a bad one, also where the values of one of the first trials are no run,
  // and for datasets and `from` that are seen not to fit: of one trial, or of eight where
  // parameters are about these.
  Accepted submit(const std::string& body, const std::optional<std::string>& idempotency_key,
                  const std::string& by);
  // What submit() would keep, without an id. Changes nothing.
  [[nodiscard]] SweepRecord preview(const std::string& body) const;
  // Of the same trials that submit() looks at, what Controller::preview() checks, each once.
  [[nodiscard]] std::vector<PreviewCheck> check(const SweepRecord& record);
  // Code::Conflict where a sweep was submitted with it: of sweeps and runs a key is one.
  void refuse_used_key(const std::string& idempotency_key);
  // Has no trial begin or go on, and cancels those that train. False where it is over, or stops
  // already. Code::NotFound.
  bool stop(const std::string& name, const std::string& by);
  // Forgets a sweep that is over; its runs stay. Code::Conflict for one that is not.
  void remove(const std::string& name, const std::string& by);
  // By id, or by name where only one sweep has it. Code::NotFound, with a suggestion; Code::Retry
  // while sweeps are still being read.
  [[nodiscard]] Shown find(const std::string& name);
  // All, the newest first.
  [[nodiscard]] std::vector<Shown> all();
  // Files that are left out, a line each: why, and what to do.
  [[nodiscard]] std::vector<std::string> left_out();
  // What is wrong, a line each: files that are left out, sweeps that stand still.
  [[nodiscard]] std::vector<std::string> faults();
  // Why this one does not go on at the moment; empty: it does.
  [[nodiscard]] std::string trouble(const std::string& id);

  // The state of a trial's run, or kRemovedRun; empty where that is not known at the moment.
  [[nodiscard]] std::string run_state(const std::string& run);

  // Of its thread, or of a test's: one look at each sweep that goes on, once those of the runs
  // directory are read. Trouble with one is told and costs the others nothing; a file that is
  // damaged is left out, with a line in the log. True: some have more to ask for than they might
  // at once.
  bool step();

 private:
  using Change = std::function<bool(SweepRecord* record)>;  // false: there is none

  void run();
  void wake();
  template <typename Work>
  auto on_disk(Work work);
  void load();
  void write(const SweepRecord& record);
  [[nodiscard]] std::string new_id(const std::string& name);
  [[nodiscard]] Shown shown(const std::string& id);
  [[nodiscard]] std::optional<Shown> submitted_before(const std::string& key,
                                                      const std::string& digest);
  Shown update(const std::string& id, const Change& change);

  [[nodiscard]] std::vector<std::string> check_inputs(const SweepRecord& record);
  bool advance(const std::string& id);
  [[nodiscard]] bool decide(SweepRecord* record);
  [[nodiscard]] bool observe(const SweepRecord& record, TrialRecord* trial);
  [[nodiscard]] bool knows_all_runs();
  [[nodiscard]] bool goes_on(const SweepRecord& record, const TrialRecord& trial);
  void cancel_runs(const SweepRecord& record);
  [[nodiscard]] bool ask(const SweepRecord& record, TrialRecord* trial);
  void keep(const std::string& id, const std::vector<TrialRecord>& asked);
  void note(const char* kind, const std::string& by, const std::string& words,
            const std::string& run = {});
  void tell(const SweepRecord& before, const SweepRecord& after);

  base::FileSystem& files_;
  base::Clock& clock_;
  Controller& controller_;
  const SweepDriverOptions options_;
  const base::Path directory_;

  files::NameLocks changing_;            // held by whoever changes a sweep
  std::mutex mutex_;                     // of what follows
  std::map<std::string, Shown> sweeps_;  // by id
  struct Trouble {
    std::string why;
    double not_before = 0;  // monotonic
  };
  std::map<std::string, Trouble> troubles_;  // by id
  bool loaded_ = false;
  std::string load_trouble_;                    // why they are not; empty: nothing is known
  std::map<std::string, std::string> damaged_;  // what is wrong with files, by the id in their name
  bool woken_ = false, ends_ = false;
  std::condition_variable wake_;
  std::thread thread_;  // last
};

}  // namespace regatta::orchestrator::control
