// Attention as separate launches per class of sample length, side by side on streams of their own:
// grouped multi-stream attention (Baidu's MLPerf submission, arXiv 2208.08124). Forward, keys and
// values of a head stay in shared memory, of which each launch reserves what its class needs. Same
// bits as the single launch, for which it is an alternative to measure: README.md, "Attention
// forward: ladder".
#pragma once

#include <vector>

#include "trainer/cuda/attention/attention_work.h"
#include "trainer/cuda/handles.h"
#include "trainer/cuda/kernels/kernels.h"

namespace regatta::trainer::cuda {

// Owns the streams and events beside the caller's. Calls on different streams may not overlap in
// host time, and run one after another on the GPU where they share a class. May be captured into a
// graph. For what attention_is_fused() accepts.
class GroupedAttention {
 public:
  GroupedAttention();
  void forward(const KernelLaunch& at, const device::AttentionForward& op);
  void backward(const KernelLaunch& at, const device::AttentionBackward& op);

 private:
  template <typename Op, typename OneClass>
  void run(const KernelLaunch& at, const Op& op, const OneClass& one_class);

  OwnEvent start_;
  std::vector<OwnStream> streams_;
  std::vector<OwnEvent> ends_;
};

// The classes that a batch whose samples are at most max_length long can have, longest first: up to
// 128, 256, 384, 512, and the rest. The last in the list has the tokens of no sample.
[[nodiscard]] std::vector<LengthClass> length_classes(std::int64_t max_length);

}  // namespace regatta::trainer::cuda
