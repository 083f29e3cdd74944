// The controller: one thread (the loop) owns the world; handlers read the store and write down
// requests. Each open run has a time of its next visit; the loop makes the visits that are due.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "orchestrator/control/follower.h"
#include "orchestrator/control/launch_book.h"
#include "orchestrator/control/launcher.h"
#include "orchestrator/control/node_avoidance.h"
#include "orchestrator/control/node_watch.h"
#include "orchestrator/control/open_run.h"
#include "orchestrator/control/preview.h"
#include "orchestrator/control/reconcile.h"
#include "orchestrator/control/run_removal.h"
#include "orchestrator/files/name_locks.h"
#include "orchestrator/files/runs_directory_lease.h"
#include "orchestrator/files/side_work.h"
#include "orchestrator/files/troubles.h"
#include "orchestrator/plan/dataset_facts.h"
#include "orchestrator/runs/labels.h"
#include "orchestrator/runs/scheduler.h"
#include "orchestrator/site/site_defaults.h"
#include "orchestrator/store/store.h"
#include "topology/plan/plan.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {
struct SubmittedRun;
}

namespace regatta::orchestrator::control {

struct ControllerOptions {
  base::Path runs_directory;
  int parallel = 1;  // runs at once
  Limits limits;
  double visit_seconds = 0.25;  // between two visits of a run; more where there are many
  double submit_seconds = 20;   // for a run directory to be made
  double cancel_seconds = 2;    // for a cancellation, or what undoes it, to be written there
  // For runs that are submitted without a plan; nothing: they go without.
  std::function<std::optional<topology::plan::Plan>(const trainer::contract::RunConfig&)> plan{};
  // What site and user say for all runs; nothing: a run is as its file says.
  std::function<site::FilledRun(const trainer::contract::RunConfig&)> defaults{};
  // Where what touches the runs directory is done beside the loop; nothing: in it, at once. What
  // it is given may outlive the controller and uses the file system.
  files::SideWork::Start beside{};
  // Of the runs directory; nothing: nobody else can have it (a simulation's).
  std::optional<files::LeaseOptions> lease = files::LeaseOptions{};
  // Hexadecimal digits of so many random bytes, for ids and tokens: twice the same is harmful.
  std::function<std::string(int bytes)> random_hex = base::random_hex;
  // Whose changes are told as events; null: nobody's.
  const slurm::NodeTable* nodes = nullptr;
  // Called once, on the controller's thread, when the runs directory is no longer this
  // controller's: it does nothing more, and the program is to end.
  std::function<void(const std::string& why)> on_loss{};
};

struct Removal {
  runs::Run run;
  bool dry_run = false;
  bool had_directory = true;
  DirectoryUse use;
  std::vector<std::string> pinned;  // checkpoints
  std::string left;                 // why files are still there; empty: they are gone
};
struct RemoveOptions {
  bool dry_run = false;
  bool pinned_too = false;
  std::string by{};  // as submit() has it, and
  std::optional<std::string> idempotency_key{};
};

struct ForkRequest {
  std::string checkpoint = "latest";  // or a name, or a step
  std::string name{};                 // empty: the run's own
  std::string changes{};              // as plan::forked_run_file() takes them
};

enum class DryRun { No, Yes };
struct Archival {
  runs::Run run;
  ArchivedFiles files;
};

// How far the runs directory, which the store may know nothing of, has been read since the start.
struct Adoption {
  bool done = false;
  std::int64_t found = 0;  // directories that the store did not know
  std::int64_t read = 0;   // of these
  // Run directories that cannot be taken in as they are, the first by name and why.
  std::size_t refused = 0;
  std::string first_refused{}, why_refused{};
};

// submit(), cancel(), find(), adoption(), asking(), contact() and somebody_looks() may be called
// from any thread; adopt() and tick() from one, which is the thread of start() once that was
// called.
class Controller {
 public:
  // Everything passed by reference outlives the controller; the file system outlives all that
  // `beside` was given. Creates the runs directory and takes its lease (runs_directory_lease.h),
  // which may take a minute where another machine left one. Code::Operator where none of the
  // store's runs is there and some have not ended.
  Controller(base::FileSystem& files, base::Clock& clock, store::Store& store,
             runs::Scheduler& scheduler, const ControllerOptions& options);
  ~Controller();

