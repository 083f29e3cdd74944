// The CPU device in every variant that this machine has.
#include "tests/trainer/device/op_cases.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {

std::vector<DeviceUnderTest> devices_under_test() {
  std::vector<DeviceUnderTest> devices;
  const auto add = [&](const std::string& name, const trainer::cpu::CpuOptions& options) {
    devices.push_back({name, [options] { return trainer::cpu::make_cpu_device(options); }});
  };
  for (const std::string& isa : trainer::cpu::cpu_instruction_sets()) {
    add(isa + "built_in", {1, isa, trainer::cpu::CpuProducts::BuiltIn});
  }
  for (const std::string& isa : trainer::cpu::cpu_instruction_sets()) {
    add(isa + "portable",
        {1, isa, trainer::cpu::CpuProducts::Fastest, trainer::cpu::CpuArithmetic::Portable});
  }
  add("onednn", {1, "", trainer::cpu::CpuProducts::OneDnn});
  add("fastest3threads", {3, "", trainer::cpu::CpuProducts::Fastest});
  return devices;
}

namespace {
INSTANTIATE_TEST_SUITE_P(Cpu, DeviceOps, testing::ValuesIn(devices_under_test()),
                         [](const auto& device) { return device.param.name; });
}

}  // namespace regatta::tests
