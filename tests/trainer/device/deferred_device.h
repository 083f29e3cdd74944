// A Device that keeps its promises as late as it may, around a CPU device that does the work. What
// runs on it can run on streams and be captured in graphs. It
//
// * runs nothing until wait_host() or synchronize() forces it, and then in an order between streams
//   that respects nothing but the events: with seed 0 only what the awaited event needs, and at
//   synchronize() the youngest stream first; with another seed, one operation at a time of a stream
//   drawn at random. Host memory is read and written when a copy runs, so a buffer that changes too
//   early changes the result.
// * fills with 0xFF (NaN, −1) new memory, released memory, the host memory that a copy will write,
// and
//   device memory that an operation will overwrite, the last two as soon as they are enqueued
//   unless work still to run uses them. Reading early gives NaN.
// * releases memory only at synchronize().
// * refuses races: an operation that touches memory which work on another stream touches too, one
// of
//   the two writing, without events (or a wait of the host) in between, throws Code::Developer
//   naming both. This is found by vector clocks, so it does not depend on the order that was drawn.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/device/device.h"

namespace regatta::tests {

[[nodiscard]] std::unique_ptr<trainer::device::Device> make_deferred_device(
    std::unique_ptr<trainer::device::Device> worker, std::uint64_t seed);
// Around a CPU device.
[[nodiscard]] std::unique_ptr<trainer::device::Device> make_deferred_device(int threads,
                                                                            std::uint64_t seed = 0);

}  // namespace regatta::tests
