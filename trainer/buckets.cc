#include "trainer/buckets.h"

#include <string>

namespace regatta::trainer {
namespace {

// Where the run file leaves it open. Shared memory moves 1 to 4 MB fastest (they fit caches); 25 is
// what most stacks on GPUs take (facts: cpu-cuda.md section 5, topology-nccl.md section 6.1).
constexpr std::int64_t kCpuBucketBytes = std::int64_t{4} << 20;
constexpr std::int64_t kGpuBucketBytes = std::int64_t{25} << 20;

// "bert.encoder.layer.7" of a tensor of that layer, else what comes before the first dot.
std::string part_of(const std::string& name) {
  const std::string layer = "bert.encoder.layer.";
  if (name.rfind(layer, 0) == 0) return name.substr(0, name.find('.', layer.size()));
  return name.rfind("bert.embeddings.", 0) == 0 ? "embeddings" : "heads";
}

}  // namespace

std::vector<topology::Bucket> buckets_of_bytes(const TensorTable& table, std::int64_t bytes) {
  const auto count = static_cast<int>(table.tensors.size());
  if (bytes == 0) return {{0, count}};
  std::vector<topology::Bucket> buckets;
  std::int64_t size = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t more = table.tensors[static_cast<std::size_t>(i)].size * 4;
    if (buckets.empty() || size + more > bytes) {
      buckets.push_back({i, i});
      size = 0;
    }
    buckets.back().end_tensor = i + 1;
    size += more;
  }
  return buckets;
}

std::vector<topology::Bucket> default_buckets(const RunConfig& config, const TensorTable& table,
                                              bool is_cuda) {
  if (config.ranks == 1 || config.buckets.by == BucketPolicy::One) {
    return buckets_of_bytes(table, 0);
  }
  if (config.buckets.by == BucketPolicy::PerLayer) return buckets_per_layer(table);
  const std::int64_t usual = is_cuda ? kGpuBucketBytes : kCpuBucketBytes;
  return buckets_of_bytes(table, config.buckets.bytes > 0 ? config.buckets.bytes : usual);
}

std::vector<topology::Bucket> buckets_per_layer(const TensorTable& table) {
  std::vector<topology::Bucket> buckets;
  std::string part;
  for (int i = 0; i < static_cast<int>(table.tensors.size()); ++i) {
    const std::string here = part_of(table.tensors[static_cast<std::size_t>(i)].name);
    if (here != part) buckets.push_back({i, i});
    part = here;
    buckets.back().end_tensor = i + 1;
  }
  return buckets;
}

}  // namespace regatta::trainer