  struct Accepted {
    runs::Run run;
    bool created = false;  // false: the same request had been made before
    // What it needs and the controller cannot see, though its nodes may, each with what to do.
    std::vector<std::string> doubts{};
  };
  // body: as parse_submitted() takes it. Code::User for a bad one, Code::Conflict when the key was
  // used with another body, Code::Retry for a key while runs are still being adopted.
  // after: ids or names of runs that must have succeeded before it begins, kMostAfter at most;
  // Code::NotFound for an unknown one. by: who asks (store::Event::by).
  Accepted submit(const std::string& body, const std::optional<std::string>& idempotency_key,
                  const std::vector<std::string>& after = {}, const std::string& by = {},
                  const runs::LabelChange& label = {});
  // What submit() would refuse of this configuration's dataset and of what it begins with, thrown
  // as there; and the doubts that it would tell.
  [[nodiscard]] std::vector<std::string> check_inputs(trainer::contract::RunConfig config);
  // What submit() would do, from its default values to the command that starts it. Changes nothing;
  // errors as submit()'s, but for those of keys.
  [[nodiscard]] Preview preview(const std::string& body, const std::vector<std::string>& after);
  // Code::NotFound for an unknown run, Code::Conflict for one that only its journal is known of,
  // Code::Retry before that can be said. True when something changed.
  // key: of cancel() and all below, as submit() has it; the request is carried out once.
  bool cancel(const std::string& run, const std::string& by = {},
              const std::optional<std::string>& idempotency_key = {});
  // Has what is under way end with a checkpoint, and another launch follow. False where nothing is:
  // it waits to be started as it is. changes: as resume() has them, from the next launch on.
  // Code::Conflict for a run that is over, is being cancelled, or is not this controller's to
  // start.
  bool requeue(const std::string& run, const std::string& changes = {}, const std::string& by = {},
               const std::optional<std::string>& idempotency_key = {});
  // Has a run that is over go on from its newest checkpoint, in its directory. False when it is not
  // over. Code::Conflict where there is nothing to resume, not from here, or no directory any more
  // (as of requeue(), extend() and change(), where that was removed). changes: of its
  // section `slurm`, as with_slurm_changes() takes them; Code::User for bad ones, Code::Retry where
  // they could not be written down, and then nothing is resumed.
  bool resume(const std::string& run, const std::string& changes = {}, const std::string& by = {},
              const std::optional<std::string>& idempotency_key = {});
  // Another run file for a run that exists (controller_change.cc). extend() has one that is over go
  // on from its newest checkpoint, further than it was to go; change() starts nothing. changes: as
  // plan::with_extension() and plan::with_changes() take them. False: there was nothing to change,
  // or the key's request was carried out before. Code::User for bad changes; Code::Conflict where
  // the run's state does not allow it, and for a key of other changes.
  bool extend(const std::string& run, const std::string& changes,
              const std::optional<std::string>& idempotency_key = {}, const std::string& by = {});
  bool change(const std::string& run, const std::string& changes,
              const std::optional<std::string>& idempotency_key = {}, const std::string& by = {});
  // A new run that continues a checkpoint of another one, which has a copy of it; a key as submit()
  // has it. Code::NotFound for an unknown run or checkpoint; Code::User for a damaged one, and for
  // changes that are none or leave nothing to train.
  Accepted fork(const std::string& run, const ForkRequest& request,
                const std::optional<std::string>& idempotency_key = {}, const std::string& by = {});
  // Removes a run that is over, with its directory and all that the store knows of it.
  // Code::NotFound for an unknown run; Code::Conflict for one that is not over, that others wait
  // for, that belongs to another scheduler, that was started by hand and may still go on, whose
  // checkpoints somebody reads, or has pinned unless pinned_too; Code::Retry where its file system
  // does not answer.
  Removal remove(const std::string& run, const RemoveOptions& options);
  // Removes all checkpoints of a run that is over but the best, the newest and pinned ones, and its
  // exports; it is listed no more unless asked for. Errors as remove().
  Archival archive(const std::string& run, DryRun dry_run, const std::string& by = {},
                   const std::optional<std::string>& idempotency_key = {});
  // What people write on it, whatever its state. The labels that it has then. Code::User for bad
  // ones.
  runs::Labels label(const std::string& run, const runs::LabelChange& change,
                     const std::string& by = {});
  // By id, or by name when only one run has it. Code::NotFound (with a suggestion) otherwise.
  [[nodiscard]] runs::Run find(const std::string& run);
  [[nodiscard]] Adoption adoption() const;

