// What is known of the jobs that were submitted: answers of squeue and sacct, put together. Pure:
// who asks Slurm, and when, is slurm_scheduler's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/runs/scheduler.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::slurm {

// A job is found by its token, never by its id alone: after a crash of slurmctld one id has been
// given to two jobs. Anybody may rename a job, so the token stands in its
// comment, and where that was replaced, too, in the path of its script (squeue) or the line that
// submitted it (sacct).
// Whether a job can have it: a token that was read from a file may be any text.
[[nodiscard]] bool is_token(std::string_view text);
// Nothing for somebody else's job. Launches of earlier versions have it in their name.
[[nodiscard]] std::optional<std::string> token_of(const JobRow& job);

// "slurm:<id>:<token>"
struct JobHandle {
  std::string id;
  std::string token;

  bool operator==(const JobHandle&) const = default;
  [[nodiscard]] std::string text() const { return "slurm:" + id + ":" + token; }
};
[[nodiscard]] std::optional<JobHandle> parse_job_handle(const std::string& text);

// Times are monotonic seconds. Not thread-safe.
class JobBook {
 public:
  // accounting: whether sacct can be asked at all.
  explicit JobBook(bool accounting) : accounting_(accounting) {}
  void set_accounting(bool accounting) { accounting_ = accounting; }

  // A job that sbatch has just submitted, or a token that somebody asks for: from now on the
  // answers below are about it, too. id: its job's; empty: not known.
  void expect(const std::string& token, const std::string& id, double now);
  void forget(const std::string& token);

  // Answers to a question asked at `asked`: all jobs of the user that squeue shows; and what sacct
  // knows of the tokens of wanted(). What a whole answer does not mention was not there then; one
  // that is not whole says only what it says.
  // ForIds: sacct was asked for id_to_ask() of each token.
  enum class Asked { ForIds, ForAllJobs };
  void take_queue(const Jobs& jobs, double asked);
  void take_accounting(const Jobs& jobs, const std::vector<std::string>& tokens, double asked,
                       Asked what);

  // All tokens, in order.
  [[nodiscard]] std::vector<std::string> tokens() const;
  // Tokens that the queue does not show (any more), and that accounting has to be asked for.
  [[nodiscard]] std::vector<std::string> wanted() const;
  // The id to ask accounting for; empty: it is not known, or the token may have another job by now,
  // so only all of the user's jobs will do.
  [[nodiscard]] std::string id_to_ask(const std::string& token) const;
  // Whether any job of ours is not known to have ended.
  [[nodiscard]] bool has_open() const;

  [[nodiscard]] runs::SchedulerFinding find(const std::string& token) const;
  // log: the end of what the job wrote, for those that need it (job_end.h).
  [[nodiscard]] runs::ProcessReport report(const JobHandle& handle,
                                           std::string_view log = {}) const;
  // The newest row; null: none.
  [[nodiscard]] const JobRow* row(const std::string& token) const;

 private:
  struct Entry {
    double since = 0;              // when it was first asked for
    std::string id;                // of its newest job; empty: not known
    std::optional<JobRow> queued;  // of the last answer that showed it
    bool in_last_queue = false;
    std::optional<JobRow> accounted;  // the newest execution
    std::string newest;  // the id of the newest one when all of the user's jobs had been asked for
    double queue_asked = -1;  // the first answers after `since`, and the last; -1: none
    double queue_answered = -1;
    double accounting_asked = -1;
    double accounting_answered = -1;
  };
  using TokensById = std::map<std::string, std::string>;
  [[nodiscard]] TokensById tokens_by_id() const;
  [[nodiscard]] Entry* owner_of(const JobRow& job, const TokensById& seen);
  [[nodiscard]] static bool has_ended(const Entry& entry);
  [[nodiscard]] bool is_lost(const Entry& entry) const;

  bool accounting_;
  std::map<std::string, Entry> entries_;  // by token
};

}  // namespace regatta::orchestrator::slurm
