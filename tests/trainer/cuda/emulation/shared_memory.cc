#include "tests/trainer/cuda/emulation/shared_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/trainer/cuda/emulation/sanitizer.h"

// Bounds of the section, from the linker; absent when no kernel has a __shared__ variable.
extern "C" {
extern unsigned char __start_regatta_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_regatta_shared[] __attribute__((weak, visibility("hidden")));
}

namespace regatta::emulation {
namespace {
constexpr std::size_t kLargest = 232448;  // what any block may have (architecture 90)
constexpr std::size_t kGuard = 1024;
constexpr int kPoison = 0xFF;
constexpr int kGuardByte = 0xC5;
constexpr std::align_val_t kAlignment{1024};

bool all_guard(const unsigned char* from) {
  return *from == kGuardByte && std::memcmp(from, from + 1, kGuard - 1) == 0;
}
}  // namespace

SharedMemory::SharedMemory() {
  auto* memory = static_cast<unsigned char*>(operator new(kGuard + kLargest + kGuard, kAlignment));
  start_ = memory + kGuard;
  std::memset(memory, kGuardByte, kGuard);
  std::memset(start_, kGuardByte, kLargest + kGuard);
}
SharedMemory::~SharedMemory() {
  allow(start_ - kGuard, kGuard + kLargest + kGuard);
  operator delete(start_ - kGuard, kAlignment);
}

void SharedMemory::resize(std::size_t dynamic_bytes) {
  allow(start_, kLargest + kGuard);
  bytes_ = std::min(dynamic_bytes, kLargest);
  std::memset(start_ + bytes_, kGuardByte, kGuard);
}

void SharedMemory::begin_block() {
  forbid(start_ - kGuard, kGuard);
  forbid(start_ + bytes_, kLargest - bytes_ + kGuard);
  std::memset(start_, kPoison, bytes_);
  if (__start_regatta_shared != nullptr) {
    std::memset(__start_regatta_shared, kPoison,
                static_cast<std::size_t>(__stop_regatta_shared - __start_regatta_shared));
  }
}

bool SharedMemory::holds(const void* address) const {
  const auto* byte = static_cast<const unsigned char*>(address);
  return (byte >= start_ && byte < start_ + bytes_) ||
         (__start_regatta_shared != nullptr && byte >= __start_regatta_shared &&
          byte < __stop_regatta_shared);
}

const char* SharedMemory::end_block() const {
  allow(start_ - kGuard, kGuard);
  allow(start_ + bytes_, kGuard);
  if (!all_guard(start_ - kGuard)) return "the block wrote before its dynamic shared memory";
  if (!all_guard(start_ + bytes_)) return "the block wrote past its dynamic shared memory";
  return nullptr;
}

}  // namespace regatta::emulation
