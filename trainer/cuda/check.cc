#include "trainer/cuda/check.h"

#include <string>

#include "base/error.h"

namespace regatta::trainer::cuda {
namespace {

base::Code code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNotPermitted:
      return base::Code::Operator;
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchTimeout:
    case cudaErrorUnknown:
      return base::Code::Retry;
    default:
      return base::Code::Developer;
  }
}

std::string_view advice(base::Code code) {
  switch (code) {
    case base::Code::Operator:
      return "; check the GPU and its driver with nvidia-smi";
    case base::Code::Retry:
      return "; the GPU may be faulty: resume on another node";
    default:
      return "; this is a defect of the program: please report it";
  }
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const base::Code code = code_of(status);
  throw base::Error(code, std::string(what) + " failed: " + cudaGetErrorString(status) + " (" +
                              cudaGetErrorName(status) + ")" + std::string(advice(code)));
}

}  // namespace regatta::trainer::cuda
