// Attempts as Slurm jobs: one sbatch per launch, one thread that asks Slurm what has become of
// them all, within a budget (slurm/poll_budget.h), and a few that tell it what is wanted of jobs
// (slurm/job_wishes.h).
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "orchestrator/slurm/node_table.h"
#include "orchestrator/runs/scheduler.h"
#include "orchestrator/batch/batch_script.h"
#include "orchestrator/slurm/job_book.h"
#include "orchestrator/slurm/job_logs.h"
#include "orchestrator/slurm/job_wishes.h"
#include "orchestrator/slurm/poll_budget.h"
#include "orchestrator/slurm/slurm_commands.h"

namespace regatta::orchestrator {

// What the cluster says of itself.
struct SlurmCluster {
  SlurmVersion version;
  bool accounting = true;  // sacct has something to read
};
[[nodiscard]] Answer<SlurmCluster> ask_cluster(const SlurmCommands& commands);

// Accounting is asked when the queue has lost a job, the cluster until it is known.
[[nodiscard]] PollLimits slurm_poll_limits();

struct SlurmSettings {
  base::Path trainer;  // regatta-train, at the same path on every node
  std::string user;    // whose jobs are asked for
  // Nothing: not known so far. It is asked for, and nothing is submitted before it is known.
  std::optional<SlurmCluster> cluster;
  PollLimits limits = slurm_poll_limits();
};

class SlurmScheduler final : public Scheduler {
 public:
  // Everything passed by reference outlives the scheduler. It fills `nodes`, while runs are open or
  // somebody looks at them.
  SlurmScheduler(base::FileSystem& files, const base::Clock& clock, SlurmCommands commands,
                 SlurmSettings settings, NodeTable& nodes);
  ~SlurmScheduler() override;
  SlurmScheduler(const SlurmScheduler&) = delete;
  SlurmScheduler& operator=(const SlurmScheduler&) = delete;

  [[nodiscard]] std::string name() const override { return "slurm_cli"; }
  [[nodiscard]] int most_submissions() const override { return 12; }
  [[nodiscard]] std::string why_not_now() override;
  [[nodiscard]] std::string submit(const LaunchRequest& request) override;
  [[nodiscard]] Finding find(const std::string& token, double since_utc) override;
  // A job is known by its token alone, and the launch that has it is in the run directory.
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t process,
                                                 const base::Path& run_directory) override;
  [[nodiscard]] ProcessReport poll(const std::string& handle) override;
  [[nodiscard]] std::optional<std::vector<std::string>> usable_nodes(
      const trainer::SlurmResources& wanted) override;
  void avoid(const std::string& handle, const std::vector<std::string>& nodes) override;
  [[nodiscard]] std::vector<std::string> lost_nodes() override;
  void look_soon() override;
  [[nodiscard]] std::optional<Contact> contact(const std::string& handle) override;
  void somebody_looks() override;
  void stop(const std::string& handle) override;
  void kill(const std::string& handle) override;

 private:
  // Wishes are carried out by these: what hangs on one job keeps the next from no more than one.
  static constexpr int kEndThreads = 4;
  static constexpr int kAvoidThreads = 1;

  [[nodiscard]] Submission send(const SlurmJob& job, base::FileSystem::Open mode,
                                const SlurmCommands& commands);
  // job.id may be empty: not known.
  void expect(const JobHandle& job, double asked_since_utc);
  void want(JobWishes* wishes, const std::string& handle, JobWish::Kind kind,
            std::vector<std::string> nodes = {});
  void carry_out(JobWishes* wishes, const std::stop_token& stop);
  [[nodiscard]] std::optional<SlurmFailure> end(const JobWish& wish, const SlurmCommands& commands);
  [[nodiscard]] std::optional<SlurmFailure> keep_away(const JobWish& wish,
                                                      const SlurmCommands& commands);
  // Under the mutex: logs a failure that is new, and says when to try again.
  [[nodiscard]] std::optional<double> judge(const JobWish& wish,
                                            const std::optional<SlurmFailure>& failure);
  void collect(const std::stop_token& stop);
  // Under the mutex: what to ask now.
  [[nodiscard]] std::optional<PollKind> next_question(double now);
  [[nodiscard]] PollOutcome ask(PollKind kind, const SlurmCommands& commands);
  [[nodiscard]] PollOutcome get_acquainted(const SlurmCommands& commands);
  [[nodiscard]] PollOutcome ask_queue(const SlurmCommands& commands);
  [[nodiscard]] PollOutcome ask_accounting(const SlurmCommands& commands);
  [[nodiscard]] PollOutcome ask_nodes(const SlurmCommands& commands);
  [[nodiscard]] PollOutcome ask_reservations(const SlurmCommands& commands);
  // Under the mutex: logs a trouble that is new. What an answer means for the budget.
  [[nodiscard]] static PollOutcome note(const std::string& program, const Answer<Jobs>& answer,
                                        std::string* logged);
  // Under the mutex: Slurm has answered, and what waited for that goes on.
  void note_answer();

  base::FileSystem& files_;
  const base::Clock& clock_;
  const SlurmCommands commands_;
  const SlurmSettings settings_;
  NodeTable& nodes_;

  JobLogs logs_;
  std::mutex mutex_;  // guards what follows
  std::optional<SlurmCluster> cluster_;
  std::string cluster_trouble_;  // why it is not known
  JobBook book_;
  PollBudget budget_;
  double busy_until_ = 0;                // monotonic
  std::map<std::string, double> since_;  // by token: no job of it is older, seconds since 1970
  // The last that was logged of each program's answers.
  std::string trouble_, accounting_trouble_;
  Contact contact_;  // end_waits_utc is looked up
  JobWishes ends_, avoided_;
  std::map<std::string, std::string> troubles_;  // of wishes, by token: the last that was logged
  std::condition_variable_any changed_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace regatta::orchestrator
