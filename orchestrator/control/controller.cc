#include "orchestrator/control/controller.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/runs/run_start.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {
namespace {

constexpr const char* kBelongs = "belongs to ";
constexpr double kShortestPauseSeconds = 0.01;  // between two rounds, whoever wakes the thread
constexpr double kLongestPauseSeconds = 1;
constexpr double kRoundSeconds = 0.05;  // after which the loop looks for news again
// What a run costs at the least between two of its visits: with a thousand open runs each is
// visited once a second. A run that waits changes seldom.
constexpr double kSecondsForEachOpenRun = 0.001;
constexpr double kWaitingPauses = 4;
constexpr std::size_t kMostReadings = 64;  // under way at once
constexpr double kBlockageSeconds =
    5;  // between two notes of how far a run is that another waits for
constexpr double kUnsettledSeconds = 1;  // between two looks for runs that are not written down
constexpr int kMostUnsettled = 100;      // taken at once

// What is made is on the disk before anything is put into it; where it was there, whoever made it
// may have been killed before that.
void make_directories(base::FileSystem& files, const base::Path& path) {
  const base::Path parent = path.parent_path();
  if (!files.exists(parent)) make_directories(files, parent);
  const bool made = files.create_directory(path);
  try {
    files.sync_directory(parent);
  } catch (const base::Error&) {
    if (!made) return;  // somebody else's, perhaps, and not to be opened
    files.remove_tree(path);
    throw;
  }
}

}  // namespace

Controller::Controller(base::FileSystem& files, base::Clock& clock, store::Store& store,
                       runs::Scheduler& scheduler, const ControllerOptions& options)
    : files_(files),
      clock_(clock),
      store_(store),
      scheduler_(scheduler),
      options_(options),
      follower_(store),
      book_(store),
      nodes_(clock, store, scheduler),
      node_watch_(store, options.nodes),
      side_(options.beside, [this] { wake(); }),
      launcher_(files, scheduler, [this] { wake(); }) {
  options_.runs_directory = std::filesystem::absolute(options_.runs_directory).lexically_normal();
  if (!options_.runs_directory.has_filename()) {
    options_.runs_directory = options_.runs_directory.parent_path();
  }
  store_.place_runs(options_.runs_directory);
  make_directories(files_, options_.runs_directory);
  refuse_other_runs();
  if (options_.lease) lease_.emplace(options_.runs_directory, *options_.lease);
  load_open_runs();
}

Controller::~Controller() = default;

void Controller::check_lease() const {
  if (!lease_ || lease_->held()) return;
  const std::string why = lease_->loss();
  throw base::Error(base::Code::Retry,
                    why.empty() ? "the runs directory " + options_.runs_directory.string() +
                                      " does not answer, so nothing in it is changed; try again"
                                : why);
}

// What somebody else started is shown as soon as it is found; what trains it is known after its
// first visit.
void Controller::wait_for_first_visit(const std::string& name) {
  const double deadline = clock_.monotonic_seconds() + kAdoptionSeconds;
  while (true) {
    const runs::Run run = find(name);
    if (run.wanted != runs::Wanted::Observe || runs::is_over(run.state)) return;
    if (!store_.launches(run.number).empty()) return;
    if (clock_.monotonic_seconds() >= deadline) {
      throw base::Error(base::Code::Retry, "run " + run.id +
                                               " was started by hand and only just found; what "
                                               "trains it is not known yet; try again in a moment");
    }
    clock_.sleep(std::chrono::duration<double>(kLookAgainSeconds));
  }
}

// Waits for the work, Code::Retry after so many seconds; it may be done all the same, later.
void Controller::do_beside(const base::Path& directory, double seconds,
                           const std::function<void()>& work) {
  if (!options_.beside) return work();
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(seconds));
  const auto task = std::make_shared<std::packaged_task<void()>>(work);
  std::future<void> done = task->get_future();
  // The directory may be busy with a visit, which takes milliseconds.
  while (!options_.beside(directory, [task] { (*task)(); })) {
    if (Clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(kLookAgainSeconds));
  }
  if (done.wait_until(deadline) != std::future_status::ready) {
    throw base::Error(base::Code::Retry, directory.string() + " has not answered for " +
                                             base::human_seconds(seconds) +
                                             "; look at its file system, and try again");
  }
  done.get();
}

