// The real GPU in every type it computes in, with each way of attention.
#include "tests/gpu/gpu.h"
#include "tests/trainer/device/op_cases.h"

namespace regatta::tests {

using trainer::cuda::CudaAttention;
using trainer::cuda::CudaOptions;
using trainer::device::Dtype;

std::vector<DeviceUnderTest> devices_under_test() {
  std::vector<DeviceUnderTest> devices;
  const auto add = [&](const char* name, Dtype compute, const CudaOptions& options) {
    DeviceUnderTest device;
    device.name = name;
    device.make = [options] { return make_gpu(options); };
    device.compute = compute;
    device.tf32 = options.tf32;
    device.large_heads = 16;
    devices.push_back(std::move(device));
  };
  CudaOptions plain;
  CudaOptions tf32;
  tf32.tf32 = true;
  CudaOptions streamed;
  streamed.attention = CudaAttention::Streamed;
  CudaOptions resident;
  resident.attention = CudaAttention::Resident;
  CudaOptions wgmma;
  wgmma.attention = CudaAttention::Wgmma;
  CudaOptions grouped;
  grouped.attention = CudaAttention::Grouped;
  CudaOptions reference;
  reference.attention = CudaAttention::Reference;
  CudaOptions untuned;
  untuned.tune_products = false;
  add("float32", Dtype::Float32, plain);
  add("tf32", Dtype::Float32, tf32);
  add("bfloat16", Dtype::BFloat16, plain);
  add("float16", Dtype::Float16, plain);
  add("bfloat16streamed", Dtype::BFloat16, streamed);
  add("bfloat16resident", Dtype::BFloat16, resident);
  add("float16resident", Dtype::Float16, resident);
  add("bfloat16wgmma", Dtype::BFloat16, wgmma);  // left out by tests/gpu.sh where there is none
  add("float16wgmma", Dtype::Float16, wgmma);
  add("bfloat16grouped", Dtype::BFloat16, grouped);
  add("float16grouped", Dtype::Float16, grouped);
  add("bfloat16reference", Dtype::BFloat16, reference);
  add("bfloat16untuned", Dtype::BFloat16, untuned);
  return devices;
}

namespace {
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceOps, testing::ValuesIn(devices_under_test()),
                         [](const auto& device) { return device.param.name; });
}  // namespace

}  // namespace regatta::tests
