// A plan for people.
#pragma once

#include <string>

#include "orchestrator/plan/planner.h"

namespace regatta::orchestrator::cli {

// The step, the buckets beside the other cuts, what the planner would set otherwise, and the step
// as a picture of at most `columns` characters.
[[nodiscard]] std::string plan_table(const plan::PlanReport& report, int columns = 100);

// The same in sentences: what was chosen and why, what it was chosen from, what it rests on.
[[nodiscard]] std::string plan_sentences(const plan::PlanReport& report);

// The run file with the planner's choices in place of its own, as JSON.
[[nodiscard]] std::string planned_run_file(const trainer::contract::RunConfig& config,
                                           const topology::plan::Plan& plan);

}  // namespace regatta::orchestrator::cli
