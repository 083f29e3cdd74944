#include "tests/trainer/cuda/emulation/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "tests/trainer/cuda/emulation/block.h"

namespace regatta::emulation {
namespace {
constexpr std::size_t kGuard = 4096;
constexpr int kPoison = 0xFF;
constexpr int kGuardByte = 0xC5;

// Front guard, memory, back guard: from the last byte on, so that a write one past the end shows.
std::size_t mapped(std::size_t bytes) { return 2 * kGuard + (bytes + 4095) / 4096 * 4096; }
std::size_t back_guard(std::size_t bytes) { return mapped(bytes) - kGuard - bytes; }

bool all_guard(const unsigned char* from, std::size_t bytes) {
  return *from == kGuardByte && std::memcmp(from, from + 1, bytes - 1) == 0;
}
}  // namespace

unsigned char* Memory::allocate(std::size_t bytes) {
  void* memory =
      mmap(nullptr, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  unsigned char* start = static_cast<unsigned char*>(memory) + kGuard;
  std::memset(start - kGuard, kGuardByte, kGuard);
  std::memset(start, kPoison, bytes);
  std::memset(start + bytes, kGuardByte, back_guard(bytes));
  blocks_.emplace(start, bytes);
  bytes_ += bytes;
  return start;
}

bool Memory::release(void* memory) {
  auto* start = static_cast<unsigned char*>(memory);
  const auto block = blocks_.find(start);
  if (block == blocks_.end()) return false;
  const std::size_t bytes = block->second;
  if (!all_guard(start - kGuard, kGuard)) {
    fail("something wrote before a device allocation of %zu bytes", bytes);
  }
  if (!all_guard(start + bytes, back_guard(bytes))) {
    fail("something wrote past a device allocation of %zu bytes", bytes);
  }
  blocks_.erase(block);
  bytes_ -= bytes;
  munmap(start - kGuard, mapped(bytes));
  return true;
}

Memory::Where Memory::find(const void* from, std::size_t bytes) const {
  const auto* begin = static_cast<const unsigned char*>(from);
  auto next = blocks_.upper_bound(begin);
  if (next != blocks_.end() && next->first < begin + bytes) return Where::Across;
  if (next == blocks_.begin()) return Where::Elsewhere;
  const auto& [start, size] = *std::prev(next);
  if (begin >= start + size) return Where::Elsewhere;
  return begin + bytes <= start + size ? Where::Inside : Where::Across;
}

}  // namespace regatta::emulation
