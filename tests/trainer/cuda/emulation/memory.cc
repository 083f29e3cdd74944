#include "tests/trainer/cuda/emulation/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tests/trainer/cuda/emulation/block.h"
#include "tests/trainer/cuda/emulation/sanitizer.h"

namespace regatta::emulation {
namespace {
constexpr std::size_t kGuard = 4096;
constexpr int kPoison = 0xFF;
constexpr int kGuardByte = 0xC5;

// Front guard, memory, back guard: from the last byte on, so that a write one past the end shows.
std::size_t mapped(std::size_t bytes) { return 2 * kGuard + (bytes + 4095) / 4096 * 4096; }
std::size_t back_guard(std::size_t bytes) { return mapped(bytes) - kGuard - bytes; }

// A file in memory full of poison. Mapped privately again and again over a large allocation, it
// fills pages that are never touched without cost.
constexpr std::size_t kPoisonFile = std::size_t{4} << 20;
int poison_file() {
  static const int file = [] {
    const int made = memfd_create("poison", MFD_CLOEXEC);
    std::array<unsigned char, 1 << 16> bytes;
    bytes.fill(kPoison);
    for (std::size_t at = 0; at < kPoisonFile; at += bytes.size()) {
      if (made < 0 ||
          write(made, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
        fail("no memory for filling device memory");
      }
    }
    return made;
  }();
  return file;
}

// `start` is at a page's start.
void fill_with_poison(unsigned char* start, std::size_t bytes) {
  std::size_t done = 0;
  for (; bytes - done >= kPoisonFile; done += kPoisonFile) {
    if (mmap(start + done, kPoisonFile, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
             poison_file(), 0) == MAP_FAILED) {
      fail("no memory for filling %zu bytes of device memory", bytes);
    }
  }
  std::memset(start + done, kPoison, bytes - done);
}

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
  fill_with_poison(start, bytes);
  std::memset(start + bytes, kGuardByte, back_guard(bytes));
  forbid(start - kGuard, kGuard);
  forbid(start + bytes, back_guard(bytes));
  blocks_.emplace(start, bytes);
  bytes_ += bytes;
  return start;
}

bool Memory::release(void* memory) {
  auto* start = static_cast<unsigned char*>(memory);
  const auto block = blocks_.find(start);
  if (block == blocks_.end()) return false;
  const std::size_t bytes = block->second;
  allow(start - kGuard, mapped(bytes));
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
