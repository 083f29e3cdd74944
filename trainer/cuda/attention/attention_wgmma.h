// Attention with Hopper's warpgroup products, another way to do what attention_forward.cu and
// attention_backward.cu do: attention_forward_wgmma.cu, attention_backward_wgmma.cu (backward).
#pragma once

#include "trainer/cuda/attention/attention_work.h"

namespace regatta::trainer::cuda {

// Whether there is such a kernel: 16-bit types, heads of 64, compute capability 9.0.
[[nodiscard]] bool attention_forward_has_wgmma(const DeviceFacts& facts, device::Dtype dtype,
                                               std::int64_t head_size);
[[nodiscard]] bool attention_backward_has_wgmma(const DeviceFacts& facts, device::Dtype dtype,
                                                std::int64_t head_size);
// The longest sample that it takes, in tokens (512 with Hopper's 227 KiB): longer ones need room
// for more dq than a block has.
[[nodiscard]] std::int64_t attention_backward_wgmma_limit(const DeviceFacts& facts);
// The samples of the class, none of which may be longer than the limit, and the padding if the
// class has it. The same masks as attention_backward_class, and the same roundings of p and ds;
// sums in another, also fixed, order. A sample's bits do not depend on its company. Aborts where
// attention_backward_has_wgmma says no.
void attention_backward_wgmma(const KernelLaunch& at, const device::AttentionBackward& op,
                              const LengthClass& which);
// The whole batch: longer samples go the way of attention_backward.cu.
void attention_backward_mostly_wgmma(const KernelLaunch& at, const device::AttentionBackward& op);
// The samples of the class, of any length, and the padding if the class has it; as above.
void attention_forward_wgmma(const KernelLaunch& at, const device::AttentionForward& op,
                             const LengthClass& which);

}  // namespace regatta::trainer::cuda
