#include "trainer/contract/parallel_config.h"

#include <algorithm>

#include "base/document.h"
#include "trainer/contract/read_range.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {
namespace {

constexpr int kMostRanks = 1 << 20;

}  // namespace

const std::vector<std::string>& pipeline_order_names() {
  static const std::vector<std::string> names{"1f1b", "gpipe"};
  return names;
}

std::vector<int> RankGrid::ranks_of_stage(int stage) const {
  std::vector<int> members;
  for (int replica = 0; replica < data; ++replica) members.push_back(rank_of(stage, replica));
  return members;
}

RankGrid rank_grid(const RunConfig& config) {
  return {config.ranks / config.parallel.pipeline, config.parallel.pipeline};
}

void read_parallel(base::Table& root, RunConfig* config) {
  base::Table table = root.table("parallel");
  ParallelConfig& parallel = config->parallel;
  read_range(table, "data", &parallel.data, 0, kMostRanks);
  read_range(table, "pipeline", &parallel.pipeline, 1, kMostLayers);
  table.read_enum("schedule", pipeline_order_names(), &parallel.schedule);
  table.finish();
  if (root.has("ranks")) return;
  // Of a key that the file has: the ranks, which it has not, would be too many.
  if (parallel.data > config->batch_size) {
    table.fail("data", "is " + text_of(parallel.data) + ", and batch.size is " +
                           text_of(config->batch_size) +
                           "; use at most one replica for each sample of a step");
  }
  config->ranks = static_cast<int>(std::min<std::int64_t>(
      kMostRanks, std::int64_t{std::max(1, parallel.data)} * parallel.pipeline));
}

std::optional<ParallelRefusal> refuse_parallel(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const auto refuse = [](const std::string& key, const std::string& message) {
    return std::optional<ParallelRefusal>({key, message});
  };
  const std::string ranks = text_of(config.ranks), stages = text_of(parallel.pipeline);
  if (config.ranks % parallel.pipeline != 0) {
    return refuse("parallel.pipeline", "is " + stages + ", which does not divide ranks (" + ranks +
                                           "); set ranks to a multiple of it");
  }
  const int data = config.ranks / parallel.pipeline;
  if (parallel.data > 0 && parallel.data != data) {
    return refuse("parallel.data", "is " + text_of(parallel.data) + ", and ranks is " + ranks +
                                       " with parallel.pipeline " + stages + "; use " +
                                       text_of(data) + ", or leave ranks out");
  }
  if (data > config.batch_size) {
    return refuse("parallel.data", "comes to " + text_of(data) + ", and batch.size is " +
                                       text_of(config.batch_size) +
                                       "; use at most one replica for each sample of a step");
  }
  if (auto refusal = refuse_determinism(config)) return refusal;
  if (parallel.pipeline == 1) return std::nullopt;
  if (parallel.pipeline > config.model.layers) {
    return refuse("parallel.pipeline", "is " + stages + ", and the model has " +
                                           text_of(config.model.layers) +
                                           " layers; use at most one stage for each layer");
  }
  const int share = config.batch_size / data;  // of the replica with fewest samples
  const int micro = config.micro_batch_size > 0 ? config.micro_batch_size : share;
  const int count = micro > 0 ? (share + micro - 1) / micro : 0;
  if (count < parallel.pipeline) {
    const int most = share / parallel.pipeline;
    return refuse("batch.micro",
                  "makes " + text_of(count) + " micro-batches of the " + text_of(share) +
                      " samples that a replica has of a step, and parallel.pipeline is " + stages +
                      (most > 0 ? "; set batch.micro to at most " + text_of(most)
                                : "; raise batch.size, or use fewer stages"));
  }
  if (config.sharding.optimizer) {
    return refuse("sharding.optimizer", "does not go with parallel.pipeline yet; set it to false");
  }
  if (config.clip == ClipMode::Bucket || config.clip == ClipMode::Rank) {
    return refuse("clip.mode", "does not go with parallel.pipeline yet; use global or none");
  }
  if (config.hierarchical) {
    return refuse("hierarchical", "does not go with parallel.pipeline yet; set it to false");
  }
  if (config.fine_tuning.frozen_layers > 0) {
    return refuse("fine_tuning.frozen_layers", "does not go with parallel.pipeline yet; use 0");
  }
  return std::nullopt;
}

}  // namespace regatta::trainer::contract
