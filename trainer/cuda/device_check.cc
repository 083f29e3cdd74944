#include "trainer/cuda/device_check.h"

#include <memory>

#include "base/error.h"
#include "trainer/cuda/check.h"

namespace regatta::trainer::cuda {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw base::Error(base::Code::Operator, message);
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "asking what the GPU is");
  return value;
}

// How many GPUs there are; refuses where CUDA cannot start at all.
int count_devices(int driver_version, int runtime_version) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (driver_version == 0) {
    refuse(
        "no NVIDIA driver is installed here (the CUDA runtime found none); use device cpu, or run "
        "on a node with a GPU");
  }
  if (status == cudaErrorInsufficientDriver) {
    refuse("the NVIDIA driver is too old: it offers CUDA " + version_text(driver_version) +
           " and this program needs " + version_text(runtime_version) +
           "; update the driver, or build with the driver's CUDA version");
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    refuse(
        "no NVIDIA GPU is visible to this process; ask Slurm for one (--gres=gpu:1), look at "
        "CUDA_VISIBLE_DEVICES, or use device cpu");
  }
  check(status, "counting GPUs");
  return count;
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

DeviceReport examine_device(int index) {
  DeviceReport report;
  check(cudaDriverGetVersion(&report.driver_version), "asking for the driver's version");
  check(cudaRuntimeGetVersion(&report.runtime_version), "asking for the runtime's version");
  const int count = count_devices(report.driver_version, report.runtime_version);
  if (index < 0 || index >= count) {
    throw base::Error(base::Code::User,
                      "GPU " + std::to_string(index) + " was asked for, but this process sees " +
                          std::to_string(count) +
                          " (counted from 0); choose one of them or look at CUDA_VISIBLE_DEVICES");
  }
  const auto properties = std::make_unique<cudaDeviceProp>();
  check(cudaGetDeviceProperties(properties.get(), index), "asking what the GPU is");
  report.name = properties->name;
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
  report.facts.architecture = 10 * major + minor;
  if (report.facts.architecture < kOldestArchitecture) {
    refuse(report.name + " has compute capability " + std::to_string(major) + "." +
           std::to_string(minor) +
           ", and the kernels need 8.0 (Ampere) or newer; choose another GPU or use device cpu");
  }
  report.facts.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, index);
  report.facts.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  check(cudaSetDevice(index), "choosing the GPU");
  return report;
}

}  // namespace regatta::trainer::cuda
