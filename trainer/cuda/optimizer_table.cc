#include "trainer/cuda/optimizer_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "trainer/cuda/check.h"
#include "trainer/cuda/handles.h"

namespace regatta::trainer::cuda {
namespace {

bool is_same(const device::OptimizerTensor& a, const device::OptimizerTensor& b) {
  return a.offset == b.offset && a.size == b.size && a.weight_decay == b.weight_decay &&
         a.trust_ratio == b.trust_ratio && a.learning_rate == b.learning_rate &&
         a.number == b.number;
}

}  // namespace

OptimizerChunks chunks_of(const device::OptimizerTensor* tensors, std::int64_t count) {
  OptimizerChunks result;
  std::unordered_map<std::int64_t, std::size_t> last;  // tensor of each number
  for (std::int64_t i = 0; i < count; ++i) {
    const device::OptimizerTensor& tensor = tensors[i];
    OptimizerTensorChunks mine;
    mine.first = static_cast<std::int32_t>(result.chunks.size());
    mine.trust_ratio = tensor.trust_ratio ? 1 : 0;
    base::check(tensor.number >= 0 && tensor.number <= std::numeric_limits<std::int32_t>::max(),
                "a tensor has a number");
    mine.number = static_cast<std::int32_t>(tensor.number);
    if (const auto found = last.find(tensor.number); found != last.end()) {
      mine.is_first = 0;
      result.tensors[found->second].next = static_cast<std::int32_t>(i);
    }
    last[tensor.number] = static_cast<std::size_t>(i);
    for (std::int64_t begin = 0; begin < tensor.size; begin += kChunkElements) {
      OptimizerChunk chunk;
      chunk.begin = tensor.offset + begin;
      chunk.size = static_cast<std::int32_t>(std::min(kChunkElements, tensor.size - begin));
      chunk.tensor = static_cast<std::int32_t>(i);
      chunk.weight_decay = tensor.weight_decay ? 1 : 0;
      chunk.learning_rate = tensor.learning_rate;
      result.chunks.push_back(chunk);
    }
    mine.count = static_cast<std::int32_t>(result.chunks.size()) - mine.first;
    result.tensors.push_back(mine);
  }
  base::check(result.chunks.size() < std::size_t{1} << 30, "the optimizer's chunks can be counted");
  return result;
}

struct OptimizerTables::Table {
  std::vector<device::OptimizerTensor> key;
  DevicePointer memory;
  OptimizerTableView view;
};

OptimizerTables::OptimizerTables() = default;
OptimizerTables::~OptimizerTables() = default;
bool OptimizerTables::full() const { return tables_.size() >= kMaxTables; }
void OptimizerTables::clear() { tables_.clear(); }

const OptimizerTableView* OptimizerTables::find(const device::OptimizerTensor* tensors,
                                                std::int64_t count) const {
  for (const std::unique_ptr<Table>& table : tables_) {
    if (std::equal(table->key.begin(), table->key.end(), tensors, tensors + count, is_same)) {
      return &table->view;
    }
  }
  return nullptr;
}

const OptimizerTableView& OptimizerTables::make(const device::OptimizerTensor* tensors,
                                                std::int64_t count) {
  const OptimizerChunks chunks = chunks_of(tensors, count);
  const std::size_t chunk_bytes = chunks.chunks.size() * sizeof(OptimizerChunk);
  const std::size_t tensor_bytes = chunks.tensors.size() * sizeof(OptimizerTensorChunks);
  auto table = std::make_unique<Table>();
  table->key.assign(tensors, tensors + count);
  table->memory = DevicePointer(std::max<std::size_t>(chunk_bytes + tensor_bytes, 1));
  const PinnedPointer staging(std::max<std::size_t>(chunk_bytes + tensor_bytes, 1));
  auto* bytes = static_cast<unsigned char*>(staging.get());
  if (chunk_bytes > 0) std::memcpy(bytes, chunks.chunks.data(), chunk_bytes);
  if (tensor_bytes > 0) std::memcpy(bytes + chunk_bytes, chunks.tensors.data(), tensor_bytes);
  const OwnStream upload;
  check(cudaMemcpyAsync(table->memory.get(), bytes, chunk_bytes + tensor_bytes,
                        cudaMemcpyHostToDevice, upload.get()),
        "copying the optimizer's table");
  check(cudaStreamSynchronize(upload.get()), "copying the optimizer's table");
  auto* device_bytes = static_cast<unsigned char*>(table->memory.get());
  table->view.chunks = reinterpret_cast<const OptimizerChunk*>(device_bytes);
  table->view.tensors = reinterpret_cast<const OptimizerTensorChunks*>(device_bytes + chunk_bytes);
  table->view.chunk_count = static_cast<std::int64_t>(chunks.chunks.size());
  table->view.tensor_count = count;
  tables_.push_back(std::move(table));
  return tables_.back()->view;
}

}  // namespace regatta::trainer::cuda
