// Whether a GPU can be used, and what it is.
#pragma once

#include <string>

#include "trainer/cuda/kernels/kernels.h"

namespace regatta::trainer::cuda {

struct DeviceReport {
  std::string name;
  DeviceFacts facts;
  int driver_version = 0;  // 1000·major + 10·minor, as CUDA counts
  int runtime_version = 0;
};

constexpr int kOldestArchitecture = 80;

// Makes GPU `index` the calling thread's and returns what it is; throws as make_cuda_device says.
[[nodiscard]] DeviceReport examine_device(int index);

// "13.0" of 13000.
[[nodiscard]] std::string version_text(int version);

}  // namespace regatta::trainer::cuda
