// What the other half of the plug-in, the NCCL communicator, needs of the CUDA device beyond the
// contract of Device.
#pragma once

#include <cuda_runtime.h>

#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

// The Device of make_cuda_device is one of these, too.
class NativeStreams {
 public:
  virtual ~NativeStreams() = default;
  [[nodiscard]] virtual int gpu() const = 0;
  // Lives as long as the device. Throws while repeat() captures: what is asked for by whom waits on
  // events of its own cannot be replayed.
  [[nodiscard]] virtual cudaStream_t native(device::Stream stream) = 0;
};

}  // namespace regatta::trainer::cuda
