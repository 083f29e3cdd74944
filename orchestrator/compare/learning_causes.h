// What is known to differ between two runs that may have made them learn differently.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/compare/facts.h"
#include "orchestrator/compare/learning_difference.h"
#include "orchestrator/compare/step_probe.h"

namespace regatta::orchestrator::compare {

// How much of a step a fact can change.
enum class Reach {
  Anything,
  Later,    // nothing of a first step but its update, or not of every step: other texts
  Rounding  // its last bits
};

// How a step of B is taken again with the fact as it is in A (learning_replay.h).
enum class ReplayWay {
  None,            // not at all: another machine
  Keys,            // by keys of the run file
  InstructionSet,  // REGATTA_ISA
  Threads,
  Variables,
  Program  // A's trainer
};

inline constexpr const char* kWorldSize = "world size";

struct LearningCause {
  std::string kind;  // "tokenisation", "initial weights", … (docs/why-different.md)
  std::string what;  // "another vocabulary"
  Reach reach = Reach::Anything;
  Evidences evidence{};
  ReplayWay way = ReplayWay::None;
  std::vector<std::string> keys{};  // of the run file, beside those that the evidence names
  std::vector<ProbePart> parts{};   // of a step, in which a difference can begin with it
};

// All that differs of what can change what is learned: of two environment.json, or of nulls where
// there is none. In the order in which one would suspect it if nothing of the runs were known.
[[nodiscard]] std::vector<LearningCause> learning_facts(
    const nlohmann::ordered_json& environment_a, const nlohmann::ordered_json& environment_b);

// The same with what fits the journals in front: where the first step is the same, what changes
// later ones; where it differs within rounding, what changes roundings. None where nothing differs.
[[nodiscard]] std::vector<LearningCause> likely_causes(const LearningDifference& difference,
                                                       std::vector<LearningCause> facts);

}  // namespace regatta::orchestrator::compare
