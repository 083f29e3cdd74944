#include "trainer/probe/tensor_summary.h"

#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace regatta::trainer::probe {
namespace {

constexpr std::int64_t kSignBlock = 128;  // bits of one call of Philox

}  // namespace

void TensorSummary::add(std::span<const float> values) {
  digest_.update(std::as_bytes(values));
  for (const float value : values) {
    const std::int64_t in_block = size_ % kSignBlock;
    if (in_block == 0) {
      signs_ = base::philox(0, {static_cast<std::uint32_t>(size_ / kSignBlock), 0, 0, 0});
    }
    const std::uint32_t word = signs_[static_cast<std::size_t>(in_block / 32)];
    const auto lane = static_cast<std::size_t>(size_ % kSketchSize);
    const auto x = static_cast<double>(value);
    sketch_[lane] += (word >> static_cast<unsigned>(in_block % 32) & 1U) == 0 ? x : -x;
    squares_[lane] += x * x;
    ++size_;
  }
}

double TensorSummary::norm() const {
  return std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
}

}  // namespace regatta::trainer::probe
