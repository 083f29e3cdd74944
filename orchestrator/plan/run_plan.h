// What a run is submitted with: its run file and, if somebody has planned it, the plan.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/plan/planner.h"
#include "topology/plan/plan.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

struct SubmittedRun {
  trainer::contract::RunConfig config;
  std::optional<topology::plan::Plan> plan;
  [[nodiscard]] std::string digest() const;  // of what was asked for
};

// body: a run file, or as JSON one with plan.json's content under "plan". Code::User for a bad one,
// for relative paths of data and models, and for a plan of another number of ranks. A text alone as
// `from` is settled (start_facts.h).
[[nodiscard]] SubmittedRun parse_submitted(const std::string& body);
[[nodiscard]] std::string submitted_body(const SubmittedRun& run);

// config: a canonical run file. The same with other values in its section `slurm`, which changes
// nothing that is trained. changes: {"slurm": {"memory_per_node": "64G", …}}, or empty; mappings
// are merged, and null takes a key away (RFC 7386). Code::User for other keys, and for values that
// a run file cannot have.
[[nodiscard]] std::string with_slurm_changes(const std::string& config, const std::string& changes);
// "slurm.time_limit, slurm.environment.KEY": which keys are others in the second configuration; no
// values, which may be secret.
[[nodiscard]] std::string changed_keys(const std::string& before, const std::string& after);

// What a plan puts into the run directory, by name.
[[nodiscard]] std::map<std::string, std::string> plan_files(const topology::plan::Plan& plan);

// Plans runs for machines that the controller was told of.
class RunPlanner {
 public:
  // runs: their directory, for what earlier ones found out.
  RunPlanner(base::FileSystem& files, topology::graph::Graph machines,
             std::vector<MeasuredLog> measured, base::Path runs)
      : files_(files),
        machines_(std::move(machines)),
        measured_(std::move(measured)),
        runs_(std::move(runs)) {}

  // Nothing for runs on the CPU, on one rank, or whose file says how to cut; nor, logged, for those
  // that cannot be planned: the run does without.
  [[nodiscard]] std::optional<topology::plan::Plan> plan(
      const trainer::contract::RunConfig& config) const;

  [[nodiscard]] const topology::graph::Graph& machines() const { return machines_; }
  [[nodiscard]] const std::vector<MeasuredLog>& measured() const { return measured_; }

 private:
  base::FileSystem& files_;
  topology::graph::Graph machines_;
  std::vector<MeasuredLog> measured_;
  base::Path runs_;
};

}  // namespace regatta::orchestrator::plan
