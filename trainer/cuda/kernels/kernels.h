// What the kernel families (one .cu each) offer to cuda_device.cc. Every function checks nothing
// (the device has checked the shapes), allocates nothing, and only enqueues on at.stream, so that
// all of them can be captured into a graph. Grids depend on sizes alone, never on device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

struct DeviceFacts {
  int architecture = 80;  // 10·major + minor of the compute capability
  int multiprocessors = 1;
  std::int64_t shared_bytes = 0;  // that a block may ask for
};

// Where a launch goes, and the memory it may use for partial results: the next launch on the same
// stream may overwrite it. Aligned to 256 bytes.
struct KernelLaunch {
  cudaStream_t stream = nullptr;
  DeviceFacts facts;
  void* scratch = nullptr;
  std::int64_t scratch_bytes = 0;
};
// What every stream's scratch offers; kernels choose the number of their partial sums to fit.
constexpr std::int64_t kScratchBytes = std::int64_t{64} << 20;

// activation.cu: element-wise and column sums.
void gelu_forward(const KernelLaunch& at, device::View x, device::View y, bool tanh_form);
void gelu_backward(const KernelLaunch& at, device::View x, device::View dy, device::View dx,
                   bool tanh_form);
void tanh_forward(const KernelLaunch& at, device::View x, device::View y);
void tanh_backward(const KernelLaunch& at, device::View y, device::View dy, device::View dx);
void add(const KernelLaunch& at, device::View x, device::View y);
void convert(const KernelLaunch& at, device::View to, device::View from);
void add_column_sums(const KernelLaunch& at, device::View x, std::int64_t columns,
                     device::View sum);

// rows.cu
void gather_rows(const KernelLaunch& at, device::View from, device::View index,
                 std::int64_t columns, device::View to);
void scatter_add_rows(const KernelLaunch& at, device::View from, device::View index,
                      std::int64_t columns, device::View to);

// embedding.cu, layernorm.cu, cross_entropy.cu
void embedding_forward(const KernelLaunch& at, const device::EmbeddingForward& op);
void embedding_backward(const KernelLaunch& at, const device::EmbeddingBackward& op);
void layer_norm_forward(const KernelLaunch& at, const device::LayerNormForward& op);
void layer_norm_backward(const KernelLaunch& at, const device::LayerNormBackward& op);
void cross_entropy(const KernelLaunch& at, const device::CrossEntropy& op);
void span_cross_entropy(const KernelLaunch& at, const device::SpanCrossEntropy& op);
void squared_error(const KernelLaunch& at, const device::SquaredError& op);

// attention_reference.cu: any type and head size, one padded product or kernel per step of the
// formula. Throws Code::User where the scratch memory cannot hold a head of a sample.
// attention_forward.cu, attention_backward.cu: 16-bit types, head sizes 32, 64 and 128.
class BatchedProducts;
void attention_forward_reference(const KernelLaunch& at, BatchedProducts& products,
                                 const device::AttentionForward& op);
void attention_backward_reference(const KernelLaunch& at, BatchedProducts& products,
                                  const device::AttentionBackward& op);
[[nodiscard]] bool attention_is_fused(device::Dtype dtype, std::int64_t head_size);
// Resident: keys and values of a head stay in shared memory while all its queries pass, where the
// sample is short enough (attention_tiles.h) and else Streamed. The same bits.
enum class ForwardWay : std::uint8_t { Streamed, Resident };
void attention_forward_fused(const KernelLaunch& at, const device::AttentionForward& op,
                             ForwardWay way);
void attention_backward_fused(const KernelLaunch& at, const device::AttentionBackward& op);

// optimizer.cu: see optimizer_table.h for the update.
void sum_of_squares(const KernelLaunch& at, device::View x, device::View result);
void limit_norm(const KernelLaunch& at, device::View x, device::View squared_norm,
                device::View limit);
void add_noise_sums(const KernelLaunch& at, const device::NoiseSums& op);

}  // namespace regatta::trainer::cuda
