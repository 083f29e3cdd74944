// Times operations of a device: many calls between two synchronisations, by the host's clock.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "trainer/device/device.h"

namespace regatta::trainer::bench {

struct CallTiming {
  std::vector<double> seconds;  // of one call, in each batch; at least one
  std::int64_t calls_per_batch = 0;

  [[nodiscard]] double median() const;
  [[nodiscard]] double least() const;
  [[nodiscard]] double most() const;
};

struct StopwatchOptions {
  int repetitions = 7;          // batches of calls
  double batch_seconds = 0.01;  // a batch lasts about this long, or one call
};

class Stopwatch {
 public:
  // Device and clock outlive it.
  Stopwatch(device::Device& device, const base::Clock& clock, const StopwatchOptions& options)
      : device_(device), clock_(clock), options_(options) {}

  // `enqueue`: one call on the compute stream, the same operations on the same memory each time;
  // `reset` before every batch, untimed, may be empty.
  [[nodiscard]] CallTiming measure(const std::function<void()>& enqueue,
                                   const std::function<void()>& reset);

 private:
  double seconds_of(const std::function<void()>& enqueue, std::int64_t count);

  device::Device& device_;
  const base::Clock& clock_;
  StopwatchOptions options_;
  std::uint64_t next_key_ = 0;
};

// Numbers in [-0.5, 0.5): products and copies of zeros can be faster than those of data. Returns
// when they are there.
void fill_with_numbers(device::Device& device, const device::View& view);

}  // namespace regatta::trainer::bench