runs::Run Controller::find(const std::string& name) {
  try {
    return find_run(store_, name);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::NotFound || adopted_all_) throw;
    throw base::Error(base::Code::Retry,
                      std::string(error.what()) + " (the runs directory is still being read: " +
                          std::to_string(read_) + " of " + std::to_string(found_) + ")");
  }
}

Adoption Controller::adoption() const {
  Adoption adoption{adopted_all_, found_, read_};
  const std::scoped_lock lock(wake_mutex_);
  adoption.refused = unadopted_.size();
  if (!unadopted_.empty()) {
    adoption.first_refused = unadopted_.begin()->first;
    adoption.why_refused = unadopted_.begin()->second;
  }
  return adoption;
}

void Controller::load_open_runs() {
  for (runs::Run& run : store_.unfinished_runs()) {
    OpenRun* const loaded = open(std::move(run));
    // Whoever found it may have been killed before its journals were read.
    loaded->found = loaded->launches.empty();
    if (loaded->run.wanted != runs::Wanted::Observe && loaded->foreign.empty()) {
      loaded->unwritten.submission = loaded->unwritten.state = true;
      loaded->write_change_again();
    }
    LaunchBook::write_all_again(loaded);
  }
}

// Over and read to the end, but not written down: by a controller that was killed, or of before
// that was done.
void Controller::load_unsettled() {
  const double now = clock_.monotonic_seconds();
  if (now < next_unsettled_) return;
  next_unsettled_ = now + kUnsettledSeconds;
  for (runs::Run& run : store_.unsettled_runs(kMostUnsettled)) {
    if (open_.count(run.number) > 0) continue;
    if (open_.size() > 10 * kMostUnsettled) return;
    OpenRun* const loaded = open(std::move(run));
    loaded->unwritten.state = true;
    loaded->write_change_again();
    LaunchBook::write_all_again(loaded);
  }
}

OpenRun* Controller::open(runs::Run run) {
  OpenRun& opened = open_[run.number];
  opened.run = std::move(run);
  opened.launches = store_.launches(opened.run.number);
  opened.attempts = store_.attempts(opened.run.number);
  opened.foreign = why_not_ours(opened.run);
  opened.start = runs::start_checkpoint(opened.run);
  // What another controller said, of another scheduler, is no longer why it waits.
  if (opened.foreign.empty() && opened.run.reason.rfind(kBelongs, 0) == 0) {
    opened.run.reason.clear();
    opened.unsaved = true;
  }
  // An older controller did not write it down.
  if (!opened.launches.empty() && !opened.launches.back().over) {
    std::optional<std::int64_t>& limit = opened.launches.back().time_limit;
    if (!limit) limit = time_limit_of(opened.run);
  }
  count_place(opened);
  schedule(&opened, clock_.monotonic_seconds());
  if (opened.run.wanted == runs::Wanted::Resume) take_up(&opened);
  return &opened;
}

std::string Controller::why_not_ours(const runs::Run& run) const {
  if (run.scheduler.empty() || run.scheduler == runs::family_of(scheduler_.name())) return {};
  if (run.scheduler == "slurm") {
    return std::string(kBelongs) +
           "Slurm, and this controller starts processes of this machine; start "
           "`regatta serve` with --scheduler slurm_cli";
  }
  return std::string(kBelongs) + "scheduler " + run.scheduler + ", and this controller's is " +
         scheduler_.name() + "; start `regatta serve` with --scheduler " + run.scheduler;
}

void Controller::close(runs::RunNumber number) {
  const OpenRun& closed = open_.at(number);
  schedule_.erase({closed.due, number});
  waiting_.erase({closed.run.created_utc, number});
  active_.erase(number);
  adopted_.erase(number);
  readings_.erase(number);
  troubles_.settle("run " + closed.run.id);
  troubles_.settle("journal of run " + closed.run.id);
  open_.erase(number);
}

void Controller::schedule(OpenRun* open, double due) {
  const runs::RunNumber number = open->run.number;
  schedule_.erase({open->due, number});
  open->due = due;
  schedule_.insert({due, number});
}

