// The controller: one thread (tick) owns the world; handlers read the store and write down wishes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "orchestrator/follower.h"
#include "orchestrator/journal_pulse.h"
#include "orchestrator/launcher.h"
#include "orchestrator/node_avoidance.h"
#include "orchestrator/reconcile.h"
#include "orchestrator/scheduler.h"
#include "orchestrator/store.h"
#include "topology/plan.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {

struct ControllerOptions {
  base::Path runs_directory;
  int parallel = 1;  // runs at once
  Limits limits;
  double tick_seconds = 0.25;
  // For runs that are submitted without a plan; nothing: they go without.
  std::function<std::optional<topology::Plan>(const trainer::RunConfig&)> plan{};
};

// submit(), cancel() and find() may be called from any thread; adopt() and tick() from one, which
// is the thread of start() once that was called.
class Controller {
 public:
  // Everything passed by reference outlives the controller. Creates the runs directory and locks it
  // against a second controller.
  Controller(base::FileSystem& files, base::Clock& clock, Store& store, Scheduler& scheduler,
             const ControllerOptions& options);
  ~Controller();

  struct Accepted {
    Run run;
    bool created = false;  // false: the same request had been made before
  };
  // body: as parse_submitted() takes it. Code::User for a bad one, Code::Conflict when the key was
  // used with another body.
  Accepted submit(const std::string& body, const std::optional<std::string>& idempotency_key);
  // Code::NotFound for an unknown run. True when something changed.
  bool cancel(const std::string& run);
  // By id, or by name when only one run has it. Code::NotFound (with a suggestion) otherwise.
  [[nodiscard]] Run find(const std::string& run);

  [[nodiscard]] const base::Path& runs_directory() const { return options_.runs_directory; }
  [[nodiscard]] std::string scheduler_name() const { return scheduler_.name(); }
  [[nodiscard]] Store& store() { return store_; }

  // Takes in the runs of the runs directory that the store does not know. tick() does so later for
  // those that somebody started by hand.
  void adopt();
  // One round: adopt, follow, observe, reconcile, act, store.
  void tick();
  // adopt(), then ticks in a thread of their own until destruction. Attempts go on after that.
  void start();

 private:
  // What is known of a run only while the controller lives; a restart begins anew.
  struct Memory {
    bool refreshed = false;
    double not_before = 0;
    std::optional<double> stop_sent, stop_asked;  // the first and the last time
    std::string trouble;                          // the last error that was logged
    Avoidance avoidance;                          // of the watched launch
    JournalPulse pulse;                           // where nothing else is known of it
  };
  struct Watched {
    std::optional<Launch> launch;  // the newest one, unless it is over
    ProcessReport report;
  };
  void adopt_run(const base::Path& directory);
  // Of what came into the runs directory since adopt(), and of runs made by hand that are over,
  // those that go on. Looks seldom. look_at: whether the name needs no other look.
  void adopt_new();
  bool look_at(const std::string& name, bool at_old_ones);
  // Of runs that a handler or the launcher has told of: between two ticks, since many open runs of
  // which nothing is new must not keep a new one waiting.
  void tick_news();
  void take_news();
  void tick_or_tell(Run run);
  void tick_run(Run run, int* active);
  void lose(Run* run, std::optional<Launch> launch, int* active);
  [[nodiscard]] Watched watch(const Run& run);
  [[nodiscard]] Observation observe(const Run& run, const Watched& watched, const Memory& memory,
                                    bool place_free);
  void apply(Run* run, const Observation& seen, const Decision& decision, Watched* watched,
             Memory* memory);
  void launch(Run* run, Memory* memory);
  void note_launched(Run* run, const Launched& launched);
  void end_launch(const Run& run, const Observation& seen, Launch* launch);
  // False: there is none.
  bool watch_successor(Run* run);
  void loop(const std::stop_token& stop);
  void wake(std::optional<RunNumber> about = {});  // a wish was written down, or a launch landed

  base::FileSystem& files_;
  base::Clock& clock_;
  Store& store_;
  Scheduler& scheduler_;
  ControllerOptions options_;
  base::UniqueFd lock_;
  Follower follower_;
  std::map<RunNumber, Memory> memory_;
  NodeAvoidance nodes_;
  std::set<std::string> known_;                // in the runs directory, and need no other look
  std::map<std::string, std::string> looked_;  // what was logged of the others
  double next_look_ = 0;
  int looks_ = 0;
  std::mutex submit_mutex_;      // one submission with a key, or one cancellation, at a time
  int active_ = 0;               // runs with a launch, as the last tick counted and since
  std::deque<RunNumber> news_;   // to be looked at before the next tick
  std::mutex wake_mutex_;        // guards the next two
  std::vector<RunNumber> told_;  // for news_
  bool woken_ = false;
  std::condition_variable_any wake_;
  Launcher launcher_;  // wakes
  std::jthread thread_;
};

}  // namespace regatta::orchestrator
