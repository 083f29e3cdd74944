#pragma once

#include "base/clock.h"
#include "trainer/device/device.h"

namespace regatta::trainer::device {

// FLOP per second of the fastest of a few square products in `dtype`: what model FLOP utilisation
// is measured by where the run file names no peak. Takes a tenth of a second; other ranks on
// the same cores should measure at the same time.
[[nodiscard]] double product_flops(Device& device, const base::Clock& clock, Dtype dtype);

}  // namespace regatta::trainer::device
