// The difference in speed of two runs as JSON (docs/api.md) and as text for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/compare/speed_account.h"
#include "orchestrator/compare/speed_causes.h"

namespace regatta::orchestrator::compare {

struct ComparedAttempt {
  std::string run;  // its id
  int attempt = 0;
  SpeedAccount account;
};

[[nodiscard]] nlohmann::ordered_json speed_json(const ComparedAttempt& a, const ComparedAttempt& b,
                                                const SpeedDifference& difference,
                                                const std::vector<LikelyCause>& causes);

// Of that JSON: the rates, a table of parts, and a line for each cause with what tells of it.
[[nodiscard]] std::string speed_text(const nlohmann::ordered_json& speed);

}  // namespace regatta::orchestrator::compare
