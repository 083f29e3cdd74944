// The deferred device: the same operations, as late as allowed.
#include "tests/trainer/device/deferred_device.h"
#include "tests/trainer/device/op_cases.h"

namespace regatta::tests {

std::vector<DeviceUnderTest> devices_under_test() {
  return {{"needed_only", [] { return make_deferred_device(1, 0); }},
          {"random_order", [] { return make_deferred_device(2, 4711); }}};
}

namespace {
INSTANTIATE_TEST_SUITE_P(Deferred, DeviceOps, testing::ValuesIn(devices_under_test()),
                         [](const auto& device) { return device.param.name; });
}

}  // namespace regatta::tests
