// What advice rests on: an earlier run, or short ones that are made for it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/advise/advice.h"
#include "orchestrator/advise/measured_steps.h"
#include "orchestrator/cli/client.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {

struct EarlierRun {
  std::string id;
  std::optional<advise::Noise> noise;       // its newest estimate
  std::optional<advise::Target> target;     // where it met the run file's target first
  std::string why_no_noise, why_no_target;  // of what is not there
  std::vector<std::string> differences;     // keys of the run file that it has otherwise
};
// Code::User where it trained another model or task than the run file's.
// config: with absolute paths.
[[nodiscard]] EarlierRun earlier_run(const Client& client, const std::string& run,
                                     const trainer::contract::RunConfig& config);

struct ProbePlan {
  trainer::contract::RunConfig file;  // with absolute paths
  std::vector<int> ranks, batches;    // each with each, where a rank gets a sample
  int steps = 30;                     // of each
  std::string id;                     // of their tags and keys
  std::string go_on;                  // what to type after Ctrl-C
};
// The run file of one: so many steps, an evaluation at the end, no target, a look at the noise at
// every second step. Its schedule is the beginning of the whole run's.
[[nodiscard]] trainer::contract::RunConfig probe_config(const ProbePlan& plan, int ranks,
                                                        int batch);

struct Probed {
  std::vector<advise::MeasuredStep> steps;
  std::optional<advise::Noise> noise;  // the one that is known best, of all of them
  std::vector<std::string> left_out;   // what cannot be run, a sentence each
  int code = 0;                        // as of TurnsEnd
};
// Runs them one after the other, so that each has the machines to itself. Code::Retry where no
// controller answers, Code::User where there is nothing to run or nothing succeeds; where the first
// does not, the others are not begun.
[[nodiscard]] Probed probe(const Client& client, const ProbePlan& plan);

// Of GET /runs/{id} and its whole history. Code::User where it has too few steps.
[[nodiscard]] advise::MeasuredStep measured_step(const nlohmann::ordered_json& run,
                                                 const nlohmann::ordered_json& history);
[[nodiscard]] std::optional<advise::Noise> noise_of(const nlohmann::ordered_json& run);

}  // namespace regatta::orchestrator::cli
