// What is known of the jobs that were submitted: answers of squeue and sacct, put together. Pure:
// who asks Slurm, and when, is slurm_scheduler's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/scheduler.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator {

// A job is found by its token, never by its id alone: after a crash of slurmctld one id has been
// given to two jobs (design decision 1).
inline constexpr std::string_view kJobNamePrefix = "regatta-";
// Nothing for the name of somebody else's job.
[[nodiscard]] std::optional<std::string> token_of(const JobRow& job);

// "slurm:<id>:<token>"
struct JobHandle {
  std::string id;
  std::string token;

  [[nodiscard]] std::string text() const { return "slurm:" + id + ":" + token; }
};
[[nodiscard]] std::optional<JobHandle> parse_job_handle(const std::string& text);

// Times are monotonic seconds. Not thread-safe.
class JobBook {
 public:
  // accounting: whether sacct can be asked at all.
  explicit JobBook(bool accounting) : accounting_(accounting) {}

  // A job that sbatch has just told, or a token that somebody asks for: from now on the answers
  // below are about it, too.
  void expect(const std::string& token, double now);
  void forget(const std::string& token);

  // Whole answers to a question asked at `asked`: every job of ours that squeue shows; and what
  // sacct knows of the tokens of wanted(). What an answer does not mention was not there then.
  void take_queue(const Jobs& jobs, double asked);
  void take_accounting(const Jobs& jobs, const std::vector<std::string>& tokens, double asked);

  // Tokens that the queue does not show (any more), and that accounting has to be asked for.
  [[nodiscard]] std::vector<std::string> wanted() const;
  // Whether any job of ours is not known to have ended.
  [[nodiscard]] bool has_open() const;

  [[nodiscard]] Finding find(const std::string& token) const;
  // log: the end of what the job wrote, for those that need it (job_end.h).
  [[nodiscard]] ProcessReport report(const JobHandle& handle, std::string_view log = {}) const;
  // The newest row; null: none.
  [[nodiscard]] const JobRow* row(const std::string& token) const;

 private:
  struct Entry {
    double since = 0;              // when it was first asked for
    std::optional<JobRow> queued;  // of the last answer that showed it
    bool in_last_queue = false;
    std::optional<JobRow> accounted;  // the newest execution
    double queue_asked = -1;          // the first answers after `since`, and the last; -1: none
    double queue_answered = -1;
    double accounting_asked = -1;
    double accounting_answered = -1;
  };
  [[nodiscard]] bool is_lost(const Entry& entry) const;

  bool accounting_;
  std::map<std::string, Entry> entries_;  // by token
};

}  // namespace regatta::orchestrator