  // Code::Retry when the runs directory is not this controller's at the moment.
  void check_lease() const;

  [[nodiscard]] const base::Path& runs_directory() const { return options_.runs_directory; }
  [[nodiscard]] std::string scheduler_name() const { return scheduler_.name(); }
  // As Scheduler has them, from any thread.
  [[nodiscard]] std::optional<runs::Asking> asking() const { return scheduler_.asking(); }
  [[nodiscard]] std::optional<runs::Contact> contact(const std::string& handle) const {
    return scheduler_.contact(handle);
  }
  void somebody_looks() { scheduler_.somebody_looks(); }
  [[nodiscard]] store::Store& store() { return store_; }

  // Begins to take in the runs of the runs directory that the store does not know; without `beside`
  // they are there when it returns. tick() does so later for those that somebody started by hand.
  void adopt();
  // One round in which every open run is visited, due or not.
  void tick();
  // Visits what is due, and takes what has landed; what is due at `until`, monotonic, may wait.
  void round(double until);
  // adopt(), then rounds in a thread of their own until destruction. Attempts go on after that.
  void start();

 private:
  void wait_for_adoption();
  void refuse_unreadable(const std::string& run_name);
  void wait_for_first_visit(const std::string& name);
  void do_beside(const base::Path& directory, double seconds, const std::function<void()>& work);
  static constexpr double kListSeconds = 5;          // for a run's checkpoints to be listed
  static constexpr double kLookAgainSeconds = 0.01;  // between two looks at what is waited for
  // What a new run's directory is made of, beside run.json and submission.json.
  struct DirectoryContents {
    std::function<void(const std::string& id)> before{};  // there is one
    std::map<std::string, std::string> beside{};
    std::function<void(const base::Path& directory)> fill{};
    double seconds = 0;  // that it may take
  };
  void make_directory(const base::Path& directory, const std::string& run_json,
                      const DirectoryContents& contents);

  struct Watched {
    std::optional<runs::Launch> launch;  // the newest one, unless it is over
    runs::ProcessReport report;
  };

  // What is common to remove() and archive() (controller_remove.cc).
  [[nodiscard]] runs::Run find_over(const std::string& name);
  void refuse_removal(const runs::Run& run);
  [[nodiscard]] base::Path move_away(const runs::Run& run, const RemoveOptions& options);
  void remove_files(const base::Path& moved, Removal* removal);
  void forget(const runs::Run& run, const std::string& by,
              const std::optional<store::RequestKey>& key = {});
  void take_forgotten();
  void take_leftovers(const std::vector<std::string>& names);
  void remove_leftovers();

  // Why only its own scheduler can do anything about it; empty when that is this controller's.
  [[nodiscard]] std::string why_not_ours(const runs::Run& run) const;
  std::string take_defaults(trainer::contract::RunConfig* config) const;

  // What a run begins with (controller_start.cc). The run and its checkpoint; empty: no run's.
  struct Origin {
    std::string run, checkpoint;
  };
  [[nodiscard]] Origin resolve_start(trainer::contract::RunConfig* config);
  struct Inputs {
    std::optional<plan::DatasetFacts> dataset;              // the first; nothing: not all are there
    std::string no_dataset;                                 // the first directory that has none
    std::optional<base::Error> dataset_fault, start_fault;  // with the key of the run file
    std::string dataset_unknown, start_unknown;  // why that cannot be said; empty: it can
  };
  void look_at_datasets(const trainer::contract::RunConfig& config, Inputs* inputs);
  [[nodiscard]] Inputs look_at_inputs(const trainer::contract::RunConfig& config);
  // The doubts that Accepted tells.
  [[nodiscard]] std::vector<std::string> refuse_inputs(const trainer::contract::RunConfig& config);
  void pin_origin(const std::string& id, const trainer::contract::RunConfig& config);
  [[nodiscard]] std::string heir_of_start(const runs::Run& run);
  void unpin_origin(const runs::Run& run);
  bool keep_start(OpenRun* open);
  runs::RunNumber add_submitted(store::NewRun* run, DirectoryContents contents);
  // The run that the key was used for, if it was for this.
  [[nodiscard]] std::optional<runs::Run> submitted_before(const std::string& key,
                                                          const std::string& digest);

