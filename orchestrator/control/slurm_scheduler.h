// Attempts as Slurm jobs: one sbatch per launch, one thread that asks Slurm what has become of
// them all, within a budget (slurm/poll_budget.h), and a few that tell it what is wanted of jobs
// (slurm/job_requests.h).
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
#include "orchestrator/batch/batch_script.h"
#include "orchestrator/runs/scheduler.h"
#include "orchestrator/slurm/job_book.h"
#include "orchestrator/slurm/job_logs.h"
#include "orchestrator/slurm/job_requests.h"
#include "orchestrator/slurm/node_table.h"
#include "orchestrator/slurm/poll_budget.h"
#include "orchestrator/slurm/slurm_commands.h"

namespace regatta::orchestrator::control {

// What the cluster says of itself.
struct SlurmCluster {
  slurm::SlurmVersion version;
  bool accounting = true;  // sacct has something to read
};
[[nodiscard]] slurm::Answer<SlurmCluster> ask_cluster(const slurm::SlurmCommands& commands);

// Accounting is asked when the queue has lost a job, the cluster until it is known.
[[nodiscard]] slurm::PollLimits slurm_poll_limits();

struct SlurmSettings {
  base::Path trainer;  // regatta-train, at the same path on every node
  std::string user;    // whose jobs are asked for
  // Nothing: not known so far. It is asked for, and nothing is submitted before it is known.
  std::optional<SlurmCluster> cluster;
  slurm::PollLimits limits = slurm_poll_limits();
};

class SlurmScheduler final : public runs::Scheduler {
 public:
  // Everything passed by reference outlives the scheduler. It fills `nodes`, while runs are open or
  // somebody looks at them.
  SlurmScheduler(base::FileSystem& files, const base::Clock& clock, slurm::SlurmCommands commands,
                 SlurmSettings settings, slurm::NodeTable& nodes);
  ~SlurmScheduler() override;
  SlurmScheduler(const SlurmScheduler&) = delete;
  SlurmScheduler& operator=(const SlurmScheduler&) = delete;

  [[nodiscard]] std::string name() const override { return "slurm_cli"; }
  [[nodiscard]] int most_submissions() const override { return 12; }
  [[nodiscard]] std::string why_not_now() override;
  [[nodiscard]] std::string submit(const runs::LaunchRequest& request) override;
  [[nodiscard]] runs::StartPreview preview(
      const base::Path& run_directory, const trainer::contract::RunConfig& config,
      const std::optional<std::string>& plan_json) const override;
  [[nodiscard]] runs::SchedulerFinding find(const std::string& token, double since_utc) override;
  // A job is known by its token alone, and the launch that has it is in the run directory.
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t process,
                                                 const base::Path& run_directory) override;
  [[nodiscard]] runs::ProcessReport poll(const std::string& handle) override;
  [[nodiscard]] std::optional<std::vector<std::string>> usable_nodes(
      const trainer::contract::SlurmResources& wanted) override;
  void avoid(const std::string& handle, const std::vector<std::string>& nodes) override;
  void limit(const std::string& handle, std::int64_t minutes) override;
  [[nodiscard]] std::optional<runs::LimitAnswer> take_limit_answer(
      const std::string& handle) override;
  [[nodiscard]] std::vector<std::string> lost_nodes() override;
  void look_soon() override;
  [[nodiscard]] std::optional<runs::Contact> contact(const std::string& handle) override;
  [[nodiscard]] std::optional<runs::Asking> asking() override;
  void somebody_looks() override;
  void stop(const std::string& handle) override;
  void kill(const std::string& handle) override;

 private:
  // Requests are carried out by these: what hangs on one job keeps the next from no more than one.
  static constexpr int kEndThreads = 4;
  static constexpr int kOtherThreads = 2;  // nodes to avoid, and time limits

  [[nodiscard]] slurm::Submission send(const batch::SlurmJob& job, base::FileSystem::Open mode,
                                       const slurm::SlurmCommands& commands);
  // job.id may be empty: not known.
  void expect(const slurm::JobHandle& job, double asked_since_utc);
  void want(slurm::JobRequests* requests, const std::string& handle, slurm::JobRequest::Kind kind,
            std::vector<std::string> nodes = {}, std::int64_t minutes = 0);
  void carry_out(slurm::JobRequests* requests, const std::stop_token& stop);
  [[nodiscard]] std::optional<slurm::SlurmFailure> tell(const slurm::JobRequest& request,
                                                        const slurm::SlurmCommands& commands);
  [[nodiscard]] std::optional<slurm::SlurmFailure> end(const slurm::JobRequest& request,
                                                       const slurm::SlurmCommands& commands);
  [[nodiscard]] std::optional<slurm::SlurmFailure> keep_away(const slurm::JobRequest& request,
                                                             const slurm::SlurmCommands& commands);
  // Under the mutex: logs a failure that is new, and says when to try again.
  [[nodiscard]] std::optional<double> judge(const slurm::JobRequest& request,
                                            const std::optional<slurm::SlurmFailure>& failure);
  void collect(const std::stop_token& stop);
  // Under the mutex: what to ask now.
  [[nodiscard]] std::optional<slurm::PollKind> next_question(double now);
  [[nodiscard]] slurm::PollOutcome ask(slurm::PollKind kind, const slurm::SlurmCommands& commands);
  [[nodiscard]] slurm::PollOutcome get_acquainted(const slurm::SlurmCommands& commands);
  [[nodiscard]] slurm::PollOutcome ask_queue(const slurm::SlurmCommands& commands);
  [[nodiscard]] slurm::PollOutcome ask_accounting(const slurm::SlurmCommands& commands);
  [[nodiscard]] slurm::PollOutcome ask_nodes(const slurm::SlurmCommands& commands);
  [[nodiscard]] slurm::PollOutcome ask_reservations(const slurm::SlurmCommands& commands);
  // Under the mutex: logs a trouble that is new. What an answer means for the budget.
  [[nodiscard]] static slurm::PollOutcome note(const std::string& program,
                                               const slurm::Answer<slurm::Jobs>& answer,
                                               std::string* logged);
  // Under the mutex: Slurm has answered, and what waited for that goes on.
  void note_answer();

  base::FileSystem& files_;
  const base::Clock& clock_;
  const slurm::SlurmCommands commands_;
  const SlurmSettings settings_;
  slurm::NodeTable& nodes_;

  slurm::JobLogs logs_;
  std::mutex mutex_;  // guards what follows
  std::optional<SlurmCluster> cluster_;
  std::string cluster_trouble_;  // why it is not known
  slurm::JobBook book_;
  slurm::PollBudget budget_;
  double busy_until_ = 0;                // monotonic
  std::map<std::string, double> since_;  // by token: no job of it is older, seconds since 1970
  // The last that was logged of each program's answers.
  std::string trouble_, accounting_trouble_;
  runs::Contact contact_;  // end_waits_utc is looked up
  slurm::JobRequests ends_, avoided_, limits_;
  std::map<std::string, runs::LimitAnswer> limit_answers_;  // by token, until they are taken
  std::map<std::string, std::string> troubles_;  // of requests, by token: the last that was logged
  std::condition_variable_any changed_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace regatta::orchestrator::control
