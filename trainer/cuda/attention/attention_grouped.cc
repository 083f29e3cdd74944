#include "trainer/cuda/attention/attention_grouped.h"

#include <algorithm>
#include <array>

namespace regatta::trainer::cuda {
namespace {

constexpr std::array<std::int64_t, 5> kLimits{128, 256, 384, 512, kLengthLimit - 1};

// Scratch of class i: an equal part. A class may keep a float32 per token and head, which for 16
// heads is room for 200,000 tokens: more than the activations of any model leave room for.
KernelLaunch share_of(const KernelLaunch& at, std::size_t i, cudaStream_t stream) {
  constexpr auto kClasses = static_cast<std::int64_t>(kLimits.size());
  KernelLaunch share = at;
  share.stream = stream;
  share.scratch_bytes = at.scratch_bytes / kClasses / 256 * 256;
  share.scratch =
      static_cast<unsigned char*>(at.scratch) + static_cast<std::int64_t>(i) * share.scratch_bytes;
  return share;
}

}  // namespace

std::vector<LengthClass> length_classes(std::int64_t max_length) {
  std::vector<LengthClass> classes;
  std::int64_t below = 0;
  for (const std::int64_t limit : kLimits) {
    if (below == 0 || below < max_length) classes.push_back({below, limit, below == 0});
    below = limit;
  }
  std::reverse(classes.begin(), classes.end());
  return classes;
}

GroupedAttention::GroupedAttention() : streams_(kLimits.size() - 1), ends_(kLimits.size() - 1) {}

void GroupedAttention::forward(const KernelLaunch& at, const device::AttentionForward& op) {
  // Each launch reserves what its class needs.
  run(at, op,
      [](const KernelLaunch& share, const device::AttentionForward& all, const LengthClass& which) {
        attention_forward_class(share, all, which, ForwardWay::Resident);
      });
}
void GroupedAttention::backward(const KernelLaunch& at, const device::AttentionBackward& op) {
  run(at, op, attention_backward_class);
}

// The longest samples, which take the longest, on the caller's stream; the others fork off at an
// event and join at one each.
template <typename Op, typename OneClass>
void GroupedAttention::run(const KernelLaunch& at, const Op& op, const OneClass& one_class) {
  const std::vector<LengthClass> classes = length_classes(op.tokens.max_length);
  if (classes.size() > 1) check(cudaEventRecord(start_.get(), at.stream), "recording an event");
  for (std::size_t i = 1; i < classes.size(); ++i) {
    const cudaStream_t stream = streams_[i - 1].get();
    check(cudaStreamWaitEvent(stream, start_.get(), 0), "waiting for an event");
    one_class(share_of(at, i, stream), op, classes[i]);
    check(cudaEventRecord(ends_[i - 1].get(), stream), "recording an event");
  }
  one_class(share_of(at, 0, at.stream), op, classes[0]);
  for (std::size_t i = 1; i < classes.size(); ++i) {
    check(cudaStreamWaitEvent(at.stream, ends_[i - 1].get(), 0), "waiting for an event");
  }
}

}  // namespace regatta::trainer::cuda
