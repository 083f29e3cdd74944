// The CUDA device's memory and pinned host memory: who has how much, and what to say when there is
// no more.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <unordered_map>

namespace regatta::trainer::cuda {

class CudaMemory {
 public:
  CudaMemory() = default;
  ~CudaMemory();  // frees what was not released
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  // Aligned to 256 bytes. Throws Code::Operator: how much was asked, how much is free, what to
  // change.
  [[nodiscard]] void* allocate(std::int64_t bytes);
  // Waits for the GPU first (cudaFree does). Null is fine.
  void release(void* memory);
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }

  [[nodiscard]] void* allocate_host(std::int64_t bytes);
  void release_host(void* memory);

 private:
  std::unordered_map<void*, std::int64_t> blocks_;
  std::unordered_map<void*, std::int64_t> host_blocks_;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace regatta::trainer::cuda
