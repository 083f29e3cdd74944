#include "orchestrator/batch/run_job.h"

#include <utility>

#include "base/log.h"

namespace regatta::orchestrator::batch {
namespace {

// Slurm's own signal before the end is a second way beside the deadline that the script hands over.
// It may come a minute early, and a rank that has only just begun would die of it: so not where
// the limit is short, or not known.
constexpr int kLeastMinutesForSignal = 20;
constexpr int kSignalSeconds = 120;

}  // namespace

std::optional<topology::plan::Plan> plan_of_run(base::FileSystem& files,
                                                const base::Path& run_directory, int ranks) {
  const base::Path path = run_directory / "plan.json";
  if (!files.exists(path)) return std::nullopt;
  topology::plan::Plan plan = topology::plan::parse_plan(
      files.read(path, topology::plan::kMostPlanBytes), path.string(), std::nullopt);
  if (plan.ranks == ranks) return plan;
  base::log(base::LogLevel::Warning, path.string() + " is for " + std::to_string(plan.ranks) +
                                         " ranks, and is not used; plan again");
  return std::nullopt;
}

SlurmJob job_of_run(SlurmJob launch, const trainer::contract::RunConfig& config,
                    const std::optional<topology::plan::Plan>& plan) {
  SlurmJob job = std::move(launch);
  job.run_name = config.name;
  job.resources = trainer::contract::slurm_resources_of(config);
  job.signal_seconds =
      job.resources.time_limit_minutes >= kLeastMinutesForSignal ? kSignalSeconds : 0;
  if (!plan) return job;
  const topology::plan::Placement& placement = plan->placement;
  job.plan_environment = placement.environment;
  job.switches = placement.switches;
  job.segment = placement.segment;
  job.exclude.insert(job.exclude.end(), placement.exclude.begin(), placement.exclude.end());
  return job;
}

}  // namespace regatta::orchestrator::batch
