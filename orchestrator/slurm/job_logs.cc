#include "orchestrator/slurm/job_logs.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/slurm/job_end.h"

namespace regatta::orchestrator::slurm {
namespace {

constexpr int kThreads = 4;

// The end of a file; empty where there is none.
std::string tail_of(base::FileSystem& files, const base::Path& path) {
  constexpr std::uint64_t kMostBytes = 65536;
  try {
    return base::read_tail(files, path, kMostBytes);
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound) return {};
    throw;
  }
}

// What the newest start of a job left in RUN/submit; its working directory is the run's.
std::string read_job_log(base::FileSystem& files, const JobRow& job, const std::string& token) {
  if (!job.work_directory) return {};
  const base::Path submit = base::Path(*job.work_directory) / "submit";
  const std::string name = token + "-" + job.id;
  try {
    std::int64_t newest = -1;
    for (const std::string& file : files.list(submit)) {
      const base::Path path(file);
      if (path.extension() != ".log" || file.rfind(name + "-", 0) != 0) continue;
      newest = std::max(
          newest, base::parse_integer(path.stem().string().substr(name.size() + 1)).value_or(-1));
    }
    const std::string ranks =
        newest < 0 ? "" : tail_of(files, submit / (name + "-" + std::to_string(newest) + ".log"));
    return job_log(tail_of(files, submit / (name + ".out")), ranks);
  } catch (const base::Error&) {  // the row alone decides
    return {};
  }
}

// Two rows with one of these have one log.
std::string row_of(const JobRow& job) {
  return job.id + " " + job.state.raw + " " + std::to_string(job.start.value_or(0));
}

}  // namespace

JobLogs::JobLogs(base::FileSystem& files, const base::Clock& clock) : files_(files), clock_(clock) {
  for (int i = 0; i < kThreads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

JobLogs::~JobLogs() {
  for (std::jthread& thread : threads_) thread.request_stop();
  changed_.notify_all();
}

std::optional<std::string> JobLogs::find(const JobRow& job, const std::string& token) {
  const std::scoped_lock lock(mutex_);
  const double now = clock_.monotonic_seconds();
  const std::string row = row_of(job);
  Entry& entry = entries_[token];
  if (entry.row != row) {
    entry = {row, now, false, std::nullopt};
    std::erase_if(orders_, [&](const Order& order) { return order.token == token; });
    orders_.push_back({token, job, row});
    changed_.notify_one();
  }
  if (entry.text) return entry.text;
  if (now - entry.asked < kMostSeconds) return std::nullopt;
  if (!entry.is_late) {
    entry.is_late = true;
    base::log(base::LogLevel::Warning, "the log of job " + job.id + " could not be read in " +
                                           base::human_seconds(kMostSeconds) +
                                           "; what Slurm says of its end decides alone");
  }
  return std::string();
}

void JobLogs::forget(const std::string& token) {
  const std::scoped_lock lock(mutex_);
  entries_.erase(token);
  std::erase_if(orders_, [&](const Order& order) { return order.token == token; });
}

void JobLogs::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !orders_.empty(); })) {
    if (stop.stop_requested()) return;
    const Order order = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    std::string text = read_job_log(files_, order.job, order.token);
    lock.lock();
    const auto found = entries_.find(order.token);
    if (found != entries_.end() && found->second.row == order.row) {
      found->second.text = std::move(text);
    }
  }
}

}  // namespace regatta::orchestrator::slurm
