#include "trainer/contract/determinism.h"

#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/text.h"
#include "trainer/contract/read_range.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {
namespace {

constexpr const char* kKey = "determinism";
constexpr const char* kOldKey = "deterministic";

using Refusal = std::optional<ParallelRefusal>;

std::string divisors_of(int shards) {
  std::vector<std::string> divisors;
  for (int d = 1; d <= shards; ++d) {
    if (shards % d == 0) divisors.push_back(text_of(d));
  }
  return base::join(divisors, ", ");
}

// Shards sum by a tree of their own; what sums otherwise does not go with it.
Refusal refuse_shards(const RunConfig& config) {
  const int shards = config.determinism.shards;
  const std::string count = text_of(shards), ranks = text_of(config.ranks);
  const std::string with = "does not go with determinism of shards; ";
  if (config.parallel.pipeline > 1) return {{"parallel.pipeline", with + "use 1"}};
  if (config.hierarchical) return {{"hierarchical", with + "set it to false"}};
  if (config.clip == ClipMode::Bucket || config.clip == ClipMode::Rank) {
    return {{"clip.mode", with + "use global or none"}};
  }
  if (config.balance.strategy == Balance::Exchange) {
    return {{"balance.strategy", "exchange " + with + "use global_presort, which deals alike"}};
  }
  if (shards > config.batch_size) {
    return {{kKey, "has " + count + " shards, and batch.size is " + text_of(config.batch_size) +
                       "; use at most one shard for each sample of a step"}};
  }
  if (shards % config.ranks != 0) {
    return {{kKey, "has " + count + " shards, which " + ranks + " ranks do not divide; use " +
                       divisors_of(shards) + " ranks, or a multiple of " + ranks + " shards"}};
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& determinism_names() {
  static const std::vector<std::string> names{"fast", "run", "elastic", "portable"};
  return names;
}

const std::string& name_of(Determinism level) {
  return determinism_names().at(static_cast<std::size_t>(level));
}

std::string to_text(const DeterminismConfig& determinism) {
  const std::string& level = name_of(determinism.level);
  return determinism.shards == 0 ? level : level + ", " + text_of(determinism.shards) + " shards";
}

void read_determinism(base::Table& root, DeterminismConfig* determinism) {
  bool old = determinism->level != Determinism::Fast;
  root.read(kOldKey, &old);
  if (root.has(kOldKey)) {
    determinism->level = old ? Determinism::Run : Determinism::Fast;
    if (root.has(kKey)) {
      root.fail(kOldKey, std::string("is the older spelling of determinism; leave it out"));
    }
  }
  if (root.has(kKey) && !root.is_table(kKey)) {
    root.read_enum(kKey, determinism_names(), &determinism->level);
  } else {
    base::Table table = root.table(kKey);
    table.read_enum("level", determinism_names(), &determinism->level);
    read_range(table, "shards", &determinism->shards, 0, kMostShards);
    table.finish();
    const bool by_layout =
        determinism->level == Determinism::Fast || determinism->level == Determinism::Run;
    if (by_layout && determinism->shards > 0) {
      table.fail("shards", "does not go with level " + name_of(determinism->level) +
                               "; leave it out, or use elastic or portable");
    }
  }
  if (determinism->level == Determinism::Elastic && determinism->shards == 0) {
    determinism->shards = kDefaultShards;
  }
}

// Always a mapping, so that a change may give one of its keys.
nlohmann::ordered_json determinism_json(const DeterminismConfig& determinism) {
  nlohmann::ordered_json json{{"level", name_of(determinism.level)}};
  if (determinism.shards > 0) json["shards"] = determinism.shards;
  return json;
}

std::optional<ParallelRefusal> refuse_determinism(const RunConfig& config) {
  const Determinism level = config.determinism.level;
  if (level != Determinism::Elastic && level != Determinism::Portable) return std::nullopt;
  const std::string with = "does not go with determinism " + name_of(level) + "; ";
  if (config.device != DeviceKind::Cpu) {
    return {{"device", with + "use cpu, or determinism run"}};
  }
  if (grows(config)) return {{"batch.growth", with + "use none"}};
  return config.determinism.shards > 0 ? refuse_shards(config) : std::nullopt;
}

}  // namespace regatta::trainer::contract
