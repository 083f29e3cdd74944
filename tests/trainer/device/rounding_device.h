// A Device that computes in 16-bit types around one that computes in float32: activations are
// widened before each operation and rounded after it, as if the worker stored them so. With it,
// whatever runs in several types can be tested without a GPU.
#pragma once

#include <memory>

#include "trainer/device/device.h"

namespace regatta::tests {

// The worker runs operations inside the call, as the CPU device does. With tf32, products of
// float32 operands lose all but 10 bits of their mantissas.
[[nodiscard]] std::unique_ptr<trainer::device::Device> make_rounding_device(
    std::unique_ptr<trainer::device::Device> worker, bool tf32 = false);

}  // namespace regatta::tests
