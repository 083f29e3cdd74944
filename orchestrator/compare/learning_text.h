// The difference in what two runs learn as JSON (docs/api.md) and as text for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/compare/learning_causes.h"
#include "orchestrator/compare/learning_difference.h"
#include "orchestrator/compare/learning_replay.h"

namespace regatta::orchestrator::compare {

struct LearnedRun {
  std::string run;  // its id
  LearningCurve curve;
  std::string environment_fault =
      {};  // why its environment.json cannot be read; empty: it can, or is none
};

// `are_known`: both have a fingerprint of what they ran on.
[[nodiscard]] nlohmann::ordered_json learning_json(const LearnedRun& a, const LearnedRun& b,
                                                   const LearningDifference& difference,
                                                   const std::vector<LearningCause>& causes,
                                                   bool are_known);

[[nodiscard]] nlohmann::ordered_json causes_json(const std::vector<LearningCause>& causes);

// What replays have shown: the key "replay" of that JSON.
[[nodiscard]] nlohmann::ordered_json replay_json(const Explanation& explanation);

// Of that JSON: where they part, by how much, and what may have caused it.
[[nodiscard]] std::string learning_text(const nlohmann::ordered_json& learning);

}  // namespace regatta::orchestrator::compare
