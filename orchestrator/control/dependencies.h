// Runs that start after others (`regatta submit --after RUN`): each of these must have succeeded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::control {

constexpr std::size_t kMostAfter = 32;  // runs that one run may wait for

// What is known of a run that another one waits for.
struct Dependency {
  std::string id;
  std::optional<runs::Run> run;  // nothing: the store has none
  bool may_come = false;         // where it has none: the runs directory is not read to the end
};

// Why a run does not begin yet.
struct Blockage {
  std::string key;     // stays the same while only steps go on
  std::string reason;  // "waits for demo-4f2a91, which is training (step 412 of 4000)"
  runs::Wait wait;
};

// Nothing where all have succeeded. The one to be named is the one that needs somebody most. Pure.
[[nodiscard]] std::optional<Blockage> blockage_of(const runs::Run& run,
                                                  const std::vector<Dependency>& dependencies);

}  // namespace regatta::orchestrator::control
