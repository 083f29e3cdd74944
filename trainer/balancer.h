#pragma once

#include <cstdint>
#include <vector>

namespace regatta::trainer {

// One micro-batch of one rank: places in the global batch, ascending.
using MicroBatch = std::vector<std::int32_t>;

// Assigns the samples of a global batch to `ranks`, and each rank's share to micro-batches of at
// most `micro` samples (0: no limit). Balancing only assigns: the set never changes, and dropout
// follows the ordinal. Samples go to ranks in turn, so shares differ by at most one.
[[nodiscard]] std::vector<MicroBatch> balance(int batch_size, int ranks, int rank, int micro);

}  // namespace regatta::trainer
