// A device that computes like another, but for one bit of one of its results now and then.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>

#include "trainer/device/forwarding_device.h"

namespace regatta::tests {

class FlippingDevice : public trainer::device::ForwardingDevice {
 public:
  // `inner` computes at once, on the host, and outlives this.
  using ForwardingDevice::ForwardingDevice;

  // From now on, of products that add to `target`, the n-th (0 is the first) has a bit flipped in
  // its element bit_of(n), where that is not negative.
  void flip(trainer::device::View target, std::function<std::int64_t(std::int64_t)> element_of) {
    target_ = target;
    element_of_ = std::move(element_of);
    products_ = 0;
  }
  [[nodiscard]] std::int64_t flips() const { return flips_; }

  void gemm(trainer::device::Stream s, const trainer::device::Gemm& op) override {
    ForwardingDevice::gemm(s, op);
    if (!element_of_ || op.c.data != target_.data) return;
    const std::int64_t element = element_of_(products_++);
    if (element < 0) return;
    constexpr std::uint32_t kBit = 1U << 12U;  // of the mantissa: a change of 0.05 % to 0.1 %
    std::uint32_t bits = 0;
    std::memcpy(&bits, target_.floats() + element, sizeof bits);
    bits ^= kBit;
    std::memcpy(target_.floats() + element, &bits, sizeof bits);
    ++flips_;
  }

 private:
  trainer::device::View target_;
  std::function<std::int64_t(std::int64_t)> element_of_;
  std::int64_t products_ = 0, flips_ = 0;
};

}  // namespace regatta::tests
