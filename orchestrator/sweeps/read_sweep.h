// The section `sweep` of a run file (README.md, "Run file").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "orchestrator/sweeps/settings.h"

namespace regatta::orchestrator::sweeps {

inline constexpr int kMostTrials = 100'000;  // of one sweep
inline constexpr int kMostConcurrency = 10'000;
inline constexpr std::int64_t kMostBudget = 1'000'000'000'000'000;  // samples
inline constexpr int kMostFactor = 1000;

// As in run files: runs::Better, BudgetUnit.
[[nodiscard]] const std::vector<std::string>& direction_names();
[[nodiscard]] const std::vector<std::string>& unit_names();

// Reads the section and leaves the other keys of `root` to others. known_keys: those that a
// parameter may set (run_file_keys()). Throws Code::User with "source:line: sweep.…: …", also where
// there is no such section.
[[nodiscard]] Sweep read_sweep(base::Table& root, const std::vector<std::string>& known_keys);
// The same of a text, YAML or JSON, of which nothing else is looked at.
[[nodiscard]] Sweep parse_sweep(std::string_view text, const std::string& source,
                                const std::vector<std::string>& known_keys);

}  // namespace regatta::orchestrator::sweeps
