// The CPU device's memory: aligned blocks and their bookkeeping, and scratch buffers that threads
// borrow.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace regatta::trainer::cpu {

class AlignedMemory {
 public:
  AlignedMemory() = default;
  ~AlignedMemory();
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;

  // Aligned to 256 bytes; contents undefined. Throws Code::Operator when the machine has less than
  // `bytes` left.
  [[nodiscard]] void* allocate(std::int64_t bytes);
  void release(void* memory);
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }

 private:
  std::unordered_map<void*, std::int64_t> blocks_;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

// Buffers of floats for the length of one piece of work. Buffers only grow and go back when the
// pool dies; there are never more than the largest number borrowed at once.
class ScratchPool {
 public:
  class Lease {
   public:
    Lease(ScratchPool& pool, std::int64_t floats);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    [[nodiscard]] float* floats() const { return buffer_.memory.get(); }  // aligned to 64 bytes

   private:
    friend class ScratchPool;
    struct Free {
      void operator()(float* memory) const;
    };
    struct Buffer {
      std::unique_ptr<float, Free> memory;
      std::int64_t size = 0;
    };
    ScratchPool& pool_;
    Buffer buffer_;
  };

 private:
  std::mutex mutex_;
  std::vector<Lease::Buffer> idle_;
};

}  // namespace regatta::trainer::cpu
