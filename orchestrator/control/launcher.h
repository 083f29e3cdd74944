// Hands launches to the scheduler, several at once: sbatch takes milliseconds on a good day, and
// half a minute each while slurmctld does not answer, when the controller's tick must go on all the
// same.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/scheduler.h"

namespace regatta::orchestrator::control {

struct LaunchOrder {
  runs::RunNumber run{};
  base::Path run_directory;
  runs::Launch launch;               // in the store already, with its token and no handle
  std::vector<std::string> avoid{};  // nodes
};
struct Launched {
  runs::Launch launch;  // with its handle; or over, when it certainly was not started
  // Code::Retry: nobody can say whether it was started, and its token has to be looked up.
  std::optional<base::Error> error;
  // What its file in the run directory says; nothing where a write failed.
  std::optional<runs::Launch> in_file{};
  // false: it could not be written down there, so nothing was tried
  bool begun = true;
};

// Called by one thread. Whatever was ordered is taken exactly once.
class Launcher {
 public:
  // Both outlive the launcher. Starts scheduler.most_submissions() threads, or none for one.
  // `landed` is called from them, when an outcome can be taken.
  Launcher(base::FileSystem& files, runs::Scheduler& scheduler, std::function<void()> landed = {});
  // What has not begun does not begin any more, and what has is given up: its token is looked up by
  // the next controller.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // How many orders may be given now: of a controller that dies, as many tokens are looked up as
  // are under way.
  [[nodiscard]] std::size_t places();
  // One order of a run at a time. Without threads it is carried out before this returns.
  void order(LaunchOrder order);
  [[nodiscard]] bool has(runs::RunNumber run);
  // The outcome; nothing while it is under way.
  [[nodiscard]] std::optional<Launched> take(runs::RunNumber run);
  // Runs whose outcome can be taken.
  [[nodiscard]] std::vector<runs::RunNumber> landed();

 private:
  void work(const std::stop_token& stop);
  [[nodiscard]] Launched carry_out(const LaunchOrder& order, const std::stop_token& stop);

  base::FileSystem& files_;
  runs::Scheduler& scheduler_;
  std::function<void()> landed_;
  std::mutex mutex_;  // guards the next two
  std::deque<LaunchOrder> waiting_;
  std::map<runs::RunNumber, std::optional<Launched>> outcomes_;  // nothing yet: under way
  std::condition_variable_any changed_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace regatta::orchestrator::control
