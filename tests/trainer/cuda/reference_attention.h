// The reference attention with what it needs besides a problem: the library and scratch memory.
#pragma once

#include <cstdint>
#include <vector>

#include "base/file_system.h"
#include "trainer/cuda/batched_products.h"
#include "trainer/cuda/gemm.h"
#include "trainer/cuda/kernels/kernels.h"

namespace regatta::tests {

class ReferenceAttention {
 public:
  explicit ReferenceAttention(std::int64_t scratch_bytes = trainer::cuda::kScratchBytes)
      : scratch_(static_cast<std::size_t>(scratch_bytes / 256)) {}

  void forward(const trainer::device::AttentionForward& op, cudaStream_t stream = nullptr) {
    trainer::cuda::attention_forward_reference(at(stream), products_, op);
  }
  void backward(const trainer::device::AttentionBackward& op, cudaStream_t stream = nullptr) {
    trainer::cuda::attention_backward_reference(at(stream), products_, op);
  }

 private:
  struct alignas(256) Scratch {
    unsigned char bytes[256];
  };
  [[nodiscard]] trainer::cuda::KernelLaunch at(cudaStream_t stream) {
    return {stream, {}, scratch_.data(), static_cast<std::int64_t>(256 * scratch_.size())};
  }

  trainer::cuda::GemmEngine engine_{{}, base::posix_file_system()};
  trainer::cuda::BatchedProducts products_{engine_.handle()};
  std::vector<Scratch> scratch_;
};

}  // namespace regatta::tests
