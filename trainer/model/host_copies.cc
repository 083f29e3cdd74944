#include "trainer/model/host_copies.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "base/statistics.h"
#include "base/wording.h"

namespace regatta::trainer::model {
namespace {

constexpr int kRounds = 9;

}  // namespace

bool HostCopies::use_pinned() const { return ordinary_seconds >= (1 - kGain) * pinned_seconds; }

std::string HostCopies::text() const {
  const auto microseconds = [](double seconds) {
    return base::formatted("%.0f µs", 1e6 * seconds);
  };
  return std::string("micro-batches are copied from ") + (use_pinned() ? "pinned" : "ordinary") +
         " memory: " + microseconds(use_pinned() ? pinned_seconds : ordinary_seconds) + " each, " +
         microseconds(use_pinned() ? ordinary_seconds : pinned_seconds) + " from " +
         (use_pinned() ? "ordinary" : "pinned");
}

HostCopies try_host_copies(device::Device& device, device::Stream stream, std::int64_t bytes) {
  using Seconds = std::chrono::duration<double>;
  const std::int64_t count = bytes / 4;
  const device::DeviceMemory there(device, count, device::Dtype::Int32);
  const device::HostMemory pinned(device, bytes);
  std::vector<std::int32_t> ordinary(static_cast<std::size_t>(count));
  const auto seconds_of = [&](std::int32_t* from, int round) {
    const auto begin = std::chrono::steady_clock::now();
    std::memset(from, round, static_cast<std::size_t>(4 * count));
    device.copy_to_device(stream, there.view(), from);
    device.wait_host(device.record(stream));
    return Seconds(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<double> pinned_seconds, ordinary_seconds;
  for (int round = 0; round < kRounds; ++round) {  // in turn, so that both see the same machine
    pinned_seconds.push_back(seconds_of(pinned.ints(), round));
    ordinary_seconds.push_back(seconds_of(ordinary.data(), round));
  }
  return {base::median(pinned_seconds), base::median(ordinary_seconds)};
}

}  // namespace regatta::trainer::model
