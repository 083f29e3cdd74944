// A Device that notes what is asked of another: each operation as a line of its sizes and of what
// it is given, without addresses and values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/device/device.h"

namespace regatta::tests {

// `inner` and `lines` outlive it. Copies, fills, the optimizer and whatever is no operation are
// passed on without a line.
[[nodiscard]] std::unique_ptr<trainer::device::Device> make_recording_device(
    trainer::device::Device& inner, std::vector<std::string>* lines);

}  // namespace regatta::tests
