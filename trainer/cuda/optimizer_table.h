// The optimizer's tensors cut into chunks that one block each updates, kept in device memory. A
// table depends on OptimizerUpdate::tensors alone, so it is built and uploaded when a list of
// tensors is first seen, and never again.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/cuda/kernels/kernels.h"
#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

// Small enough that the last wave of blocks costs little (BERT-large has 20,500 chunks), large
// enough that a chunk's sums and its table entry cost nothing.
constexpr std::int64_t kChunkElements = 16384;

struct OptimizerChunk {
  std::int64_t begin = 0;  // element of the arena
  std::int32_t size = 0;   // ≤ kChunkElements
  std::int32_t tensor = 0;
  std::int32_t weight_decay = 0;
  float learning_rate = 1;  // × the step's
};
struct OptimizerTensorChunks {
  std::int32_t first = 0, count = 0;  // of its chunks
  std::int32_t trust_ratio = 0;
  // Pieces of one tensor are a chain, in table order, for one block to add up.
  std::int32_t is_first = 1;  // of its chain
  std::int32_t next = -1;     // tensor of the chain, or −1
  std::int32_t number = 0;
};
struct OptimizerChunks {
  std::vector<OptimizerChunk> chunks;  // table order; an empty tensor has none
  std::vector<OptimizerTensorChunks> tensors;
};
[[nodiscard]] OptimizerChunks chunks_of(const device::OptimizerTensor* tensors, std::int64_t count);

// A table in device memory.
struct OptimizerTableView {
  const OptimizerChunk* chunks = nullptr;
  const OptimizerTensorChunks* tensors = nullptr;
  std::int64_t chunk_count = 0;
  std::int64_t tensor_count = 0;
};

// All tables of a device. A table stays where it is, since graphs refer to it, until clear().
class OptimizerTables {
 public:
  // A run has one list of tensors per bucket of its gradient exchange. Beyond this many lists it
  // works, but makes tables in every step.
  static constexpr std::size_t kMaxTables = 1024;

  OptimizerTables();
  ~OptimizerTables();
  OptimizerTables(const OptimizerTables&) = delete;
  OptimizerTables& operator=(const OptimizerTables&) = delete;

  // The table of these tensors, or null: then make it, outside of any capture.
  [[nodiscard]] const OptimizerTableView* find(const device::OptimizerTensor* tensors,
                                               std::int64_t count) const;
  // Uploads through pinned memory on a stream of its own and waits for that alone (microseconds),
  // so whatever is enqueued afterwards, on any stream, sees the table. Throws base::Error.
  const OptimizerTableView& make(const device::OptimizerTensor* tensors, std::int64_t count);
  [[nodiscard]] bool full() const;
  // Only when nothing enqueued or captured uses a table.
  void clear();

 private:
  struct Table;
  std::vector<std::unique_ptr<Table>> tables_;
};

// Any part. op.scalars, op.squared_norm, op.tensor_norms and the table are read on the device: the
// same launches for every step. LAMB needs 16 bytes of scratch per chunk and 4 per tensor.
void update(const KernelLaunch& at, const device::OptimizerUpdate& op,
            const OptimizerTableView& table);

}  // namespace regatta::trainer::cuda
