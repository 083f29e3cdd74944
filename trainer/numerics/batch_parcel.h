// A rank's micro-batches on their way to another rank, which computes their gradients again.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/samples/batch.h"

namespace regatta::trainer::numerics {

// As they lie in memory: ranks run the same program on the same kind of machine.
[[nodiscard]] std::vector<std::byte> pack_batches(const std::vector<samples::PackedBatch>& batches);
// Throws Code::Retry for bytes that are none.
[[nodiscard]] std::vector<samples::PackedBatch> unpack_batches(std::span<const std::byte> parcel);

}  // namespace regatta::trainer::numerics
