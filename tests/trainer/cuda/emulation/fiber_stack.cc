#include "tests/trainer/cuda/emulation/fiber_stack.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace regatta::emulation {
namespace {
constexpr std::size_t kGuard = 4096;
constexpr std::size_t kStack = std::size_t{256} << 10;
constexpr std::size_t kColourStep = 5 * 64;  // odd number of cache lines: visits every set
constexpr std::size_t kColours = 4096;
}  // namespace

FiberStack::FiberStack(int index) {
  void* memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuard, PROT_NONE) != 0) {
    std::fprintf(stderr, "emulation: no memory for the stack of thread %d of a block\n", index);
    std::abort();
  }
  const std::size_t colour = static_cast<std::size_t>(index) * kColourStep % kColours;
  bytes_ = kStack - colour;
  top_ = static_cast<char*>(memory) + kGuard + bytes_;
}

boost::context::preallocated FiberStack::place() const {
  boost::context::stack_context context;
  context.size = bytes_;
  context.sp = top_;
  return {top_, bytes_, context};
}

}  // namespace regatta::emulation
