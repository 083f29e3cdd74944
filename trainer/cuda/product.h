// Matrix products that need no library: what cuBLASLt refuses (trainer/cuda/README.md, decision 4).
#pragma once

#include "trainer/cuda/kernels/kernels.h"
#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

// c = a·b (+ c) for every size, type, alignment and transposition of Gemm; no bias, no epilogue.
void built_in_product(const KernelLaunch& at, const device::Gemm& op);
// c[r, j] += bias[j]; one type.
void add_bias(const KernelLaunch& at, device::View c, device::View bias);

}  // namespace regatta::trainer::cuda
