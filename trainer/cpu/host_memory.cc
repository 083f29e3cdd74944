#include "trainer/cpu/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/memory.h"

namespace regatta::trainer::cpu {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
constexpr std::int64_t kScratchAlignment = 64;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

AlignedMemory::~AlignedMemory() {
  for (const auto& [memory, bytes] : blocks_) std::free(memory);
}

void* AlignedMemory::allocate(std::int64_t bytes) {
  base::check(bytes >= 0, "an allocation has no negative size");
  const std::optional<std::uint64_t> available = base::available_memory();
  const auto refuse = [&] {
    throw base::Error(base::Code::Operator,
                      "the CPU device cannot allocate " + std::to_string(bytes) + " bytes: " +
                          (available ? std::to_string(*available) + " are available"
                                     : std::string("the system refused")) +
                          " beside the " + std::to_string(live_) +
                          " it holds; use a smaller batch or model, or a machine with more memory");
  };
  if (bytes > std::numeric_limits<std::int64_t>::max() - kHugePage) refuse();
  if (available && static_cast<std::uint64_t>(bytes) > *available) refuse();
  // Large blocks start at a huge page: parameters and activations are walked from end to end, and
  // fewer pages are fewer misses of the address cache.
  const std::int64_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const std::int64_t rounded = round_up(std::max<std::int64_t>(bytes, 1), alignment);
  void* memory =
      std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(rounded));
  if (memory == nullptr) refuse();
  if (alignment == kHugePage) {
    (void)madvise(memory, static_cast<std::size_t>(rounded), MADV_HUGEPAGE);  // only a hint
  }
  blocks_.emplace(memory, bytes);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return memory;
}

void AlignedMemory::release(void* memory) {
  if (memory == nullptr) return;
  const auto found = blocks_.find(memory);
  base::check(found != blocks_.end(), "only memory of this device is released, and once");
  live_ -= found->second;
  blocks_.erase(found);
  std::free(memory);
}

void ScratchPool::Lease::Free::operator()(float* memory) const { std::free(memory); }

ScratchPool::Lease::Lease(ScratchPool& pool, std::int64_t floats) : pool_(pool) {
  {
    const std::lock_guard lock(pool.mutex_);
    if (!pool.idle_.empty()) {
      buffer_ = std::move(pool.idle_.back());
      pool.idle_.pop_back();
    }
  }
  if (buffer_.size >= floats) return;
  const std::int64_t bytes = round_up(floats * 4, kScratchAlignment);
  buffer_.memory.reset();
  buffer_.memory.reset(
      static_cast<float*>(std::aligned_alloc(kScratchAlignment, static_cast<std::size_t>(bytes))));
  if (!buffer_.memory) {
    throw base::Error(base::Code::Operator,
                      "the CPU device cannot allocate " + std::to_string(bytes) +
                          " bytes of scratch memory; use shorter samples or a smaller batch");
  }
  buffer_.size = floats;
}

ScratchPool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.idle_.push_back(std::move(buffer_));
}

}  // namespace regatta::trainer::cpu
