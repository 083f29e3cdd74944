// What AddressSanitizer must be told: changes of stack, and memory that is a guard. Nothing in
// other builds.
#pragma once

#include <cstddef>

#include "tests/sanitizers.h"

#if defined(REGATTA_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace regatta::emulation {

struct StackBounds {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
};

#if defined(REGATTA_ADDRESS_SANITIZER)
inline void leave_stack(void** own, const StackBounds& next) {
  __sanitizer_start_switch_fiber(own, next.bottom, next.bytes);
}
// `own` as leave_stack gave it, null on a new stack. The bounds of the stack that was left.
inline StackBounds enter_stack(void* own) {
  StackBounds previous;
  __sanitizer_finish_switch_fiber(own, &previous.bottom, &previous.bytes);
  return previous;
}
inline void forbid(const void* memory, std::size_t bytes) {
  __asan_poison_memory_region(memory, bytes);
}
inline void allow(const void* memory, std::size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}
#else
inline void leave_stack(void**, const StackBounds&) {}
inline StackBounds enter_stack(void*) { return {}; }
inline void forbid(const void*, std::size_t) {}
inline void allow(const void*, std::size_t) {}
#endif

}  // namespace regatta::emulation
