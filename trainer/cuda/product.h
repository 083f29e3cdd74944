// Matrix products that need no library: what cuBLASLt refuses (README, decision "No shape fails").
#pragma once

#include "trainer/cuda/kernels/kernels.h"
#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

// c = a·b (+ c) for every size, type, alignment and transposition of Gemm; no bias, no epilogue.
void built_in_product(const Launch& at, const Gemm& op);
// c[r, j] += bias[j]; one type.
void add_bias(const Launch& at, View c, View bias);

}  // namespace regatta::trainer::cuda
