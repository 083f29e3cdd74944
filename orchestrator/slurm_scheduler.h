// Attempts as Slurm jobs: one sbatch per launch, one thread that asks Slurm what has become of
// them all, within a budget (slurm/poll_budget.h).
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/file_system.h"
#include "orchestrator/node_table.h"
#include "orchestrator/scheduler.h"
#include "orchestrator/slurm/batch_script.h"
#include "orchestrator/slurm/job_book.h"
#include "orchestrator/slurm/poll_budget.h"
#include "orchestrator/slurm/slurm_commands.h"

namespace regatta::orchestrator {

struct SlurmSettings {
  base::Path trainer;  // regatta-train, at the same path on every node
  std::string user;    // whose jobs are asked for
  SlurmVersion version;
  bool accounting = true;  // sacct has something to read
  PollLimits limits;
};

// What the cluster is, asked once; Code::Operator with the reason when Slurm cannot be used here.
[[nodiscard]] SlurmSettings probe_slurm(const SlurmCommands& commands, const base::Path& trainer,
                                        const std::string& user);

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
  [[nodiscard]] int most_submissions() const override { return 8; }
  [[nodiscard]] std::string submit(const LaunchRequest& request) override;
  [[nodiscard]] Finding find(const std::string& token) override;
  // A job is known by its token alone, and the launch that has it is in the run directory.
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t process,
                                                 const base::Path& run_directory) override;
  [[nodiscard]] ProcessReport poll(const std::string& handle) override;
  [[nodiscard]] std::optional<std::vector<std::string>> usable_nodes(
      const trainer::SlurmResources& wanted) override;
  void avoid(const std::string& handle, const std::vector<std::string>& nodes) override;
  void look_soon() override;
  void stop(const std::string& handle) override;
  void kill(const std::string& handle) override;

 private:
  [[nodiscard]] Submission send(const SlurmJob& job, base::FileSystem::Open mode);
  void expect(const std::string& token, double asked_since_utc);
  void end(const std::string& handle, bool gently);
  void collect(const std::stop_token& stop);
  // Under the mutex: what to ask now.
  [[nodiscard]] std::optional<PollKind> next_question(double now);
  [[nodiscard]] PollOutcome ask(PollKind kind);
  [[nodiscard]] PollOutcome ask_queue();
  [[nodiscard]] PollOutcome ask_accounting();
  [[nodiscard]] PollOutcome ask_nodes();

  base::FileSystem& files_;
  const base::Clock& clock_;
  const SlurmCommands commands_;
  const SlurmSettings settings_;
  NodeTable& nodes_;

  std::mutex mutex_;  // guards the next four
  JobBook book_;
  PollBudget budget_;
  std::map<std::string, double> since_;  // by token: no job of it is older, seconds since 1970
  std::string trouble_;                  // the last one that was logged
  std::condition_variable_any changed_;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace regatta::orchestrator
