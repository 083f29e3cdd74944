// Runs of a controller that follow each other, each when the one before is over, however it ended.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/cli/client.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {

struct TurnRun {
  std::string what;  // "2-stages, seed 1": what it is called beside its id
  trainer::contract::RunConfig config;
  std::vector<std::string> tags;
  std::string key;           // of idempotency
  std::string earlier = {};  // the id of the run that has it already; empty: none is known
};

struct Turns {
  std::vector<TurnRun> runs;
  std::string of;     // "of experiment 4f2a91": part of what is said where a key had another file
  std::string go_on;  // said after Ctrl-C: what to type
  // Where the first of them fails, the others would, too: none is begun.
  bool first_decides = false;
};

struct TurnsEnd {
  int code = 0;                  // 1 where one did not succeed, kInterrupted after Ctrl-C
  std::vector<std::string> ids;  // of those submitted, in their order
};

// Submits each run in its turn and returns when all are over; Ctrl-C leaves the one that is under
// way. Whoever calls this again with the same keys goes on where it was, and makes no run twice.
// Says on stderr what happens. Outlasts a controller that restarts.
[[nodiscard]] TurnsEnd run_in_turn(const Client& client, const Turns& turns);

// All rows of GET /runs/{id}/history. *is_thinned becomes true where of old steps only means are
// kept.
[[nodiscard]] nlohmann::ordered_json whole_history(const Client& client, const std::string& id,
                                                   bool* is_thinned);

}  // namespace regatta::orchestrator::cli
