// The CUDA device on emulated GPUs of both architectures, with every activation type. Each variant
// lets threads and blocks run in another order, since results must not depend on it.
#include "tests/trainer/cuda/emulation/facts.h"
#include "tests/trainer/device/op_cases.h"
#include "trainer/cuda/cuda_device.h"

namespace regatta::tests {
namespace {

using trainer::cuda::CudaAttention;
using trainer::cuda::CudaOptions;
using trainer::device::Dtype;

struct Variant {
  const char* name;
  int architecture;
  Dtype compute;
  const char* order;
  CudaAttention attention = CudaAttention::Automatic;
};
const Variant kVariants[] = {
    {"sm80float32", 80, Dtype::Float32, "forward"},
    {"sm80bfloat16", 80, Dtype::BFloat16, "forward"},
    {"sm80float16", 80, Dtype::Float16, "reverse"},
    {"sm90float32", 90, Dtype::Float32, "random:1"},
    {"sm90bfloat16", 90, Dtype::BFloat16, "random:2"},
    {"sm90float16", 90, Dtype::Float16, "random:3"},
    {"sm80resident", 80, Dtype::Float16, "random:4", CudaAttention::Resident},
    {"sm90resident", 90, Dtype::BFloat16, "forward", CudaAttention::Resident},
    {"sm90wgmma", 90, Dtype::BFloat16, "random:5", CudaAttention::Wgmma},
    {"sm90grouped", 90, Dtype::BFloat16, "reverse", CudaAttention::Grouped},
    {"sm90reference", 90, Dtype::BFloat16, "reverse", CudaAttention::Reference},
};

std::unique_ptr<trainer::device::Device> make(const Variant& variant) {
  emulation::configure(emulation::facts_of(variant.architecture));
  emulation::set_order(
      emulation::order_from_environment().value_or(emulation::parse_order(variant.order)));
  CudaOptions options;
  options.attention = variant.attention;
  options.tune_products = false;
  return trainer::cuda::make_cuda_device(options);
}

}  // namespace

std::vector<DeviceUnderTest> devices_under_test() {
  std::vector<DeviceUnderTest> devices;
  for (const Variant& variant : kVariants) {
    DeviceUnderTest device;
    device.name = variant.name;
    device.make = [&variant] { return make(variant); };
    device.compute = variant.compute;
    devices.push_back(std::move(device));
  }
  return devices;
}

namespace {
INSTANTIATE_TEST_SUITE_P(EmulatedCuda, DeviceOps, testing::ValuesIn(devices_under_test()),
                         [](const auto& device) { return device.param.name; });
}  // namespace

}  // namespace regatta::tests
