// Names of the files of a checkpoint, and of tensors that lie in several of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::checkpoint {

// What a checkpoint is made of.
constexpr const char* kModel = "model";
constexpr const char* kOptimizer = "optimizer";

// "optimizer.safetensors" of one shard, else "optimizer-00002-of-00004.safetensors"; `shard` counts
// from 0 below `shards`.
[[nodiscard]] std::string shard_file(std::string_view kind, int shard, int shards);

struct ShardName {
  std::string kind;
  int shard = 0;
  int shards = 1;
};
// Nothing for any other name, so also for other kinds than those two, and for the numbers of an
// only shard.
[[nodiscard]] std::optional<ShardName> parse_shard_file(std::string_view file);

// What keeps these files, among which may be others, from being a checkpoint: the model and all
// shards of the optimizer, of one division. Nothing when they are: "does not list …".
[[nodiscard]] std::optional<std::string> missing_shard(const std::vector<std::string>& files);

// Beside each shard until and after the manifest is there: what its writer says of it.
[[nodiscard]] std::string sidecar_file(std::string_view shard_file);  // + ".digest.json"

// Elements [begin, end) of a tensor, at least one, row-major; it stands in a file as a tensor of
// one dimension.
struct TensorRange {
  std::string tensor;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
[[nodiscard]] std::string range_name(const TensorRange& range);  // "exp_avg.x[4096:8192]"
// Nothing for a name that range_name does not give: then the tensor is whole.
[[nodiscard]] std::optional<TensorRange> parse_range_name(std::string_view name);

}  // namespace regatta::checkpoint
