// A device on which time is FLOPs alone: what it computes is another device's, and products and
// attention last as long as their FLOPs at a given speed. As many of them as one likes then work
// side by side on few cores, as accelerators would, since they sleep most of the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "trainer/device/forwarding_device.h"

namespace regatta::tests {

class PacedDevice : public trainer::device::ForwardingDevice {
 public:
  // `inner` computes at once, on the host, at least that fast; it outlives this.
  PacedDevice(trainer::device::Device& inner, double flops_per_second)
      : ForwardingDevice(inner), speed_(flops_per_second) {}

  // Seconds by which operations took longer than they should have.
  [[nodiscard]] double late_seconds() const { return late_.count(); }

  void gemm(trainer::device::Stream s, const trainer::device::Gemm& op) override {
    last(2.0 * static_cast<double>(op.m) * static_cast<double>(op.n) * static_cast<double>(op.k),
         [&] { ForwardingDevice::gemm(s, op); });
  }
  void attention_forward(trainer::device::Stream s,
                         const trainer::device::AttentionForward& op) override {
    last(2 * products(op.out, op.tokens), [&] { ForwardingDevice::attention_forward(s, op); });
  }
  // The gradients of two products are four.
  void attention_backward(trainer::device::Stream s,
                          const trainer::device::AttentionBackward& op) override {
    last(4 * products(op.out, op.tokens), [&] { ForwardingDevice::attention_backward(s, op); });
  }

 private:
  using Seconds = std::chrono::duration<double>;

  // FLOPs of one product over all heads: of every two tokens of a sample.
  static double products(const trainer::device::View& out,
                         const trainer::device::TokenIdentity& tokens) {
    const std::int32_t* first = tokens.cumulative.ints();
    const std::int64_t samples = tokens.cumulative.size - 1;
    double pairs = 0;
    for (std::int64_t i = 0; i < samples; ++i) {
      const double length = first[i + 1] - first[i];
      pairs += length * length;
    }
    const std::int64_t rows = tokens.ordinal.size;
    return 2 * pairs * static_cast<double>(out.size / rows);
  }

  // What is late for one operation is not made up for by the next: it is as if that were slower.
  template <typename Compute>
  void last(double flops, const Compute& compute) {
    const auto begin = std::chrono::steady_clock::now();
    compute();
    const auto end =
        begin + std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(flops / speed_));
    std::this_thread::sleep_until(end);
    late_ += std::chrono::steady_clock::now() - end;
  }

  double speed_;
  Seconds late_{0};
};

}  // namespace regatta::tests
