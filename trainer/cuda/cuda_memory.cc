#include "trainer/cuda/cuda_memory.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "trainer/cuda/check.h"

namespace regatta::trainer::cuda {
namespace {

std::string size_text(std::int64_t bytes) {
  return base::human_bytes(static_cast<std::uint64_t>(bytes));
}

// No allocation of nothing: its address would be null.
std::size_t size_of_block(std::int64_t bytes) {
  base::check(bytes >= 0, "an allocation has no negative size");
  return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
}

[[noreturn]] void throw_out_of_memory(std::int64_t bytes, std::int64_t live) {
  static_cast<void>(cudaGetLastError());  // so that no later call reports it
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  std::string room = "an unknown amount is free";
  if (cudaMemGetInfo(&free_bytes, &total) == cudaSuccess) {
    room = base::human_bytes(free_bytes) + " of " + base::human_bytes(total) + " are free";
  }
  throw base::Error(base::Code::Operator,
                    "the GPU has no " + size_text(bytes) + " left: " + room +
                        ", this program has " + size_text(live) +
                        "; lower micro_batch_size or token_bucket, or set dtype to bfloat16");
}

}  // namespace

CudaMemory::~CudaMemory() {
  for (const auto& [memory, bytes] : blocks_) static_cast<void>(cudaFree(memory));
  for (const auto& [memory, bytes] : host_blocks_) static_cast<void>(cudaFreeHost(memory));
}

void* CudaMemory::allocate(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, size_of_block(bytes));
  if (status == cudaErrorMemoryAllocation) throw_out_of_memory(bytes, live_);
  check(status, "allocating GPU memory");
  blocks_.emplace(memory, bytes);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return memory;
}

void CudaMemory::release(void* memory) {
  if (memory == nullptr) return;
  const auto found = blocks_.find(memory);
  base::check(found != blocks_.end(), "released memory was allocated by this device");
  live_ -= found->second;
  blocks_.erase(found);
  // Destructors release, also after the GPU failed: that failure has been reported by then.
  static_cast<void>(cudaFree(memory));
}

void* CudaMemory::allocate_host(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, size_of_block(bytes));
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw base::Error(base::Code::Operator,
                      "the host cannot pin " + size_text(bytes) +
                          " of memory; raise the job's memory (--mem) or lower micro_batch_size");
  }
  check(status, "allocating pinned host memory");
  host_blocks_.emplace(memory, bytes);
  return memory;
}

void CudaMemory::release_host(void* memory) {
  if (memory == nullptr) return;
  base::check(host_blocks_.erase(memory) == 1, "released host memory was allocated by this device");
  static_cast<void>(cudaFreeHost(memory));
}

}  // namespace regatta::trainer::cuda
