#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/process.h"
#include "orchestrator/runs/scheduler.h"

namespace regatta::orchestrator::control {

// Attempts as processes of this machine, each in its own session, so that they outlive the
// controller. What an attempt starts stays in that session, in whatever process groups; only a
// program that makes a session of its own gets away. Handle: "<pid>:<start ticks>:<boot id>", which
// names one process for ever.
class LocalScheduler final : public runs::Scheduler {
 public:
  // trainer: the path of regatta-train; environment: all that it gets (trainer_environment.h).
  explicit LocalScheduler(base::Path trainer, std::map<std::string, std::string> environment = {});

  [[nodiscard]] std::string name() const override { return "local"; }
  // The run directory may lie on a file system that does not answer.
  [[nodiscard]] int most_submissions() const override { return 4; }
  [[nodiscard]] std::string submit(const runs::LaunchRequest& request) override;
  [[nodiscard]] runs::StartPreview preview(
      const base::Path& run_directory, const trainer::contract::RunConfig& config,
      const std::optional<std::string>& plan_json) const override;
  [[nodiscard]] runs::SchedulerFinding find(const std::string& token, double since_utc) override;
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t process,
                                                 const base::Path& run_directory) override;
  [[nodiscard]] bool is_gone(std::int64_t process) const override;
  [[nodiscard]] runs::ProcessReport poll(const std::string& handle) override;
  void stop(const std::string& handle) override;
  void kill(const std::string& handle) override;

 private:
  struct Identity {
    pid_t process = 0;
    std::uint64_t start_ticks = 0;
    std::string boot_id;
  };
  // Nothing for text that is no handle.
  [[nodiscard]] static std::optional<Identity> identity_of(const std::string& handle);
  [[nodiscard]] std::string handle_of(pid_t process, std::uint64_t start_ticks) const;
  [[nodiscard]] bool is_alive(const Identity& identity) const;

  [[nodiscard]] std::vector<std::string> arguments_for(const base::Path& run_directory) const;

  base::Path trainer_;
  std::map<std::string, std::string> environment_;
  std::string boot_id_;
  std::mutex mutex_;  // guards the next two
  // Children whose end was reaped; by handle.
  std::map<std::string, base::Exit> ended_;
  std::map<pid_t, std::string> children_;  // not reaped yet
};

}  // namespace regatta::orchestrator::control