double Controller::pause_of(const OpenRun& open) const {
  const double share = kSecondsForEachOpenRun * static_cast<double>(open_.size());
  const bool waits = open.waits || open.blocked || open.report.state == runs::ProcessState::Waiting;
  return std::max(options_.visit_seconds, waits ? kWaitingPauses * share : share);
}

std::size_t Controller::free_places() {
  const auto most = static_cast<std::size_t>(options_.parallel);
  if (!adopted_all_ || active_.size() >= most || !scheduler_.why_not_now().empty()) return 0;
  return std::min(most - active_.size(), launcher_.places());
}

// In the order of their submission, as many as there are places; one that pauses after a failure
// lets others pass, as does one whose directory does not answer.
bool Controller::may_start(const OpenRun& open) {
  std::size_t free = free_places();
  const double now = clock_.monotonic_seconds();
  for (const auto& key : waiting_) {
    if (free == 0 || key >= std::pair(open.run.created_utc, open.run.number)) break;
    const OpenRun& earlier = open_.at(key.second);
    if (earlier.not_before <= now && !earlier.silence_told && !earlier.gone_since) --free;
  }
  return free > 0;
}

void Controller::wait_for_place(OpenRun* open, bool waits) {
  open->waits = waits;
  const std::pair<double, runs::RunNumber> key{open->run.created_utc, open->run.number};
  if (waits) {
    waiting_.insert(key);
  } else {
    waiting_.erase(key);
  }
}

// Visits those that wait for a place, as many as there are.
void Controller::start_next() {
  const double now = clock_.monotonic_seconds();
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const std::pair<double, runs::RunNumber> key = *next;
    OpenRun& open = open_.at(key.second);
    if (!open.reading_since && open.not_before <= now) {
      if (!may_start(open)) return;
      visit(&open);
    }
    next = waiting_.upper_bound(key);
  }
}

// Before its first launch only: what has begun goes on whatever becomes of the others. The store is
// asked, as they may be long over.
std::optional<Blockage> Controller::look_at_dependencies(OpenRun* open) {
  const runs::Run& run = open->run;
  if (run.after.empty() || !open->launches.empty() || run.wanted != runs::Wanted::Run) return {};
  std::vector<Dependency> dependencies;
  for (const std::string& id : run.after) {
    const bool read = adopted_all_ && unadopted_.count(id) == 0 && reading_.count(id) == 0;
    dependencies.push_back({id, store_.run(id), !read});
  }
  std::optional<Blockage> blockage = blockage_of(run, dependencies);
  if (!blockage) return {};
  // Of a step that goes on a note every few seconds is enough.
  const double now = clock_.monotonic_seconds();
  if (blockage->key != open->blockage.key || now >= open->blockage_again) {
    open->blockage = *blockage;
    open->blockage_again = now + kBlockageSeconds;
  }
  return open->blockage;
}

// Of a run that is over: who waits for it looks again.
void Controller::wake_dependants(const std::string& run) {
  for (auto& [number, open] : open_) {
    const std::vector<std::string>& after = open.run.after;
    if (open.blocked && std::find(after.begin(), after.end(), run) != after.end()) {
      schedule(&open, clock_.monotonic_seconds());
    }
  }
}

// Its file may have been written with the old ones meanwhile.
void Controller::take_labels(const runs::Run& stored, OpenRun* open) {
  runs::Run& run = open->run;
  if (run.tags == stored.tags && run.note == stored.note) return;
  run.tags = stored.tags;
  run.note = stored.note;
  if (open->foreign.empty() && run.wanted != runs::Wanted::Observe) {
    open->unwritten.submission = true;
  }
}

void Controller::take_news_of(runs::RunNumber number) {
  const auto run = store_.run(number);
  const auto known = open_.find(number);
  if (!run) {  // removed
    if (known != open_.end()) close(number);
    return;
  }
  if (known == open_.end()) {
    if (run->drained && run->wanted != runs::Wanted::Resume) return;
    OpenRun* const opened = open(*run);
    opened->write_change_again();
    return;
  }
  take_labels(*run, &known->second);
  take_change(*run, &known->second);
  if (run->wanted == runs::Wanted::Resume) {
    take_up(&known->second);
  } else if (known->second.run.wanted != run->wanted) {
    known->second.run.wanted = run->wanted;
    known->second.unwritten.submission = true;
    // What was started by hand is the controller's from here on.
    LaunchBook::write_all_again(&known->second);
  }
  schedule(&known->second, clock_.monotonic_seconds());
}

