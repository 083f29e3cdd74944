// Few devices for the race check, which is slow; the order of turns does not matter to it.
#include "tests/trainer/cuda/emulation/facts.h"
#include "tests/trainer/device/op_cases.h"
#include "trainer/cuda/cuda_device.h"

namespace regatta::tests {
namespace {

DeviceUnderTest device_of(
    const char* name, trainer::device::Dtype compute,
    trainer::cuda::CudaAttention attention = trainer::cuda::CudaAttention::Automatic) {
  DeviceUnderTest device;
  device.name = name;
  device.compute = compute;
  device.make = [attention] {
    emulation::configure(emulation::facts_of(90));
    emulation::set_order({});
    trainer::cuda::CudaOptions options;
    options.tune_products = false;
    options.attention = attention;
    return trainer::cuda::make_cuda_device(options);
  };
  return device;
}

}  // namespace

std::vector<DeviceUnderTest> devices_under_test() {
  return {
      device_of("float32", trainer::device::Dtype::Float32),
      device_of("bfloat16", trainer::device::Dtype::BFloat16),
      device_of("resident", trainer::device::Dtype::BFloat16,
                trainer::cuda::CudaAttention::Resident),
      device_of("wgmma", trainer::device::Dtype::BFloat16, trainer::cuda::CudaAttention::Wgmma)};
}

namespace {
INSTANTIATE_TEST_SUITE_P(Watched, DeviceOps, testing::ValuesIn(devices_under_test()),
                         [](const auto& device) { return device.param.name; });
}  // namespace

}  // namespace regatta::tests
