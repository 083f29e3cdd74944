// What is known to differ between two attempts that may have made one of them slower.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/compare/facts.h"
#include "orchestrator/compare/speed_account.h"

namespace regatta::orchestrator::compare {

struct LikelyCause {
  Part part = Part::Other;
  double seconds = 0;  // of a sample, B's less A's
  std::string what;    // for people
  std::vector<Evidence> evidence;
};

// Of each part that has a tenth of the whole difference or more, the largest first, what the
// likely cause is, and what it is seen by; none where the difference is noise. `environment_a` and
// `environment_b` are files as docs/formats/environment.md has them, or null where there is none.
[[nodiscard]] std::vector<LikelyCause> causes_of(const SpeedDifference& difference,
                                                 const SpeedAccount& a, const SpeedAccount& b,
                                                 const nlohmann::ordered_json& environment_a,
                                                 const nlohmann::ordered_json& environment_b);

}  // namespace regatta::orchestrator::compare
