// A run file with a section `sweep`, and the run files of its trials.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "orchestrator/sweeps/next_actions.h"
#include "orchestrator/sweeps/settings.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::sweeps {

struct SweepFile {
  trainer::contract::RunConfig run;  // what all trials have in common
  Sweep sweep;
};

// Code::User with "source:line: …" for what either reader refuses, and for a sweep that contradicts
// its run: time to accuracy without a target, goodput without statistics, a metric that is
// better the other way, parameters that decide what trials are judged by. Paths stay relative.
[[nodiscard]] SweepFile parse_sweep_file(std::string_view text, const std::string& source);

// What a parameter whose values are paths may be ("data.path", "from.path"): each of its values, in
// conditions on it, too, becomes what `change` makes of it.
void change_paths(
    Sweep* sweep,
    const std::function<std::string(const std::string& key, const std::string& path)>& change);

// The file as one canonical JSON object, which parse_sweep_file() reads back: equal files give
// equal text.
[[nodiscard]] std::string to_json(const SweepFile& file);
// Its section `sweep` alone.
[[nodiscard]] nlohmann::ordered_json sweep_json(const Sweep& sweep);
[[nodiscard]] nlohmann::ordered_json values_json(const SweepValues& values);
// Back. Code::Operator for what is no mapping of such values.
[[nodiscard]] SweepValues values_from(const nlohmann::ordered_json& json);

// Optimizer steps that train `budget` in the unit of the sweep: samples are rounded up to whole
// batches. budget 0: the run's own steps.
[[nodiscard]] std::int64_t steps_of(const trainer::contract::RunConfig& run, BudgetUnit unit,
                                    std::int64_t budget);

// The run of a trial: the common one with these values, called NAME-t7, until it has trained its
// budget. A learning rate that follows `steps` follows those of the last rung, so that a trial that
// is promoted goes on as if it had been meant to from the start. Where budgets are samples, it
// evaluates and writes checkpoints after as many samples as the common run does, whatever its
// batch. Code::User, with the trial and its values, where they are no run.
[[nodiscard]] trainer::contract::RunConfig trial_config(const SweepFile& file,
                                                        const StartTrial& trial);

// Code::User for the first trial whose values are no run, of those that are known before anything
// is reached (at most `most` of them): all of a grid, of random search and ASHA; of TPE random
// ones.
void check_trials(const SweepFile& file, int most);

}  // namespace regatta::orchestrator::sweeps
