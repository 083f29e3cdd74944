// Loads the CUDA device from its plug-in, so that one program runs with and without CUDA.
#pragma once

#include <memory>
#include <string>

#include "base/file_system.h"
#include "trainer/cuda/cuda_device.h"

namespace regatta::trainer {

struct CudaPluginPlace {
  base::Path program;    // the running program: looked for beside it, and in lib directories near
  base::Path directory;  // REGATTA_PLUGIN_DIR: looked for here only; empty: not set
};

// The device of make_cuda_device. Throws what that throws, and Code::Operator when the plug-in is
// not there (saying where it was looked for), does not load (a library of CUDA is missing), or is
// another version's. The plug-in stays loaded until the process ends, since the device's code is in
// it.
[[nodiscard]] std::unique_ptr<Device> load_cuda_device(const CudaPluginPlace& place,
                                                       const CudaOptions& options);

}  // namespace regatta::trainer
