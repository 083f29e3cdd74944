#include "trainer/cuda/forward_choice.h"

#include <algorithm>

#include "trainer/cuda/attention/attention_tiles.h"
#include "trainer/cuda/stopwatch.h"

namespace regatta::trainer::cuda {
namespace {

double time_of(const KernelLaunch& at, const device::AttentionForward& op, ForwardWay way) {
  return *best_microseconds(at.stream, [&] {
    attention_forward_fused(at, op, way);
    return true;
  });
}

}  // namespace

void ForwardChoice::run(const KernelLaunch& at, const device::AttentionForward& op,
                        bool capturing) {
  const std::int64_t head_size = op.out.size / op.lse.size;
  // Up to two stages the streamed way keeps all keys and values, too.
  const bool one_way = op.tokens.max_length <= 2 * kForwardKeys ||
                       resident_forward_limit(head_size, at.facts.shared_bytes) == 0;
  ForwardWay way = ForwardWay::Streamed;
  if (tune_ && !one_way) {
    const Shape shape{op.out.dtype,
                      head_size,
                      op.heads,
                      op.dropout.threshold != 0,
                      op.lse.size / op.heads,
                      op.tokens.cumulative.size - 1,
                      (op.tokens.max_length + kForwardKeys - 1) / kForwardKeys};
    auto found = chosen_.find(shape);
    if (found == chosen_.end() && !capturing) {
      const bool resident = time_of(at, op, ForwardWay::Resident) < time_of(at, op, way);
      found = chosen_.emplace(shape, resident ? ForwardWay::Resident : way).first;
    }
    if (found != chosen_.end()) way = found->second;
  }
  attention_forward_fused(at, op, way);
}

std::string ForwardChoice::description() const {
  if (chosen_.empty()) return "";
  const auto resident = std::count_if(chosen_.begin(), chosen_.end(), [](const auto& choice) {
    return choice.second == ForwardWay::Resident;
  });
  return "resident for " + std::to_string(resident) + " of " + std::to_string(chosen_.size()) +
         " shapes";
}

}  // namespace regatta::trainer::cuda
