#include "trainer/step/buckets.h"

#include <algorithm>
#include <functional>
#include <string>

namespace regatta::trainer::step {
namespace {

// Where the run file leaves it open. Open MPI 4.1 moves 1 to 4 MB fastest through shared memory
// (7.4 and 5.9 GB/s, 1.6 at 64 MB), because they fit caches; 25 is the default of PyTorch's DDP.
constexpr std::int64_t kCpuBucketBytes = std::int64_t{4} << 20;
constexpr std::int64_t kGpuBucketBytes = std::int64_t{25} << 20;

const std::string kLayer = "bert.encoder.layer.";

// "bert.encoder.layer.7" of a tensor of that layer, else what it belongs to.
std::string part_of(const std::string& name) {
  if (name.rfind(kLayer, 0) == 0) return name.substr(0, name.find('.', kLayer.size()));
  return name.rfind("bert.embeddings.", 0) == 0 ? "embeddings" : "heads";
}

// The same, and within a layer the block of it.
std::string block_of(const std::string& name) {
  const std::string part = part_of(name);
  if (name.rfind(kLayer, 0) != 0) return part;
  for (const char* block : {".output.", ".intermediate.", ".attention.output."}) {
    if (name.compare(part.size(), std::string(block).size(), block) == 0) return part + block;
  }
  return part + ".attention.self.";
}

// A bucket for each run of neighbours that `group` calls alike.
std::vector<topology::plan::Bucket> buckets_by(
    const contract::TensorTable& table,
    const std::function<std::string(const std::string& name)>& group) {
  std::vector<topology::plan::Bucket> buckets;
  std::string last;
  for (int i = 0; i < static_cast<int>(table.tensors.size()); ++i) {
    const std::string here = group(table.tensors[static_cast<std::size_t>(i)].name);
    if (buckets.empty() || here != last) buckets.push_back({i, i});
    last = here;
    buckets.back().end_tensor = i + 1;
  }
  return buckets;
}

}  // namespace

std::vector<topology::plan::Bucket> buckets_of_bytes(const contract::TensorTable& table,
                                                     std::int64_t bytes) {
  const auto count = static_cast<int>(table.tensors.size());
  if (bytes == 0) return {{0, count}};
  std::vector<topology::plan::Bucket> buckets;
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

std::vector<topology::plan::Bucket> default_buckets(const contract::RunConfig& config,
                                                    const contract::TensorTable& table,
                                                    bool is_cuda) {
  if (config.ranks == 1 || config.buckets.by == contract::BucketPolicy::One) {
    return buckets_of_bytes(table, 0);
  }
  if (config.buckets.by == contract::BucketPolicy::PerLayer) return buckets_per_layer(table);
  const std::int64_t usual = is_cuda ? kGpuBucketBytes : kCpuBucketBytes;
  return buckets_of_bytes(table, config.buckets.bytes > 0 ? config.buckets.bytes : usual);
}

std::vector<topology::plan::Bucket> buckets_per_layer(const contract::TensorTable& table) {
  return buckets_by(table, part_of);
}

std::vector<topology::plan::Bucket> buckets_as_announced(const contract::TensorTable& table) {
  return buckets_by(table, block_of);
}

std::vector<topology::plan::Bucket> stage_buckets(
    const std::vector<topology::plan::Bucket>& buckets, const contract::StageTensors& stage) {
  std::vector<topology::plan::Bucket> cut;
  for (const topology::plan::Bucket& bucket : buckets) {
    const int begin = std::max(bucket.begin_tensor, stage.begin);
    const int end = std::min(bucket.end_tensor, stage.end);
    if (begin < end) cut.push_back({begin, end});
  }
  if (stage.tied >= 0) cut.push_back({stage.tied, stage.tied + 1});
  return cut;
}

}  // namespace regatta::trainer::step
