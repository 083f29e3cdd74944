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
struct Launch {
  cudaStream_t stream = nullptr;
  DeviceFacts facts;
  void* scratch = nullptr;
  std::int64_t scratch_bytes = 0;
};
// What every stream's scratch offers; kernels choose the number of their partial sums to fit.
constexpr std::int64_t kScratchBytes = std::int64_t{64} << 20;

// activation.cu: element-wise and column sums.
void gelu_forward(const Launch& at, View x, View y, bool tanh_form);
void gelu_backward(const Launch& at, View x, View dy, View dx, bool tanh_form);
void tanh_forward(const Launch& at, View x, View y);
void tanh_backward(const Launch& at, View y, View dy, View dx);
void add(const Launch& at, View x, View y);
void convert(const Launch& at, View to, View from);
void add_column_sums(const Launch& at, View x, std::int64_t columns, View sum);

// rows.cu
void gather_rows(const Launch& at, View from, View index, std::int64_t columns, View to);
void scatter_add_rows(const Launch& at, View from, View index, std::int64_t columns, View to);

// embedding.cu, layernorm.cu, cross_entropy.cu
void embedding_forward(const Launch& at, const EmbeddingForward& op);
void embedding_backward(const Launch& at, const EmbeddingBackward& op);
void layer_norm_forward(const Launch& at, const LayerNormForward& op);
void layer_norm_backward(const Launch& at, const LayerNormBackward& op);
void cross_entropy(const Launch& at, const CrossEntropy& op);

// attention_reference.cu: any type and head size, one padded product or kernel per step of the
// formula. Throws Code::User where the scratch memory cannot hold a head of a sample.
// attention_forward.cu, attention_backward.cu: 16-bit types, head sizes 32, 64 and 128.
class BatchedProducts;
void attention_forward_reference(const Launch& at, BatchedProducts& products,
                                 const AttentionForward& op);
void attention_backward_reference(const Launch& at, BatchedProducts& products,
                                  const AttentionBackward& op);
[[nodiscard]] bool attention_is_fused(Dtype dtype, std::int64_t head_size);
// Resident: keys and values of a head stay in shared memory while all its queries pass, where the
// sample is short enough (attention_tiles.h) and else Streamed. The same bits.
enum class ForwardWay : std::uint8_t { Streamed, Resident };
void attention_forward_fused(const Launch& at, const AttentionForward& op, ForwardWay way);
void attention_backward_fused(const Launch& at, const AttentionBackward& op);

// optimizer.cu: see optimizer_table.h for the update.
void sum_of_squares(const Launch& at, View x, View result);
void limit_norm(const Launch& at, View x, View squared_norm, View limit);

}  // namespace regatta::trainer::cuda
