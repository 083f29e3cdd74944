#include "trainer/contract/guard_config.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/document.h"
#include "trainer/contract/read_range.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {
namespace {

const std::vector<std::string> kOnCorruption{"stop", "warn"};
constexpr std::int64_t kMostReplayEvery = 1'000'000'000;

}  // namespace

void read_guard(base::Table& root, GuardConfig* guard) {
  base::Table table = root.table("guard");
  table.read("alarms", &guard->alarms);
  read_range(table, "replay_every", &guard->replay_every, 0, kMostReplayEvery);
  table.read_enum("on_corruption", kOnCorruption, &guard->on_corruption);
  table.finish();
}

nlohmann::ordered_json guard_json(const GuardConfig& guard) {
  return {{"alarms", guard.alarms},
          {"replay_every", guard.replay_every},
          {"on_corruption", kOnCorruption.at(static_cast<std::size_t>(guard.on_corruption))}};
}

const char* why_no_replays(const RunConfig& config) {
  if (config.guard.replay_every == 0) return "guard.replay_every is 0";
  if (config.parallel.pipeline > 1) return "the run has pipeline stages";
  if (config.determinism.shards > 0) return "the run's gradients are sums of shards";
  return config.determinism.level == Determinism::Fast ? "determinism is fast" : nullptr;
}

std::int64_t replay_every(const RunConfig& config) {
  return why_no_replays(config) == nullptr ? config.guard.replay_every : 0;
}

}  // namespace regatta::trainer::contract
