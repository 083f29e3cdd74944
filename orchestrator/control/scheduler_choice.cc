#include "orchestrator/control/scheduler_choice.h"

#include "base/error.h"

namespace regatta::orchestrator::control {
namespace {

using Kind = SchedulerChoice::Kind;

constexpr const char* kForProcesses =
    "; use --scheduler local for runs as processes of this machine";

SchedulerChoice processes(const std::string& why, bool surprising) {
  return {Kind::Processes, std::nullopt, why, surprising};
}
SchedulerChoice silent(const std::string& why) {
  return {Kind::Slurm, std::nullopt, "runs wait for Slurm: " + why + kForProcesses, true};
}

}  // namespace

SchedulerChoice choose_scheduler(const std::string& option, bool has_slurm_runs,
                                 const slurm::SlurmCommands& commands) {
  if (option == "local") return {};
  const bool demanded = option == "slurm_cli";
  const slurm::Answer<SlurmCluster> cluster = ask_cluster(commands);
  if (cluster.value) {
    return {Kind::Slurm, cluster.value,
            "runs go to Slurm " + slurm::to_string(cluster.value->version) +
                (cluster.value->accounting ? ""
                                           : ", which keeps no accounting: how a job ended is "
                                             "known for as long as slurmctld remembers it"),
            false};
  }
  const std::string& why = cluster.failure->message;
  switch (cluster.failure->kind) {
    case slurm::FailureKind::Missing:
    case slurm::FailureKind::Unconfigured:
      if (demanded) throw base::Error(base::Code::Operator, "Slurm cannot be used: " + why);
      if (has_slurm_runs) return silent(why + "; runs of this controller belong to Slurm");
      return processes("runs are processes of this machine: " + why,
                       cluster.failure->kind == slurm::FailureKind::Unconfigured);
    default:
      return silent(why);
  }
}

}  // namespace regatta::orchestrator::control