void Controller::take_news() {
  take_forgotten();
  std::vector<runs::RunNumber> told;
  {
    const std::scoped_lock lock(wake_mutex_);
    told.swap(told_);
  }
  while (!told.empty()) {
    try {
      take_news_of(told.front());
    } catch (const base::Error&) {  // of the store: all of it again with the next round
      const std::scoped_lock lock(wake_mutex_);
      told_.insert(told_.begin(), told.begin(), told.end());
      throw;
    }
    told.erase(told.begin());
  }
  for (const runs::RunNumber number : launcher_.landed()) {
    const auto known = open_.find(number);
    if (known != open_.end()) schedule(&known->second, 0);
  }
}

void Controller::tick() {
  const double now = clock_.monotonic_seconds();
  for (auto& [number, open] : open_) schedule(&open, now);
  next_round_ = next_unsettled_ = now;
  round(now + 1e9);
}

void Controller::round(double until) {
  const double now = clock_.monotonic_seconds();
  if (now >= next_round_) {
    nodes_.begin_round();
    next_round_ = now + options_.visit_seconds;
  }
  store_.keep_reserve();
  if (!listed_) adopt();
  take_news();
  while (side_.take()) {
  }
  look_for_new();
  look_at_some();
  remove_leftovers();
  load_unsettled();
  // Each once: what a visit makes due again at once comes with the next round.
  std::vector<runs::RunNumber> due;
  for (const auto& [when, number] : schedule_) {
    if (when > now) break;
    due.push_back(number);
  }
  for (const runs::RunNumber number : due) {
    if (clock_.monotonic_seconds() >= until) break;
    const auto found = open_.find(number);
    if (found == open_.end()) continue;
    // One that is being read takes no other place, and gives its own up when it is silent.
    if (readings_.size() < kMostReadings || found->second.reading_since) visit(&found->second);
  }
  start_next();
  adopt_some();
  watch_nodes();
}

// A full disk must keep no run waiting.
void Controller::watch_nodes() {
  try {
    node_watch_.look();
    troubles_.settle("nodes");
  } catch (const base::Error& error) {
    troubles_.tell("nodes", error.what(), clock_.monotonic_seconds());
  }
}

void Controller::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

void Controller::loop(const std::stop_token& stop) {
  using Seconds = std::chrono::duration<double>;
  bool waits = false;
  while (!stop.stop_requested()) {
    if (const std::string why = lease_ ? lease_->loss() : ""; !why.empty()) {
      base::log(base::LogLevel::Error, why);
      if (options_.on_loss) options_.on_loss(why);
      return;
    }
    if (waits != (lease_ && !lease_->held())) {
      waits = !waits;
      base::log(base::LogLevel::Warning,
                "the runs directory " + options_.runs_directory.string() +
                    (waits ? " does not answer; nothing is done until it does" : " answers again"));
    }
    if (waits) {
      clock_.sleep(Seconds(kLongestPauseSeconds));
      continue;
    }
    const double begin = clock_.monotonic_seconds();
    try {
      round(begin + kRoundSeconds);
      troubles_.settle("controller");
    } catch (const base::Error& error) {
      troubles_.tell("controller", error.what(), begin);
    }
    clock_.sleep(Seconds(kShortestPauseSeconds));
    const double next = schedule_.empty() ? begin + kLongestPauseSeconds : schedule_.begin()->first;
    const double rest = std::min(kLongestPauseSeconds, next - clock_.monotonic_seconds());
    std::unique_lock lock(wake_mutex_);
    (void)wake_.wait_for(lock, stop, Seconds(std::max(0.0, rest)), [this] { return woken_; });
    woken_ = false;
  }
}

void Controller::wake(std::optional<runs::RunNumber> about) {
  const std::scoped_lock lock(wake_mutex_);
  if (about) told_.push_back(*about);
  woken_ = true;
  wake_.notify_one();
}

}  // namespace regatta::orchestrator::control
