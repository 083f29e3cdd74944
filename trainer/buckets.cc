#include "trainer/buckets.h"

#include <string>

namespace regatta::trainer {
namespace {

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
