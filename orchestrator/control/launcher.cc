#include "orchestrator/control/launcher.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "orchestrator/control/launch_book.h"
#include "orchestrator/runs/run_records.h"

namespace regatta::orchestrator::control {
namespace {

// Launches that hang on something of their own keep up to this many threads and places; the bound
// is what a controller that dies leaves to be looked up.
constexpr std::size_t kMostUnderWay = 16;

}  // namespace

Launcher::Launcher(base::FileSystem& files, runs::Scheduler& scheduler,
                   std::function<void()> landed)
    : files_(files), scheduler_(scheduler), landed_(std::move(landed)) {
  const int threads = scheduler_.most_submissions();
  for (int i = 0; threads > 1 && i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Launcher::~Launcher() {
  for (std::jthread& thread : threads_) thread.request_stop();
  changed_.notify_all();
}

std::size_t Launcher::places() {
  const std::scoped_lock lock(mutex_);
  const auto under_way = std::count_if(outcomes_.begin(), outcomes_.end(),
                                       [](const auto& entry) { return !entry.second; });
  return kMostUnderWay - std::min(kMostUnderWay, static_cast<std::size_t>(under_way));
}

void Launcher::order(LaunchOrder order) {
  if (threads_.empty()) {
    outcomes_[order.run] = carry_out(order, {});
    return;
  }
  const std::scoped_lock lock(mutex_);
  base::check(outcomes_.emplace(order.run, std::nullopt).second, "a run has one launch at a time");
  waiting_.push_back(std::move(order));
  changed_.notify_one();
}

bool Launcher::has(runs::RunNumber run) {
  const std::scoped_lock lock(mutex_);
  return outcomes_.count(run) > 0;
}

std::optional<Launched> Launcher::take(runs::RunNumber run) {
  const std::scoped_lock lock(mutex_);
  const auto found = outcomes_.find(run);
  if (found == outcomes_.end() || !found->second) return std::nullopt;
  std::optional<Launched> outcome = std::move(found->second);
  outcomes_.erase(found);
  return outcome;
}

std::vector<runs::RunNumber> Launcher::landed() {
  const std::scoped_lock lock(mutex_);
  std::vector<runs::RunNumber> runs;
  for (const auto& [run, outcome] : outcomes_) {
    if (outcome) runs.push_back(run);
  }
  return runs;
}

void Launcher::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
    if (stop.stop_requested()) return;
    const LaunchOrder order = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Launched outcome = carry_out(order, stop);
    lock.lock();
    outcomes_[order.run] = std::move(outcome);
    lock.unlock();
    if (landed_) landed_();
    lock.lock();
  }
}

Launched Launcher::carry_out(const LaunchOrder& order, const std::stop_token& stop) {
  Launched outcome{order.launch, std::nullopt, std::nullopt, true};
  runs::Launch& launch = outcome.launch;
  try {
    LaunchBook::write_file(files_, order.run_directory, launch);
    outcome.in_file = launch;
  } catch (const base::Error& error) {
    outcome.error = error;
    outcome.begun = false;
    launch.over = true;
    return outcome;
  }
  try {
    launch.handle = scheduler_.submit({order.run_directory,
                                       runs::launch_log_path(order.run_directory, launch.number),
                                       launch.token, order.avoid, stop});
  } catch (const base::Error& error) {
    outcome.error = error;
    if (error.code() == base::Code::Retry) return outcome;
    launch.over = true;
    launch.words = error.what();
  }
  try {
    outcome.in_file.reset();
    LaunchBook::write_file(files_, order.run_directory, launch);
    outcome.in_file = launch;
  } catch (const base::Error& error) {  // the next reading tries again; the token is in the file
    base::log(base::LogLevel::Warning,
              std::string("a launch's handle is not in its file: ") + error.what());
  }
  return outcome;
}

}  // namespace regatta::orchestrator::control
