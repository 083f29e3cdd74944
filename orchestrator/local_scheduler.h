#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "base/process.h"
#include "orchestrator/scheduler.h"

namespace regatta::orchestrator {

// Attempts as processes of this machine, each in its own session, so that they outlive the
// controller. What an attempt starts stays in that session, in whatever process groups; only a
// program that makes a session of its own gets away. Handle: "<pid>:<start ticks>:<boot id>", which
// names one process for ever.
class LocalScheduler final : public Scheduler {
 public:
  // trainer: the path of regatta-train.
  explicit LocalScheduler(base::Path trainer);

  [[nodiscard]] std::string name() const override { return "local"; }
  [[nodiscard]] std::string submit(const LaunchRequest& request) override;
  [[nodiscard]] Finding find(const std::string& token) override;
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t process,
                                                 const base::Path& run_directory) override;
  [[nodiscard]] bool is_gone(std::int64_t process) const override;
  [[nodiscard]] ProcessReport poll(const std::string& handle) override;
  void stop(const std::string& handle) override;
  void kill(const std::string& handle) override;

 private:
  struct Identity {
    pid_t process = 0;
    std::uint64_t start_ticks = 0;
  };
  // Nothing for a handle of another boot, or text that is no handle.
  [[nodiscard]] std::optional<Identity> identity_of(const std::string& handle) const;
  [[nodiscard]] std::string handle_of(pid_t process, std::uint64_t start_ticks) const;
  [[nodiscard]] static bool is_alive(const Identity& identity);

  base::Path trainer_;
  std::string boot_id_;
  // Children whose end was reaped; by handle.
  std::map<std::string, base::Exit> ended_;
  std::map<pid_t, std::string> children_;  // not reaped yet
};

}  // namespace regatta::orchestrator
