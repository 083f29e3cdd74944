// Names of the status codes.
#include "tests/trainer/cuda/emulation/runtime_api.h"

namespace {
struct Row {
  cudaError_t error;
  const char* name;
  const char* words;
};
#define REGATTA_ROW(name, words) \
  { name, #name, words }
const Row kRows[] = {
    REGATTA_ROW(cudaSuccess, "no error"),
    REGATTA_ROW(cudaErrorInvalidValue, "invalid argument"),
    REGATTA_ROW(cudaErrorMemoryAllocation, "out of memory"),
    REGATTA_ROW(cudaErrorInitializationError, "initialization error"),
    REGATTA_ROW(cudaErrorCudartUnloading, "driver shutting down"),
    REGATTA_ROW(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    REGATTA_ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    REGATTA_ROW(cudaErrorInsufficientDriver,
                "CUDA driver version is insufficient for CUDA runtime version"),
    REGATTA_ROW(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    REGATTA_ROW(cudaErrorInvalidDeviceFunction, "invalid device function"),
    REGATTA_ROW(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    REGATTA_ROW(cudaErrorInvalidDevice, "invalid device ordinal"),
    REGATTA_ROW(cudaErrorNoKernelImageForDevice,
                "no kernel image is available for execution on the device"),
    REGATTA_ROW(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    REGATTA_ROW(cudaErrorUnsupportedPtxVersion,
                "the provided PTX was compiled with an unsupported toolchain."),
    REGATTA_ROW(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    REGATTA_ROW(cudaErrorNotReady, "device not ready"),
    REGATTA_ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    REGATTA_ROW(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    REGATTA_ROW(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    REGATTA_ROW(cudaErrorHardwareStackError, "hardware stack error"),
    REGATTA_ROW(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    REGATTA_ROW(cudaErrorMisalignedAddress, "misaligned address"),
    REGATTA_ROW(cudaErrorLaunchFailure, "unspecified launch failure"),
    REGATTA_ROW(cudaErrorNotPermitted, "operation not permitted"),
    REGATTA_ROW(cudaErrorNotSupported, "operation not supported"),
    REGATTA_ROW(cudaErrorSystemNotReady, "system not yet initialized"),
    REGATTA_ROW(cudaErrorSystemDriverMismatch,
                "system has unsupported display driver / cuda driver combination"),
    REGATTA_ROW(cudaErrorCompatNotSupportedOnDevice,
                "forward compatibility was attempted on non supported HW"),
    REGATTA_ROW(cudaErrorStreamCaptureUnsupported,
                "operation not permitted when stream is capturing"),
    REGATTA_ROW(cudaErrorStreamCaptureInvalidated,
                "operation failed due to a previous error during capture"),
    REGATTA_ROW(cudaErrorStreamCaptureMerge,
                "operation would result in a merge of separate capture sequences"),
    REGATTA_ROW(cudaErrorStreamCaptureUnmatched,
                "capture was not ended in the same stream as it began"),
    REGATTA_ROW(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    REGATTA_ROW(cudaErrorStreamCaptureIsolation,
                "dependency created on uncaptured work in another stream"),
    REGATTA_ROW(cudaErrorStreamCaptureImplicit,
                "operation would make the legacy stream depend on a capturing blocking stream"),
    REGATTA_ROW(cudaErrorCapturedEvent,
                "operation not permitted on an event last recorded in a capturing stream"),
    REGATTA_ROW(cudaErrorUnknown, "unknown error"),
};
#undef REGATTA_ROW
const Row* find(cudaError_t error) {
  for (const Row& row : kRows) {
    if (row.error == error) return &row;
  }
  return nullptr;
}
}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const Row* row = find(error);
  return row != nullptr ? row->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const Row* row = find(error);
  return row != nullptr ? row->words : "unrecognized error code";
}
