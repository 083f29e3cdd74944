// The CUDA device: one NVIDIA GPU of compute capability 8.0 or newer; float32, bfloat16 or float16
// activations, sums in float32. Needs none of CUDA's headers. Every program but the tests reaches
// it through the plug-in (trainer/plugins/cuda_plugin.h), so that machines without CUDA run the
// same program. One thread at a time may use a device. The same calls give the same bits on the
// same kind of GPU; between processes only with one gemm_cache_file, or with tune_products off
// (trainer/cuda/README.md, decision 2).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

// Automatic: the fused kernels where they cover type and head size, the reference elsewhere; and
// forward the faster of Streamed and Resident, timed at a shape's first use (tune_products off:
// Streamed).
// Streamed, Resident: that way forward. Wgmma: as Automatic, but with warpgroup products where
// there are kernels of them; compute capability 9.0 only. Grouped: samples of similar length
// side by side on several streams. Reference: always the formula: cuBLASLt's products of padded
// matrices, and a softmax. All but Wgmma and Reference give the same bits.
enum class CudaAttention : std::uint8_t {
  Automatic,
  Streamed,
  Resident,
  Wgmma,
  Grouped,
  Reference
};

struct CudaOptions {
  int index = 0;  // among the GPUs that the process sees (CUDA_VISIBLE_DEVICES)
  // Float32 products, but those of attention, with inputs rounded to 10 bits: faster, less exact.
  bool tf32 = false;
  CudaAttention attention = CudaAttention::Automatic;
  std::string gemm_cache_file;  // keeps timed choices of products; empty: none
  bool tune_products = true;    // false: the library's first suggestion
  int max_graphs = 32;          // captured sequences kept by repeat(); 0: none
};

// Throws Code::Operator where there is no driver, no GPU, or either is too old, saying which and
// what would do; Code::User for an index beyond the GPUs there are.
[[nodiscard]] std::unique_ptr<device::Device> make_cuda_device(const CudaOptions& options);

}  // namespace regatta::trainer::cuda
