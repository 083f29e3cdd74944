// What is told of a tensor: enough to see whether two are the same, and how far apart they are.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/digest.h"

namespace regatta::trainer::probe {

constexpr int kSketchSize = 32;

// Of elements in their order, given in pieces of any size: the bits do not depend on the pieces.
class TensorSummary {
 public:
  void add(std::span<const float> values);

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] double norm() const;                                  // 2-norm, summed in float64
  [[nodiscard]] std::string digest() const { return digest_.hex(); }  // XXH3-128 of the float32s
  // Element i, with a random sign, is in number i mod 32. The squared distance of two sketches is
  // that of the tensors, on average over the signs (Charikar, Chen and Farach-Colton, "Finding
  // frequent items in data streams", 2002).
  [[nodiscard]] const std::array<double, kSketchSize>& sketch() const { return sketch_; }

 private:
  base::Digest digest_;
  std::array<double, kSketchSize> sketch_{}, squares_{};
  std::array<std::uint32_t, 4> signs_{};  // of the 128 elements that size_ is among
  std::int64_t size_ = 0;
};

}  // namespace regatta::trainer::probe
