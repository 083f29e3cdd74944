// CUDA's status codes become base::Error.
#pragma once

#include <cuda_runtime.h>

namespace regatta::trainer::cuda {

// Throws base::Error unless status is cudaSuccess: Code::Operator for what the machine lacks,
// Code::Retry for what may work on another node, with CUDA's own words. `what` completes "…
// failed".
void check(cudaError_t status, const char* what);

}  // namespace regatta::trainer::cuda
