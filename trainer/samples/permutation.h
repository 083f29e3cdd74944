#pragma once

#include <cstdint>

namespace regatta::trainer::samples {

// A pseudo-random permutation of [0, size), any element in O(1) and without memory: four Feistel
// rounds of Philox on the smallest even number of bits that holds `size`, walked until the value
// falls inside (fewer than four rounds of walking on average). A pure function of seed and `epoch`.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint32_t epoch);
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t size_;
  std::uint64_t seed_;
  std::uint32_t epoch_;
  std::uint32_t half_bits_ = 1;
};

}  // namespace regatta::trainer::samples
