// From which host memory micro-batches reach a device sooner: pinned, or ordinary. Found by trying.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/device/device.h"

namespace regatta::trainer::model {

// What a copy takes, with writing what is copied: from the first byte written until it has arrived.
struct HostCopies {
  static constexpr double kGain = 0.05;

  double pinned_seconds = 0;  // medians
  double ordinary_seconds = 0;

  // Pinned memory, which a copy reads while the host goes on, unless ordinary is faster by kGain.
  [[nodiscard]] bool use_pinned() const;
  [[nodiscard]] std::string text() const;
};

// Of so many bytes, on a stream of the caller's that has nothing to do; takes 18 such copies. The
// device is not on the host.
[[nodiscard]] HostCopies try_host_copies(device::Device& device, device::Stream stream,
                                         std::int64_t bytes);

}  // namespace regatta::trainer::model
