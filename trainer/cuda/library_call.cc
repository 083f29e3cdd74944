#include "trainer/cuda/library_call.h"

#include <cstring>
#include <string>

#include "base/error.h"

namespace regatta::trainer::cuda {
namespace {

static_assert(sizeof(GemmAlgorithm) == sizeof(cublasLtMatmulAlgo_t));

constexpr std::uint32_t kReductions =
    CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

// Descriptors only fail on a wrong attribute or without host memory.
void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw base::Error(base::Code::Developer, std::string("cuBLASLt refuses ") + what + " (" +
                                               cublasLtGetStatusString(status) + ")");
}

cudaDataType_t library_type(device::Dtype dtype) {
  switch (dtype) {
    case device::Dtype::BFloat16:
      return CUDA_R_16BF;
    case device::Dtype::Float16:
      return CUDA_R_16F;
    default:
      base::check(dtype == device::Dtype::Float32,
                  "the library multiplies float32 and 16-bit types");
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t epilogue_of(GemmTail tail) {
  switch (tail) {
    case GemmTail::None:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case GemmTail::Bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case GemmTail::Gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case GemmTail::GeluBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case GemmTail::GeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case GemmTail::InputSums:
      return CUBLASLT_EPILOGUE_BGRADB;
    case GemmTail::GeluGradientSums:
    case GemmTail::InputSumsBias:
      break;
  }
  base::check(false, "a tail that the library has an epilogue for");
  return CUBLASLT_EPILOGUE_DEFAULT;
}

template <typename T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
        "an attribute of a product");
}
template <typename T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value),
        "an attribute of a matrix");
}
template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "a preference for a product");
}

cublasLtMatmulAlgo_t library_algorithm(const GemmAlgorithm& algorithm) {
  cublasLtMatmulAlgo_t result;
  std::memcpy(&result, algorithm.data(), sizeof result);
  return result;
}

bool has_fixed_order(const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written);
  return status == CUBLAS_STATUS_SUCCESS && (scheme & ~kReductions) == 0;
}

}  // namespace

LibraryCall::LibraryCall(const device::Gemm& op, const GemmKey& key, void* sums)
    : a_(op.b.data),
      b_(op.a.data),
      c_(op.c.data),
      beta_(op.beta),
      alignment_(key.alignment),
      workspace_bytes_(kWorkspaceBytes) {
  make_operation(
      key.type == GemmType::TensorFloat32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
      op.transpose_a, op.transpose_b);
  set_epilogue(op, key, sums);
  a_layout_ =
      op.transpose_b ? layout_of(op.b.dtype, op.k, op.n) : layout_of(op.b.dtype, op.n, op.k);
  b_layout_ =
      op.transpose_a ? layout_of(op.a.dtype, op.m, op.k) : layout_of(op.a.dtype, op.k, op.m);
  c_layout_ = layout_of(op.c.dtype, op.n, op.m);
}

LibraryCall::LibraryCall(const BatchedProduct& op)
    : a_(op.b.data),
      b_(op.a.data),
      c_(op.c.data),
      beta_(op.accumulate ? 1.0F : 0.0F),
      alignment_(16),
      workspace_bytes_(0) {
  make_operation(CUBLAS_COMPUTE_32F, op.transpose_a, op.transpose_b);
  const auto layout = [&](const device::View& view, std::int64_t rows, std::int64_t columns) {
    Layout result = layout_of(view.dtype, rows, columns);
    set(result.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(op.batch));
    set(result.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
    return result;
  };
  a_layout_ = op.transpose_b ? layout(op.b, op.k, op.n) : layout(op.b, op.n, op.k);
  b_layout_ = op.transpose_a ? layout(op.a, op.m, op.k) : layout(op.a, op.k, op.m);
  c_layout_ = layout(op.c, op.n, op.m);
}

void LibraryCall::make_operation(cublasComputeType_t compute, bool transpose_a, bool transpose_b) {
  cublasLtMatmulDesc_t operation = nullptr;
  check(cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "a product");
  operation_.reset(operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
}

LibraryCall::Layout LibraryCall::layout_of(device::Dtype dtype, std::int64_t rows,
                                           std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, library_type(dtype), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        "a matrix");
  return Layout(layout);
}

void LibraryCall::set_epilogue(const device::Gemm& op, const GemmKey& key, void* sums) {
  set(operation_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key.tail));
  const bool sums_out = key.tail == GemmTail::InputSums;
  if (sums_out || op.bias.size != 0) {
    void* vector = sums_out ? sums : op.bias.data;
    set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  }
  const device::View& matrix = op.gelu_input.data != nullptr ? op.gelu_input : op.pre_activation;
  if (matrix.data != nullptr) {
    set(operation_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, matrix.data);
    set(operation_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, op.n);
  }
}

std::vector<GemmAlgorithm> LibraryCall::algorithms(cublasLtHandle_t handle, int count) const {
  struct Destroy {
    void operator()(cublasLtMatmulPreferenceOpaque_t* it) const {
      static_cast<void>(cublasLtMatmulPreferenceDestroy(it));
    }
  };
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "preferences");
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy> owner(preference);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(workspace_bytes_));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  // The library assumes 256 bytes unless told.
  const auto alignment = static_cast<std::uint32_t>(alignment_);
  for (const cublasLtMatmulPreferenceAttributes_t attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, attribute, alignment);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, operation_.get(), a_layout_.get(), b_layout_.get(), c_layout_.get(), c_layout_.get(),
      preference, count, results.data(), &found);
  std::vector<GemmAlgorithm> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || !has_fixed_order(result.algo)) continue;
    algorithms.emplace_back();
    std::memcpy(algorithms.back().data(), &result.algo, sizeof result.algo);
  }
  return algorithms;
}

bool LibraryCall::accepts(cublasLtHandle_t handle, const GemmAlgorithm& algorithm) const {
  const cublasLtMatmulAlgo_t algo = library_algorithm(algorithm);
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle, operation_.get(), a_layout_.get(), b_layout_.get(),
                              c_layout_.get(), c_layout_.get(), &algo, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(workspace_bytes_) &&
         has_fixed_order(algo);
}

cublasStatus_t LibraryCall::enqueue(cublasLtHandle_t handle, const KernelLaunch& at,
                                    const GemmAlgorithm& algorithm) const {
  const cublasLtMatmulAlgo_t algo = library_algorithm(algorithm);
  const float alpha = 1;
  return cublasLtMatmul(handle, operation_.get(), &alpha, a_, a_layout_.get(), b_, b_layout_.get(),
                        &beta_, c_, c_layout_.get(), c_, c_layout_.get(), &algo,
                        workspace_bytes_ == 0 ? nullptr : at.scratch,
                        static_cast<std::size_t>(workspace_bytes_), at.stream);
}

}  // namespace regatta::trainer::cuda