  // Changed run files (controller_change.cc).
  enum class Alteration { Extend, Change };
  // The key of a request, and what it asks for. Code::User for a bad one.
  [[nodiscard]] static std::optional<store::RequestKey> key_for(
      const std::optional<std::string>& key, const std::string& asked);
  // What a request about a run holds while it is carried out: the run, and its key.
  [[nodiscard]] files::NameLocks::Held hold(const std::string& run,
                                            const std::optional<store::RequestKey>& key);
  // The key alone, by who takes it before there is a run to hold: an equal request waits for the
  // end of this one and is answered alike.
  [[nodiscard]] std::optional<files::NameLocks::Held> hold_key(
      const std::optional<store::RequestKey>& key);
  // Whether the same request was carried out before. Code::Conflict where another one was.
  [[nodiscard]] bool was_done(const std::optional<store::RequestKey>& key);
  bool nothing_to_do(const runs::Run& run, const std::optional<store::RequestKey>& key);
  bool alter(Alteration what, const std::string& name, const std::string& changes,
             const std::optional<std::string>& key, const std::string& by);
  [[nodiscard]] runs::Run changed_run(const runs::Run& run, const std::string& config);
  [[nodiscard]] bool is_read(const runs::Run& run);
  void refuse_extension(const runs::Run& run, const runs::Run& changed);
  void write_change(const runs::Run& run, Alteration what);
  void take_change(const runs::Run& stored, OpenRun* open);
  [[nodiscard]] std::string config_to_write(OpenRun* open);
  [[nodiscard]] static bool goes_further(const runs::Run& run, const runs::Attempt& attempt);
  [[nodiscard]] std::optional<std::int64_t> time_limit_of(const runs::Run& run) const;
  void keep_time_limit(OpenRun* open, runs::Launch* launch, runs::ProcessState process);

  // The loop (controller.cc).
  void loop(const std::stop_token& stop);
  void take_news();
  void take_news_of(runs::RunNumber number);
  void take_labels(const runs::Run& stored, OpenRun* open);
  void load_open_runs();
  void load_unsettled();
  OpenRun* open(runs::Run run);
  void take_up(OpenRun* open);
  void close(runs::RunNumber number);
  void schedule(OpenRun* open, double due);
  void start_next();
  [[nodiscard]] std::vector<std::string> resolve(const std::vector<std::string>& after);
  [[nodiscard]] std::optional<Blockage> look_at_dependencies(OpenRun* open);
  void wake_dependants(const std::string& run);
  [[nodiscard]] std::size_t free_places();
  [[nodiscard]] bool may_start(const OpenRun& open);
  [[nodiscard]] double pause_of(const OpenRun& open) const;
  void wake(std::optional<runs::RunNumber> about = {});  // a request came, or something landed

  // One visit (controller_visit.cc): watch, read, and what follows from both.
  void visit(OpenRun* open);
  void begin_reading(OpenRun* open);
  void end_visit(runs::RunNumber number, files::Outcome<RunReading> outcome);
  void conclude(OpenRun* open, const RunReading& reading);
  void conclude_unread(OpenRun* open);
  void end_requeue(OpenRun* open);
  void note_written(OpenRun* open, const RunReading& reading);
  // False: the directory is gone, or there is more to read, or nothing left to decide.
  [[nodiscard]] bool follow(OpenRun* open, const RunReading& reading, Followed* followed);
  void judge_again(OpenRun* open, const RunReading& reading);
  bool may_be_read_yet(OpenRun* open, const Followed& followed);
  void decide(OpenRun* open, const Followed& followed, const RunReading& reading);
  [[nodiscard]] Watched watch(OpenRun* open);
  [[nodiscard]] Observation observe(const OpenRun& open, const Watched& watched,
                                    const std::string& last_log_line, bool place_free);
  void apply(OpenRun* open, const Observation& seen, const Decision& decision, Watched* watched);
  void act(OpenRun* open, const Decision& decision, Watched* watched);
  void launch(OpenRun* open);
  void note_launched(OpenRun* open, const Launched& launched);
  [[nodiscard]] double next_turn(double time);
  [[nodiscard]] double end_of(const Observation& seen, const runs::Run& run,
                              double began_utc) const;
  void end_launch(OpenRun* open, const runs::Run& run, const Observation& seen,
                  runs::Launch* launch);
  void put_launch(OpenRun* open, const runs::Launch& launch);
  void count_place(const OpenRun& open);
  void wait_for_place(OpenRun* open, bool waits);
  void save(OpenRun* open);
  // False: there is none.
  bool watch_successor(OpenRun* open);

