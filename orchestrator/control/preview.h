// What a submission would do, without doing it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/plan/dataset_facts.h"
#include "orchestrator/runs/scheduler.h"
#include "topology/plan/plan.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::control {

struct PreviewCheck {
  std::string name;
  std::optional<bool> good;  // nothing: it cannot be known now
  std::string detail;        // what was found, and what to do
};

struct Preview {
  trainer::contract::RunConfig config;  // with defaults filled in
  std::string defaults;                 // what came from which file; empty: nothing
  std::optional<topology::plan::Plan> plan;
  std::string directory;           // "xxxxxx" stands for what makes the id unique
  std::vector<std::string> after;  // ids
  runs::StartPreview start;        // values of slurm.environment are "(hidden)" in it
  std::vector<PreviewCheck> checks;
};

// The same configuration with "(hidden)" for each value of slurm.environment.
[[nodiscard]] trainer::contract::RunConfig without_secrets(trainer::contract::RunConfig config);

// directory: the first of the run's data without a dataset.
[[nodiscard]] std::string text_of_no_dataset(const std::string& directory);

// Weights and optimizer: what a rank holds at least. dataset: what the run file leaves to it;
// nothing: not known.
[[nodiscard]] PreviewCheck check_memory(const trainer::contract::RunConfig& config,
                                        const std::optional<plan::DatasetFacts>& dataset);

}  // namespace regatta::orchestrator::control
