// A whole controller with its store, its users, its scheduler, its disk and its clock, in one
// thread, from one seed: what goes wrong, and when, is chance, and the same seed is the same world.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "orchestrator/control/controller.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/simulation/chance.h"
#include "tests/orchestrator/simulation/cluster.h"
#include "tests/orchestrator/simulation/crash_vfs.h"
#include "tests/orchestrator/simulation/memory_disk.h"
#include "tests/orchestrator/support.h"

namespace regatta::tests::simulation {

// Something happened that must not, whatever goes wrong.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Tally {
  int kills = 0, power_losses = 0, store_losses = 0;
  int jobs = 0;
  std::int64_t steps = 0;  // changes that controllers made to the world

  void add(const Tally& other);
};

class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();

  // Some minutes in which everything goes wrong, then calm, in which all must come to its end.
  // Throws Violation.
  void live();
  [[nodiscard]] const Tally& tally() const { return tally_; }
  // What happened, a line each.
  [[nodiscard]] const std::vector<std::string>& story() const { return story_; }
  // The story without random names of temporary files, which are the system's.
  [[nodiscard]] std::string told() const;

 private:
  // What a user has asked for under one key, and what they were told.
  struct Wish {
    std::string key, body, id;
    std::vector<std::string> after;     // ids
    std::optional<std::int64_t> steps;  // that were told to be its own from then on
    bool refused = false;               // for good
    bool cancelled = false, removed = false, maybe_removed = false;
    bool unsure = false;                               // an answer to a change of it did not come
    std::optional<orchestrator::runs::RunState> told;  // an end that was shown
    std::size_t launches = 0;                          // of jobs, when `cancelled` was told
  };

  void tell(const std::string& what);
  [[noreturn]] void violated(const std::string& what) const;

  // False: it died, or answered with an error.
  bool attempt(const std::string& what, const std::function<void()>& call);
  bool ask(const std::string& what, const std::function<void()>& call);
  void die();
  void lose_what_is_unwritten(Wish* wish);
  void open();
  void close();
  [[nodiscard]] bool alive() const { return controller_ != nullptr; }
  bool beside(std::function<void()> work);
  void work_beside();

  void turn();
  void trouble();
  void use();
  void submit(Wish* wish);
  void requeue(const Wish& wish);
  void change(Wish* wish);
  void change_steps(Wish* wish);
  [[nodiscard]] base::Path directory_of(const Wish& wish) const;

  // What holds at any time; and at the end, of each wish; and of the store against the journals.
  void check_jobs();
  [[nodiscard]] bool cannot_know_all();
  [[nodiscard]] bool are_too_many(std::size_t jobs);
  void check_ends();
  void come_to_rest();
  [[nodiscard]] bool waits_in_vain(const orchestrator::runs::Run& run);
  [[nodiscard]] bool at_rest();
  void check_wish(const Wish& wish);
  void check_series(const orchestrator::runs::Run& run);
  void check_keys();
  void restart();
  void check_rebuilt();
  [[nodiscard]] std::string account() const;

  Chance chance_;
  Life life_;
  MemoryDisk disk_;
  CrashVfs vfs_;
  Mount jobs_mount_, mount_;
  SimulatedClock clock_;
  Cluster cluster_;
  std::unique_ptr<orchestrator::store::Store> store_;
  std::unique_ptr<orchestrator::control::Controller> controller_;
  int parallel_ = 1;
  bool unread_ = false;  // launches were decided while a run's directory could not be read
  bool calm_ = false, asking_ = false;
  std::deque<std::function<void()>> beside_;
  std::vector<std::unique_ptr<Wish>> wishes_;
  std::size_t jobs_seen_ = 0;
  Tally tally_;
  std::vector<std::string> story_;
};

}  // namespace regatta::tests::simulation
