#include "trainer/device/device_peak.h"

#include <algorithm>

namespace regatta::trainer::device {
namespace {

constexpr Stream kCompute = 0;
constexpr int kLeastRepetitions = 4;  // the first one warms up
constexpr double kSeconds = 0.1;      // the best of many: on a busy machine most are slow
// 1.1 GFLOP: 10 ms on two cores. 1.1 TFLOP: 2 ms on an H200.
constexpr std::int64_t kHostSide = 816;
constexpr std::int64_t kGpuSide = 8192;

}  // namespace

double product_flops(Device& device, const base::Clock& clock, Dtype dtype) {
  const std::int64_t side = device.is_on_host() ? kHostSide : kGpuSide;
  const DeviceMemory a(device, side * side, dtype);
  const DeviceMemory b(device, side * side, dtype);
  const DeviceMemory c(device, side * side, dtype);
  device.fill_zero(kCompute, a.view());
  device.fill_zero(kCompute, b.view());
  Gemm op;
  op.m = op.n = op.k = side;
  op.a = a.view();
  op.b = b.view();
  op.c = c.view();
  op.transpose_b = true;
  double best = 1e9;
  const double begin = clock.monotonic_seconds();
  for (int i = 0; i < kLeastRepetitions || clock.monotonic_seconds() < begin + kSeconds; ++i) {
    device.synchronize();
    const double start = clock.monotonic_seconds();
    device.gemm(kCompute, op);
    device.synchronize();
    if (i > 0) best = std::min(best, clock.monotonic_seconds() - start);
  }
  const auto n = static_cast<double>(side);
  return 2 * n * n * n / std::max(best, 1e-9);
}

}  // namespace regatta::trainer::device
