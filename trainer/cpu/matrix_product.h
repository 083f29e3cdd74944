// Matrix products on a pool of threads: oneDNN's sgemm or the built-in product, cut into slices of
// a size that depends on the shape only.
#pragma once

#include <string>

#include "base/thread_pool.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/cpu/host_memory.h"
#include "trainer/cpu/kernels.h"

namespace regatta::trainer::cpu {

[[nodiscard]] bool has_onednn();
[[nodiscard]] std::string onednn_version();  // empty without it

// What a product needs beside its operands.
struct ProductContext {
  base::ThreadPool& pool;
  ScratchPool& scratch;  // borrowed per slice
  const Kernels& kernels;
  CpuProducts products = CpuProducts::Fastest;
};

void multiply(const ProductContext& context, const device::Gemm& op);

}  // namespace regatta::trainer::cpu
