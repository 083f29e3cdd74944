#include "orchestrator/files/shared_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace regatta::orchestrator::files {
namespace {

using base::Code;
using base::Error;
using steady = std::chrono::steady_clock;

constexpr std::size_t kOpensAt = 2;   // stuck works on a file system
constexpr double kMountsSeconds = 5;  // how old the list of mounts may be
constexpr std::uint64_t kMostMountBytes = std::uint64_t{16} << 20U;
constexpr std::size_t kMostLearned = 200'000;   // directories whose device is remembered
constexpr std::chrono::milliseconds kLook(20);  // how often somebody looks what is stuck

double seconds_since(steady::time_point moment) {
  return std::chrono::duration<double>(steady::now() - moment).count();
}
steady::duration duration_of(double seconds) {
  return std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

class SharedFiles::State : public std::enable_shared_from_this<SharedFiles::State> {
 public:
  State(SharedFilesLimits limits, DeviceOf device_of)
      : limits_(limits), given_device_of_(std::move(device_of)) {}

  void supervise() {
    supervisor_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
  }
  // Called by the owner, so never by a thread that may be stuck.
  void end();

  void wait_for(const base::Path& directory, double seconds, std::function<void()> work);
  bool start(const base::Path& directory, std::function<void()> work);
  std::optional<double> stuck_for(const base::Path& directory) const;
  std::size_t threads() const {
    const std::scoped_lock lock(mutex_);
    return threads_;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Devices by the list of mounts, read anew now and then.
  class Mounts {
   public:
    DeviceId device_of(const base::Path& directory) {
      const std::scoped_lock lock(mutex_);
      if (!table_ || seconds_since(read_) > kMountsSeconds) {
        read_ = steady::now();
        try {
          table_.emplace(base::posix_file_system().read("/proc/self/mountinfo", kMostMountBytes));
        } catch (const Error&) {  // all is one device then
          table_.emplace("");
        }
      }
      return table_->device_of(directory);
    }

   private:
    std::mutex mutex_;
    std::optional<MountTable> table_;
    steady::time_point read_;
  };

  // Where a directory was found: the way to it may lead through links, which the list of mounts
  // does not show.
  struct Learned {
    DeviceId listed = 0;   // as long as the list says this,
    DeviceId found = 0;    // it is this
    bool by_link = false;  // the directory itself is a link
  };

  struct Job {
    std::string directory;
    DeviceId device = 0;
    bool started = false;  // by start(), and so nobody waits for it
    std::function<void()> work;
    steady::time_point asked = steady::now();
    std::optional<steady::time_point> began;
    bool stuck = false;
    bool answered = false;
    std::exception_ptr error;
  };
  using JobPointer = std::shared_ptr<Job>;

  struct Device {
    std::deque<JobPointer> calls, starts;  // waiting; begun in turn
    bool start_is_next = false;
    std::size_t running = 0;  // the stuck ones, too
    std::vector<JobPointer> stuck;
    JobPointer probe;
    steady::time_point next_probe;
    steady::time_point newest_answered;  // when it began
    bool told = false;                   // that the breaker is open

    // Those that are stuck though nothing that began after them was answered.
    [[nodiscard]] std::size_t telling() const {
      return static_cast<std::size_t>(
          std::count_if(stuck.begin(), stuck.end(),
                        [this](const JobPointer& job) { return *job->began > newest_answered; }));
    }
    [[nodiscard]] bool open() const { return telling() >= kOpensAt; }
  };

  DeviceId device_of(const base::Path& directory);
  JobPointer make_job(const base::Path& directory, std::function<void()> work);

  // Under the lock.
  void enqueue(const JobPointer& job);
  void forget(const JobPointer& job);
  [[nodiscard]] bool has_stuck(const Job& job) const;
  [[nodiscard]] bool may_begin(const Device& device) const;
  [[nodiscard]] bool hangs(const Job& job) const;
  JobPointer take(std::deque<JobPointer>& queue);
  JobPointer next();
  void leave(const JobPointer& job);
  void log_error(const Job& job) const;
  void answered(const JobPointer& job);
  void add_threads();
  void find_stuck();

  void work();
  void run(Job& job);
  DeviceId find_device(const std::string& directory);
  bool is_of_its_device(const JobPointer& job);
  void look(const std::stop_token& stop);

  const SharedFilesLimits limits_;
  const DeviceOf given_device_of_;
  Mounts mounts_;
  mutable std::mutex mutex_;
  std::condition_variable_any work_;      // there may be work
  std::condition_variable_any answered_;  // a work has ended
  std::condition_variable_any busy_;      // there is something to look at
  std::map<DeviceId, Device> devices_;
  DeviceId served_ = 0;  // the device that was served last
  std::unordered_map<std::string, std::vector<JobPointer>> under_way_;  // by directory
  std::unordered_map<std::string, Learned> learned_;                    // by directory
  std::vector<JobPointer> running_;
  std::size_t waiting_ = 0;
  std::size_t stuck_ = 0;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
  bool ending_ = false;
  std::jthread supervisor_;  // never touches a file
};

DeviceId SharedFiles::State::device_of(const base::Path& directory) {
  if (given_device_of_) return given_device_of_(directory);
  const DeviceId listed = mounts_.device_of(directory);
  const std::scoped_lock lock(mutex_);
  const auto found = learned_.find(directory.string());
  return found != learned_.end() && found->second.listed == listed ? found->second.found : listed;
}

SharedFiles::State::JobPointer SharedFiles::State::make_job(const base::Path& directory,
                                                            std::function<void()> work) {
  auto job = std::make_shared<Job>();
  job->directory = directory.string();
  job->device = device_of(directory);
  job->work = std::move(work);
  return job;
}

bool SharedFiles::State::has_stuck(const Job& job) const {
  const auto found = under_way_.find(job.directory);
  return found != under_way_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](const JobPointer& other) {
           return other->stuck && other->device == job.device;  // another one: mounted anew
         });
}

bool SharedFiles::State::may_begin(const Device& device) const {
  if (stuck_ >= limits_.most_stuck && !device.stuck.empty()) return false;
  if (device.open()) return !device.probe && steady::now() >= device.next_probe;
  return device.running - (device.stuck.size() - device.telling()) < limits_.per_device;
}

// Whether it is known that no thread will be had for it soon.
bool SharedFiles::State::hangs(const Job& job) const {
  if (has_stuck(job)) return true;
  const auto device = devices_.find(job.device);
  return device != devices_.end() && device->second.open() && !may_begin(device->second);
}

void SharedFiles::State::enqueue(const JobPointer& job) {
  Device& device = devices_[job->device];
  (job->started ? device.starts : device.calls).push_back(job);
  under_way_[job->directory].push_back(job);
  ++waiting_;
  add_threads();
  work_.notify_one();
  busy_.notify_one();
}

void SharedFiles::State::forget(const JobPointer& job) {
  const auto found = under_way_.find(job->directory);
  std::erase(found->second, job);
  if (found->second.empty()) under_way_.erase(found);
}

SharedFiles::State::JobPointer SharedFiles::State::take(std::deque<JobPointer>& queue) {
  const auto found = std::find_if(queue.begin(), queue.end(),
                                  [this](const JobPointer& job) { return !has_stuck(*job); });
  if (found == queue.end()) return nullptr;
  JobPointer job = *found;
  queue.erase(found);
  --waiting_;
  return job;
}

// The devices in turn, so that one with a long queue does not keep the others waiting.
SharedFiles::State::JobPointer SharedFiles::State::next() {
  auto at = devices_.upper_bound(served_);
  for (std::size_t i = 0; i < devices_.size(); ++i, ++at) {
    if (at == devices_.end()) at = devices_.begin();
    Device& device = at->second;
    if ((device.calls.empty() && device.starts.empty()) || !may_begin(device)) continue;
    JobPointer job = take(device.start_is_next ? device.starts : device.calls);
    if (!job) job = take(device.start_is_next ? device.calls : device.starts);
    if (!job) continue;
    device.start_is_next = !job->started;
    served_ = at->first;
    if (device.open()) {
      device.probe = job;
      device.next_probe = steady::now() + duration_of(limits_.probe_seconds);
    }
    ++device.running;
    job->began = steady::now();
    running_.push_back(job);
    return job;
  }
  return nullptr;
}

// It runs no more on its device.
void SharedFiles::State::leave(const JobPointer& job) {
  Device& device = devices_[job->device];
  --device.running;
  if (device.probe == job) device.probe.reset();
  if (job->stuck) {
    --stuck_;
    std::erase(device.stuck, job);
  }
  job->stuck = false;
  std::erase(running_, job);
}

void SharedFiles::State::answered(const JobPointer& job) {
  leave(job);
  Device& device = devices_[job->device];
  device.newest_answered = std::max(device.newest_answered, *job->began);
  if (device.told && !device.open() && !ending_) {  // after that nobody knows who still logs
    device.told = false;
    base::log(base::LogLevel::Info, "the file system of " + job->directory + " answers again");
  }
  forget(job);
  job->answered = true;
  answered_.notify_all();
  work_.notify_one();  // the device has a place again
}

void SharedFiles::State::add_threads() {
  const std::size_t most = limits_.workers + std::min(stuck_, limits_.most_stuck);
  while (!ending_ && waiting_ > idle_ && threads_ < most) {
    try {
      // Detached: a thread that is stuck in the kernel could never be joined.
      std::thread([self = shared_from_this()] { self->work(); }).detach();
    } catch (const std::system_error&) {  // no more of them now; asked again when somebody looks
      return;
    }
    ++threads_;
    ++idle_;  // until it looks for work itself
  }
}

void SharedFiles::State::find_stuck() {
  const auto limit = steady::now() - duration_of(limits_.stuck_seconds);
  for (const JobPointer& job : running_) {
    if (job->stuck || *job->began > limit) continue;
    job->stuck = true;
    ++stuck_;
    Device& device = devices_[job->device];
    device.stuck.push_back(job);
    if (device.told || !device.open()) continue;
    device.told = true;
    device.next_probe = steady::now() + duration_of(limits_.probe_seconds);
    base::log(base::LogLevel::Warning, "the file system of " + job->directory +
                                           " does not answer; runs on it wait until it does");
  }
}

void SharedFiles::State::look(const std::stop_token& stop) {
  Lock lock(mutex_);
  const auto busy = [this] { return waiting_ > 0 || running_.size() > stuck_; };
  while (busy_.wait(lock, stop, busy) && !stop.stop_requested()) {
    find_stuck();
    add_threads();
    if (waiting_ > 0) work_.notify_all();
    lock.unlock();
    std::this_thread::sleep_for(kLook);
    lock.lock();
  }
}

// Where the directory really lies; may hang. A run may be a link to another file system, which then
// has to answer for it; what else leads there (a link above the runs directory) is asked once.
DeviceId SharedFiles::State::find_device(const std::string& directory) {
  if (given_device_of_) return given_device_of_(directory);
  const DeviceId listed = mounts_.device_of(directory);
  DeviceId found = listed;
  std::string target(4096, '\0');
  const ssize_t length = ::readlink(directory.c_str(), target.data(), target.size());
  if (length > 0) {
    target.resize(static_cast<std::size_t>(length));
    found = mounts_.device_of((base::Path(directory).parent_path() / target).lexically_normal());
  } else {
    const std::scoped_lock lock(mutex_);
    const auto known = learned_.find(directory);
    if (known != learned_.end() && known->second.listed == listed && !known->second.by_link) {
      return known->second.found;
    }
  }
  struct stat status {};
  if (length <= 0 && ::stat(directory.c_str(), &status) == 0) found = status.st_dev;
  const std::scoped_lock lock(mutex_);
  if (learned_.size() >= kMostLearned) learned_.clear();
  learned_[directory] = {listed, found, length > 0};
  return found;
}

// Before the work touches what is in the directory. False: it lies elsewhere, and waits there now.
bool SharedFiles::State::is_of_its_device(const JobPointer& job) {
  const DeviceId found = find_device(job->directory);
  const Lock lock(mutex_);
  if (found == job->device || ending_) return true;
  leave(job);
  job->device = found;
  job->began.reset();
  Device& device = devices_[found];
  (job->started ? device.starts : device.calls).push_back(job);
  ++waiting_;
  add_threads();
  return false;
}

void SharedFiles::State::run(Job& job) {
  try {
    job.work();
  } catch (...) {
    job.error = std::current_exception();
  }
}

void SharedFiles::State::log_error(const Job& job) const {
  try {
    std::rethrow_exception(job.error);
  } catch (const Error& error) {
    if (!ending_) base::log(base::LogLevel::Warning, error.what());
  }
}

void SharedFiles::State::work() {
  Lock lock(mutex_);
  --idle_;
  while (!ending_ && threads_ <= limits_.workers + stuck_) {
    const JobPointer job = next();
    if (!job) {
      ++idle_;
      work_.wait(lock);
      --idle_;
      continue;
    }
    lock.unlock();
    if (!is_of_its_device(job)) {
      lock.lock();
      continue;
    }
    run(*job);
    job->work = nullptr;  // what it holds goes without the lock
    lock.lock();
    if (job->started && job->error) log_error(*job);
    answered(job);
  }
  --threads_;
}

void SharedFiles::State::wait_for(const base::Path& directory, double seconds,
                                  std::function<void()> work) {
  const JobPointer job = make_job(directory, std::move(work));
  const auto late = [&](double passed) {
    return Error(Code::Retry, job->directory + " has not answered for " +
                                  base::human_seconds(passed) +
                                  "; its file system may be hung: try again later");
  };
  Lock lock(mutex_);
  if (hangs(*job)) {
    const Device& device = devices_[job->device];
    auto since = job->asked;
    for (const JobPointer& other : device.stuck) since = std::min(since, other->asked);
    throw late(seconds_since(since));
  }
  if (waiting_ >= limits_.most_waiting) {
    throw Error(Code::Retry, "too many requests wait for shared file systems; try again later");
  }
  enqueue(job);
  const bool in_time = answered_.wait_until(lock, job->asked + duration_of(seconds),
                                            [&] { return job->answered || ending_; });
  if (!in_time || !job->answered) {
    std::deque<JobPointer>& calls = devices_[job->device].calls;
    if (std::erase(calls, job) > 0) {
      --waiting_;
      forget(job);
    }
    throw late(seconds_since(job->asked));
  }
  lock.unlock();
  if (job->error) std::rethrow_exception(job->error);
}

bool SharedFiles::State::start(const base::Path& directory, std::function<void()> work) {
  const JobPointer job = make_job(directory, std::move(work));
  job->started = true;
  const Lock lock(mutex_);
  if (ending_ || waiting_ >= limits_.most_waiting || hangs(*job)) return false;
  const auto found = under_way_.find(job->directory);
  if (found != under_way_.end()) {
    for (const JobPointer& other : found->second) {
      if (other->started && other->device == job->device) return false;
    }
  }
  enqueue(job);
  return true;
}

std::optional<double> SharedFiles::State::stuck_for(const base::Path& directory) const {
  const Lock lock(mutex_);
  const auto found = under_way_.find(directory.string());
  if (found == under_way_.end()) return std::nullopt;
  return seconds_since((*std::min_element(found->second.begin(), found->second.end(),
                                          [](const JobPointer& a, const JobPointer& b) {
                                            return a->asked < b->asked;
                                          }))
                           ->asked);
}

void SharedFiles::State::end() {
  supervisor_.request_stop();
  supervisor_ = {};                 // joined
  std::vector<JobPointer> dropped;  // what they hold goes without the lock
  Lock lock(mutex_);
  ending_ = true;
  for (auto& [id, device] : devices_) {
    for (std::deque<JobPointer>* queue : {&device.calls, &device.starts}) {
      dropped.insert(dropped.end(), queue->begin(), queue->end());
      queue->clear();
    }
  }
  for (const JobPointer& job : dropped) forget(job);
  waiting_ = 0;
  work_.notify_all();
  answered_.notify_all();
  answered_.wait_for(lock, duration_of(limits_.stuck_seconds),
                     [this] { return running_.size() == stuck_; });
}

SharedFiles::SharedFiles(SharedFilesLimits limits, DeviceOf device_of)
    : state_(std::make_shared<State>(limits, std::move(device_of))) {
  state_->supervise();
}

SharedFiles::~SharedFiles() { state_->end(); }

void SharedFiles::wait_for(const base::Path& directory, double seconds,
                           std::function<void()> work) {
  state_->wait_for(directory, seconds, std::move(work));
}

bool SharedFiles::start(const base::Path& directory, std::function<void()> work) {
  return state_->start(directory, std::move(work));
}

std::optional<double> SharedFiles::stuck_for(const base::Path& directory) const {
  return state_->stuck_for(directory);
}

std::size_t SharedFiles::threads() const { return state_->threads(); }

}  // namespace regatta::orchestrator::files
