// What lies in each tensor of an arena, as one number for each: two that differ, differ in a bit.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/device/device.h"

namespace regatta::trainer::numerics {

using TensorDigests = std::vector<std::uint64_t>;

// 64 bits of XXH3-128 of each tensor's bytes, in the table's order. Waits for what is enqueued.
[[nodiscard]] TensorDigests tensor_digests(device::Device& device, device::View arena,
                                           const contract::TensorTable& table);

// Of all of them.
[[nodiscard]] std::uint64_t digest_of(const TensorDigests& digests);

}  // namespace regatta::trainer::numerics
