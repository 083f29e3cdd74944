// What is wanted of jobs and has to be said to Slurm: ends, time limits, nodes to avoid. For each
// job one command at a time and at most one request that waits, so repeated requests never pile up.
// Pure: who carries them out is slurm_scheduler's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/slurm/job_book.h"

namespace regatta::orchestrator::slurm {

struct JobRequest {
  enum class Kind { Limit, Avoid, Stop, Kill };  // a later one is stronger
  Kind kind = Kind::Stop;
  JobHandle job;
  std::vector<std::string> nodes{};  // Avoid
  std::int64_t minutes = 0;          // Limit

  bool operator==(const JobRequest&) const = default;
};

// Times are monotonic seconds. Not thread-safe. Holds no more requests than there are jobs.
class JobRequests {
 public:
  // The job's request from now on, unless one that is as strong waits or is being carried out.
  // Other nodes to avoid and other limits replace those that were told.
  void add(const JobRequest& request, double now);
  // The next one to carry out, kills first; finish() has to follow. Nothing: none is due.
  [[nodiscard]] std::optional<JobRequest> take(double now);
  // The request that was taken for this job is carried out; or it failed and is due again at
  // `again`, unless something else was wanted meanwhile.
  void finish(const JobRequest& request, std::optional<double> again = {});
  // Slurm answers again: what failed is due.
  void hurry(double now);
  // Since when something is wanted of the job that has not been carried out; nothing: it has.
  [[nodiscard]] std::optional<double> waits_since(const std::string& token) const;
  // The job is over. What is being carried out goes on.
  void forget(const std::string& token);
  [[nodiscard]] bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::optional<JobRequest> waiting;
    std::optional<JobRequest> under_way;
    double since = 0;         // when the first of them came
    double due = 0;           // of the one that waits
    std::uint64_t order = 0;  // and when it came
  };
  std::map<std::string, Entry> entries_;  // by token
  std::uint64_t next_ = 0;
};

}  // namespace regatta::orchestrator::slurm
