// The run file's key `determinism`: under which changes of machine and layout a run has the same
// bits (docs/determinism.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace regatta::base {
class Table;
}

namespace regatta::trainer::contract {

struct ParallelRefusal;
struct RunConfig;

// Fast: whatever is quickest. Run: the same machine and layout. Elastic: also with any number of
// ranks that divides the shards. Portable: also on another instruction set of the CPU, and with
// shards as Elastic.
enum class Determinism { Fast, Run, Elastic, Portable };

constexpr int kDefaultShards = 12;  // 1, 2, 3, 4, 6 and 12 ranks
constexpr int kMostShards = 4096;

struct DeterminismConfig {
  Determinism level = Determinism::Run;
  // Logical parts of every step's samples, whose gradients are summed by a fixed tree, whatever the
  // ranks; 0: each rank's gradient is one part.
  int shards = 0;
  friend bool operator==(const DeterminismConfig&, const DeterminismConfig&) = default;
};

// In the run file, in the order of Determinism.
[[nodiscard]] const std::vector<std::string>& determinism_names();
[[nodiscard]] const std::string& name_of(Determinism level);
// "run"; "elastic, 12 shards".
[[nodiscard]] std::string to_text(const DeterminismConfig& determinism);

// Reads `determinism`, a level or a mapping, or the older `deterministic`, which was true for Run
// and false for Fast.
void read_determinism(base::Table& root, DeterminismConfig* determinism);
[[nodiscard]] nlohmann::ordered_json determinism_json(const DeterminismConfig& determinism);

// The first key that the level does not go with, and why. Nothing: it can be kept. Pure.
[[nodiscard]] std::optional<ParallelRefusal> refuse_determinism(const RunConfig& config);

}  // namespace regatta::trainer::contract
