// One cublasLtMatmul in the library's terms: descriptors, layouts, epilogue.
//
// The library's matrices are column-major, so a row-major c = a·b is given to it as cᵀ = bᵀ·aᵀ:
// its A is our b, its B our a, its rows are our n and its columns our m. A matrix that is stored
// row-major [r, s] is column-major [s, r] with leading dimension s. So our bias [n] is its bias
// (one element per row of D), and our sums over a's columns its BGRADB.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "trainer/cuda/batched_products.h"
#include "trainer/cuda/gemm_plan.h"
#include "trainer/cuda/kernels/kernels.h"

namespace regatta::trainer::cuda {

// Of the scratch memory, its first part.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

class LibraryCall {
 public:
  // key.tail can be fused. `sums` takes the column sums of InputSums.
  LibraryCall(const device::Gemm& op, const GemmKey& key, void* sums);
  // A strided batch, in float32 arithmetic and without a workspace.
  explicit LibraryCall(const BatchedProduct& op);

  // At most `count` algorithms with an order of sums that is fixed; none if the library refuses.
  [[nodiscard]] std::vector<GemmAlgorithm> algorithms(cublasLtHandle_t handle, int count) const;
  [[nodiscard]] bool accepts(cublasLtHandle_t handle, const GemmAlgorithm& algorithm) const;
  [[nodiscard]] cublasStatus_t enqueue(cublasLtHandle_t handle, const KernelLaunch& at,
                                       const GemmAlgorithm& algorithm) const;

 private:
  struct DestroyOperation {
    void operator()(cublasLtMatmulDescOpaque_t* it) const {
      static_cast<void>(cublasLtMatmulDescDestroy(it));
    }
  };
  struct DestroyLayout {
    void operator()(cublasLtMatrixLayoutOpaque_t* it) const {
      static_cast<void>(cublasLtMatrixLayoutDestroy(it));
    }
  };
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;

  void make_operation(cublasComputeType_t compute, bool transpose_a, bool transpose_b);
  [[nodiscard]] static Layout layout_of(device::Dtype dtype, std::int64_t rows,
                                        std::int64_t columns);
  void set_epilogue(const device::Gemm& op, const GemmKey& key, void* sums);

  const void* a_;  // the library's
  const void* b_;
  void* c_;
  float beta_;
  int alignment_;
  std::int64_t workspace_bytes_;
  std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyOperation> operation_;
  Layout a_layout_, b_layout_, c_layout_;
};

}  // namespace regatta::trainer::cuda
