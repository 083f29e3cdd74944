// Which of the facts that differ explains a step in which two runs differ: by taking B's step again
// with one of them as it is in A. Who takes it is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "orchestrator/compare/learning_causes.h"
#include "orchestrator/compare/step_probe.h"

namespace regatta::orchestrator::compare {

// What is as in A when a step of B is taken again.
struct ReplayChange {
  std::map<std::string, std::string> keys;  // of the run file, dotted, with their values as JSON
  std::optional<std::string> instruction_set;
  std::map<std::string, std::optional<std::string>> variables;  // nothing: not set
  bool program = false;                                         // A's trainer
};
struct ReplayRequest {
  bool is_b = false;
  std::int64_t step = 0;
  ReplayChange change;
  std::string what;  // is replayed, for people
};
// The probe, or why there is none.
using ReplayAnswer = std::variant<StepProbe, std::string>;
using Replayer = std::function<ReplayAnswer(const ReplayRequest&)>;

inline constexpr int kMostReplays = 8;

struct Replayed {
  std::string what;    // "B with A's seed"
  std::string result;  // "A's step, bit for bit", "differs from A's in activations: …", or why not
};
// Causes that replays have shown, in the order in which they were found.
struct Explanation {
  std::int64_t step = 0;              // that was replayed
  std::vector<PartDifference> parts;  // in which the runs' own replays of it differ
  std::vector<LearningCause> causes;
  std::vector<std::string> proofs;  // of each cause
  std::vector<Replayed> replays;    // all of them
  std::string unknown;              // why nothing, or not all, is explained; empty: all is
};

struct StepsApart {
  std::int64_t first = 0;      // that both took
  std::int64_t differing = 0;  // the first that has other bits
};
// `facts` as learning_facts() tells them.
[[nodiscard]] Explanation explain(const StepsApart& steps, const std::vector<LearningCause>& facts,
                                  const nlohmann::ordered_json& environment_a,
                                  const Replayer& replay);

// What makes that fact of B what it is in A; nothing where no replay can.
[[nodiscard]] std::optional<ReplayChange> change_of(const LearningCause& cause,
                                                    const nlohmann::ordered_json& environment_a);

}  // namespace regatta::orchestrator::compare