  // Runs whose directory is not there (controller_gone.cc).
  [[nodiscard]] static bool ends_with_directory(const OpenRun& open);
  void end_gone(OpenRun* open);
  void wait_for_directory(OpenRun* open);
  void lose(OpenRun* open);
  void refuse_gone(const runs::Run& run);

  // Runs that are found (controller_adopt.cc).
  void refuse_other_runs();
  [[nodiscard]] bool any_is_there(const std::vector<runs::Run>& runs);
  void take_names(const files::Outcome<std::vector<std::string>>& names);
  void adopt_some();
  void take_found(const std::string& name, const files::Outcome<std::optional<FoundRun>>& outcome);
  void note_unadopted(const std::string& name, const std::optional<base::Error>& why);
  void forget_unadopted(const std::vector<std::string>& names);
  void take_key(const std::string& key, store::NewRun* found);
  runs::RunNumber add_found(const std::string& name, const FoundRun& as_written);
  void look_for_new();
  void take_look(const files::Outcome<std::vector<std::string>>& names);
  void look_at_some();
  void watch_nodes();
  struct Look;
  void take_one_look(const std::string& name, const files::Outcome<Look>& outcome);
  void consider(const std::string& name, const Look& look);
  void read_again(const std::string& name);

  base::FileSystem& files_;
  base::Clock& clock_;
  store::Store& store_;
  runs::Scheduler& scheduler_;
  ControllerOptions options_;
  std::optional<files::RunsDirectoryLease> lease_;
  Follower follower_;
  LaunchBook book_;
  NodeAvoidance nodes_;
  NodeWatch node_watch_;
  files::Troubles troubles_;

  std::map<runs::RunNumber, OpenRun> open_;
  std::set<std::pair<double, runs::RunNumber>> schedule_;  // when each is due
  std::set<std::pair<double, runs::RunNumber>> waiting_;   // for a place, by creation
  std::set<runs::RunNumber> active_;                       // have a place
  std::set<runs::RunNumber> readings_;                     // whose directories are being read
  std::set<std::int64_t> turns_;                           // taken by runs that were refused
  double next_round_ = 0;                                  // of the scheduler's and nodes'
  double next_unsettled_ = 0;

  // Adoption at the start.
  static constexpr double kAdoptionSeconds = 3;  // that a submission waits for it
  bool listed_ = false;                          // the directory is being read
  bool names_taken_ = false;                     // or was
  std::deque<std::string> unread_;               // names
  std::map<std::string, double> reading_;        // names, and since when
  std::set<runs::RunNumber> adopted_;            // whose journals are being read for the first time
  std::atomic<bool> adopted_all_ = false;
  std::atomic<std::int64_t> found_ = 0, read_ = 0;
  // Looks for runs that somebody starts by hand.
  bool looking_ = false;
  double next_look_ = 0;
  int looks_ = 0;
  std::deque<std::string> to_look_at_;
  std::set<std::string> looked_at_now_;
  std::set<std::string> known_;                // in the runs directory, and need no other look
  std::map<std::string, double> temporaries_;  // left by a submission, and when first seen

  // Runs that were removed: what of them was read before is not taken for a find.
  std::map<std::string, double> forgotten_;  // ids, and since when
  std::vector<std::string> leftovers_;       // names of directories that are still to be removed

  static constexpr double kChangeSeconds = 5;  // that a change of a run waits for another of it
  files::NameLocks changing_;                  // runs, and keys of submissions
  mutable std::mutex wake_mutex_;              // guards the next five
  // Could not be read or understood so far, and why; written by the loop alone.
  std::map<std::string, std::string> unadopted_;
  std::set<std::string> unreadable_;  // of unadopted_, where only their disk is to blame
  std::vector<runs::RunNumber> told_;
  std::vector<std::string> told_forgotten_;
  bool woken_ = false;
  std::condition_variable_any wake_;
  files::SideWork side_;  // wakes
  Launcher launcher_;     // wakes
  std::jthread thread_;
};

}  // namespace regatta::orchestrator::control
