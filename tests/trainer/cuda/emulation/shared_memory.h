// The shared memory of the block that runs: dynamic, with guards around it, and the `__shared__`
// variables of all kernels, which lie in one section of the program.
#pragma once

#include <cstddef>
#include <memory>

namespace regatta::emulation {

class SharedMemory {
 public:
  SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  void resize(std::size_t dynamic_bytes);
  void begin_block();  // fills both kinds with 0xFF
  // nullptr, or words on a guard that was written to.
  [[nodiscard]] const char* end_block() const;
  [[nodiscard]] bool holds(const void* address) const;
  [[nodiscard]] unsigned char* dynamic() { return start_; }

 private:
  unsigned char* start_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace regatta::emulation
