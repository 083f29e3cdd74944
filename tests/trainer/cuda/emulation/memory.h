// Device memory is host memory between guards, filled with 0xFF (NaN) when it is allocated.
#pragma once

#include <cstddef>
#include <map>

namespace regatta::emulation {

// Who calls makes sure of one caller at a time.
class Memory {
 public:
  // nullptr when there is none.
  [[nodiscard]] unsigned char* allocate(std::size_t bytes);
  // Aborts if a guard was written to. False: not the start of an allocation.
  [[nodiscard]] bool release(void* memory);
  // Whether [from, from + bytes) touches an allocation, and whether it lies inside of one.
  enum class Where { Elsewhere, Inside, Across };
  [[nodiscard]] Where find(const void* from, std::size_t bytes) const;

  [[nodiscard]] std::size_t count() const { return blocks_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::map<const unsigned char*, std::size_t> blocks_;
  std::size_t bytes_ = 0;
};

}  // namespace regatta::emulation
