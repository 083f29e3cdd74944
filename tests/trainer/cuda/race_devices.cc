// Few devices for the race check, which is slow; the order of turns does not matter to it.
#include "tests/trainer/cuda/emulation/facts.h"
#include "tests/trainer/device/op_cases.h"
#include "trainer/cuda/cuda_device.h"

namespace regatta::tests {
namespace {

DeviceUnderTest device_of(const char* name, trainer::Dtype compute,
                          trainer::CudaAttention attention = trainer::CudaAttention::Automatic) {
  DeviceUnderTest device;
  device.name = name;
  device.compute = compute;
  device.make = [attention] {
    emulation::configure(emulation::facts_of(90));
    emulation::set_order({});
    trainer::CudaOptions options;
    options.tune_products = false;
    options.attention = attention;
    return trainer::make_cuda_device(options);
  };
  return device;
}

}  // namespace

std::vector<DeviceUnderTest> devices_under_test() {
  return {device_of("float32", trainer::Dtype::Float32),
          device_of("bfloat16", trainer::Dtype::BFloat16),
          device_of("resident", trainer::Dtype::BFloat16, trainer::CudaAttention::Resident),
          device_of("wgmma", trainer::Dtype::BFloat16, trainer::CudaAttention::Wgmma)};
}

namespace {
INSTANTIATE_TEST_SUITE_P(Watched, DeviceOps, testing::ValuesIn(devices_under_test()),
                         [](const auto& device) { return device.param.name; });
}  // namespace

}  // namespace regatta::tests
