// The rounding device in every precision: the tables of cases themselves, where the CPU device only
// shows them in float32. Once also behind the deferred device, since models are tested so.
#include "tests/trainer/device/deferred_device.h"
#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/rounding_device.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {

std::vector<DeviceUnderTest> devices_under_test() {
  const auto device = [](bool tf32) {
    return make_rounding_device(trainer::cpu::make_cpu_device(1), tf32);
  };
  return {
      {"tf32", [=] { return device(true); }, trainer::device::Dtype::Float32, true},
      {"bf16", [=] { return device(false); }, trainer::device::Dtype::BFloat16},
      {"fp16", [=] { return device(false); }, trainer::device::Dtype::Float16},
      {"deferred_bf16", [=] { return make_deferred_device(device(false), 1234); },
       trainer::device::Dtype::BFloat16},
  };
}

namespace {
INSTANTIATE_TEST_SUITE_P(Rounding, DeviceOps, testing::ValuesIn(devices_under_test()),
                         [](const auto& device) { return device.param.name; });
}

}  // namespace regatta::tests
