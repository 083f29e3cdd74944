// Stacks for the fibers of block.cc. They are never given back: a later block uses them again.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <cstddef>

#include "tests/trainer/cuda/emulation/sanitizer.h"

namespace regatta::emulation {

// One stack with a guard page below. Tops lie at different offsets in a page, or the hot lines of
// all stacks would fall into the same few cache sets.
class FiberStack {
 public:
  explicit FiberStack(int index);
  [[nodiscard]] boost::context::preallocated place() const;
  [[nodiscard]] StackBounds bounds() const { return {static_cast<char*>(top_) - bytes_, bytes_}; }

 private:
  void* top_ = nullptr;
  std::size_t bytes_ = 0;
};

// For boost: leaves the stack alone.
struct KeepStack {
  using traits_type = boost::context::stack_traits;
  void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace regatta::emulation
