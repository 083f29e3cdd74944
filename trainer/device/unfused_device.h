// A device whose fused operations are made of separate ones: what fusing them saves, for the
// ablation.
#pragma once

#include <memory>

#include "trainer/device/device.h"

namespace regatta::trainer::device {

// `inner`, which outlives it, but for:
// * products: GELU, GELU's derivative and column sums each take a pass of their own. The bias stays
//   in the product: there is no operation that only adds one.
// * LayerNorm forward: dropout, the residual and the normalisation each take a pass of their own.
//   There is no operation that only drops out, so a whole LayerNorm without residual stands for it:
//   a pass that reads and writes as much, and computes a little more.
// * LayerNorm backward: the column sums of the bias take a pass of their own.
// Everything else is forwarded: how attention is computed is chosen where `inner` is made. The same
// results but for rounding, where a 16-bit type holds what the fused operation keeps in float32.
[[nodiscard]] std::unique_ptr<Device> make_unfused_device(Device& inner);

}  // namespace regatta::trainer::device
