// The ends of what jobs wrote, read from their run directories by threads of its own: a shared file
// system may not answer, and who decides about runs must not wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::slurm {

// Thread-safe; no call waits for a file.
class JobLogs {
 public:
  // Both outlive it.
  JobLogs(base::FileSystem& files, const base::Clock& clock);
  ~JobLogs();
  JobLogs(const JobLogs&) = delete;
  JobLogs& operator=(const JobLogs&) = delete;

  // What the newest start of the job left (job_end.h, job_log()); nothing while it is being read.
  // Empty where there is none, and where it could not be read within kMostSeconds of being asked
  // for first (logged): the row alone then decides.
  [[nodiscard]] std::optional<std::string> find(const JobRow& job, const std::string& token);
  void forget(const std::string& token);

  static constexpr double kMostSeconds = 20;

 private:
  struct Entry {
    std::string row;   // which the log was read for
    double asked = 0;  // monotonic seconds
    bool is_late = false;
    std::optional<std::string> text;
  };
  struct Order {
    std::string token;
    JobRow job;
    std::string row;
  };
  void work(const std::stop_token& stop);

  base::FileSystem& files_;
  const base::Clock& clock_;
  std::mutex mutex_;                      // guards the next two
  std::map<std::string, Entry> entries_;  // by token; as many as jobs that ended and were not taken
  std::deque<Order> orders_;
  std::condition_variable_any changed_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace regatta::orchestrator::slurm
