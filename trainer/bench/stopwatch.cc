#include "trainer/bench/stopwatch.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "trainer/model/input_feed.h"

namespace regatta::trainer::bench {
namespace {

using model::kCompute;

// Launches replayed as one (Device::repeat), and how long such a group should last.
constexpr std::int64_t kMaxGroup = 64;
constexpr double kGroupSeconds = 0.002;
constexpr std::int64_t kMaxGroupsPerBatch = 1 << 14;

}  // namespace

double CallTiming::median() const { return base::median(seconds); }
double CallTiming::least() const { return *std::min_element(seconds.begin(), seconds.end()); }
double CallTiming::most() const { return *std::max_element(seconds.begin(), seconds.end()); }

CallTiming Stopwatch::measure(const std::function<void()>& enqueue,
                              const std::function<void()>& reset) {
  const auto prepare = [&] {
    if (reset) reset();
    device_.synchronize();
  };
  prepare();
  enqueue();  // whatever a first call does once, it does outside of the measured ones
  device_.synchronize();
  const double once = std::max(1e-7, seconds_of(enqueue, 1));
  const std::int64_t group = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(std::min(kGroupSeconds, options_.batch_seconds) / once)),
      1, kMaxGroup);
  const std::uint64_t key = next_key_++;
  const auto run_group = [&] {
    device_.repeat(kCompute, key, [&] {
      for (std::int64_t i = 0; i < group; ++i) enqueue();
    });
  };
  prepare();
  const double group_seconds = std::max(1e-7, (seconds_of(run_group, 1), seconds_of(run_group, 1)));
  const std::int64_t groups = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(options_.batch_seconds / group_seconds)), 1,
      kMaxGroupsPerBatch);
  CallTiming timing;
  timing.calls_per_batch = groups * group;
  for (int i = 0; i < options_.repetitions; ++i) {
    prepare();
    timing.seconds.push_back(std::max(1e-9, seconds_of(run_group, groups)) /
                             static_cast<double>(groups * group));
  }
  return timing;
}

double Stopwatch::seconds_of(const std::function<void()>& enqueue, std::int64_t count) {
  const double start = clock_.monotonic_seconds();
  for (std::int64_t i = 0; i < count; ++i) enqueue();
  device_.synchronize();
  return clock_.monotonic_seconds() - start;
}

// The same piece over and over; its length is no power of two, so that rows of a matrix differ.
void fill_with_numbers(device::Device& device, const device::View& view) {
  constexpr std::int64_t kPiece = (std::int64_t{1} << 20) + 64 * 17;
  std::vector<float> values(static_cast<std::size_t>(std::min(kPiece, view.size)));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8U) * 0x1p-24F - 0.5F;
  }
  const device::DeviceMemory floats(device, static_cast<std::int64_t>(values.size()),
                                    device::Dtype::Float32);
  device.copy_to_device(kCompute, floats.view(), values.data());
  for (std::int64_t begin = 0; begin < view.size; begin += floats.view().size) {
    const std::int64_t count = std::min(floats.view().size, view.size - begin);
    const device::View from = floats.view().slice(0, count);
    if (view.dtype == device::Dtype::Float32) {
      device.copy(kCompute, view.slice(begin, count), from);
    } else {
      device.convert(kCompute, view.slice(begin, count), from);
    }
  }
  device.synchronize();
}

}  // namespace regatta::trainer::bench
