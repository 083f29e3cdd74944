// The part of cuBLASLt that trainer/cuda uses, with CUDA 13's names, values and signatures,
// computed plainly in float64 on the CPU. It knows only what the library's documentation says of
// column-major matrices, strided batches, op(A), op(B), bias, auxiliary matrix and column sums, so
// a wrong mapping gives wrong numbers. What the documentation rules out is refused; three
// algorithms are offered, the last with a reduction in place, unless a preference forbids that.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/trainer/cuda/emulation/cuda_runtime.h"

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasLtEpilogue_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU_AUX = 32 | 128,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 32 | 128 | 4,
  CUBLASLT_EPILOGUE_DGELU = 64 | 128,
  CUBLASLT_EPILOGUE_BGRADB = 512
};
enum cublasLtReductionScheme_t {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
  CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,
  CUBLASLT_REDUCTION_SCHEME_MASK = 7
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
enum cublasLtMatrixLayoutAttribute_t {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
};
enum cublasLtMatmulAlgoConfigAttributes_t { CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3 };

struct cublasLtContext {
  int unused;
};
struct cublasLtMatmulDescOpaque_t {
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;  // elements
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};
using cublasLtHandle_t = cublasLtContext*;
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque_t*;
struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

namespace regatta::emulation {

// What tests choose, and what they may ask.
struct LibraryFacts {
  bool starts = true;
  bool refuses_products = false;         // all of them
  bool refuses_epilogues = false;        // all but DEFAULT
  bool fails_first_algorithm = false;    // when it runs, not when it is offered
  std::int64_t calls = 0;                // of cublasLtMatmul
  std::int64_t heuristics = 0;           // of cublasLtMatmulAlgoGetHeuristic
  std::int64_t calls_with_epilogue = 0;  // of cublasLtMatmul
};
inline LibraryFacts& library() {
  static LibraryFacts facts;
  return facts;
}

struct Product {
  cublasLtMatmulDescOpaque_t op;
  const void* a;
  const void* b;
  const void* c;
  void* d;
  cublasLtMatrixLayoutOpaque_t a_layout, b_layout, c_layout, d_layout;
  float alpha, beta;
};

constexpr std::uint64_t kAlgorithmMark = 0x6b1f6a5e00000000ULL;
constexpr std::size_t kAlgorithmWorkspace = std::size_t{1} << 20;

inline std::size_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }
inline double read(const void* from, cudaDataType_t type, std::int64_t at) {
  if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(from)[at]);
  if (type == CUDA_R_16F) {
    return static_cast<double>(__half2float(static_cast<const __half*>(from)[at]));
  }
  return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(from)[at]));
}
inline void write(void* to, cudaDataType_t type, std::int64_t at, double value) {
  const auto x = static_cast<float>(value);
  if (type == CUDA_R_32F) {
    static_cast<float*>(to)[at] = x;
  } else if (type == CUDA_R_16F) {
    static_cast<__half*>(to)[at] = __float2half_rn(x);
  } else {
    static_cast<__nv_bfloat16*>(to)[at] = __float2bfloat16_rn(x);
  }
}

constexpr double kGeluRoot = 0.7978845608028654;  // √(2/π): the library's GELU is the tanh form
inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(kGeluRoot * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {
  const double t = std::tanh(kGeluRoot * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluRoot * (1 + 3 * 0.044715 * x * x);
}

// Product i of a strided batch alone.
inline Product of_batch(Product p, std::int64_t i) {
  const auto bytes = [i](const cublasLtMatrixLayoutOpaque_t& layout) {
    return i * layout.batch_stride * static_cast<std::int64_t>(size_of(layout.type));
  };
  p.a = static_cast<const unsigned char*>(p.a) + bytes(p.a_layout);
  p.b = static_cast<const unsigned char*>(p.b) + bytes(p.b_layout);
  p.c = static_cast<const unsigned char*>(p.c) + bytes(p.c_layout);
  p.d = static_cast<unsigned char*>(p.d) + bytes(p.d_layout);
  return p;
}

// op(matrix) as [lines, k], k contiguous: the rows of op(A), or the columns of op(B).
inline std::vector<double> lines_of(const void* data, const cublasLtMatrixLayoutOpaque_t& layout,
                                    bool lines_are_columns) {
  const auto rows = static_cast<std::int64_t>(layout.rows);
  const auto columns = static_cast<std::int64_t>(layout.columns);
  std::vector<double> lines;
  lines.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < (lines_are_columns ? columns : rows); ++i) {
    for (std::int64_t l = 0; l < (lines_are_columns ? rows : columns); ++l) {
      const std::int64_t at = lines_are_columns ? i * layout.ld + l : l * layout.ld + i;
      lines.push_back(read(data, layout.type, at));
    }
  }
  return lines;
}

// The columns j of D, whose rows i are contiguous.
inline void run(const Product& p) {
  const auto rows = static_cast<std::int64_t>(p.d_layout.rows);
  const auto columns = static_cast<std::int64_t>(p.d_layout.columns);
  const bool ta = p.op.transpose_a == CUBLAS_OP_T;
  const bool tb = p.op.transpose_b == CUBLAS_OP_T;
  const auto k = static_cast<std::int64_t>(ta ? p.a_layout.rows : p.a_layout.columns);
  const std::uint32_t epilogue = p.op.epilogue;
  const bool bias =
      epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  const bool forward =
      epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  const bool backward = epilogue == CUBLASLT_EPILOGUE_DGELU;
  const cudaDataType_t type = p.d_layout.type;
  const std::vector<double> a = lines_of(p.a, p.a_layout, ta);
  const std::vector<double> b = lines_of(p.b, p.b_layout, !tb);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      const double* left = a.data() + i * k;
      const double* right = b.data() + j * k;
      for (std::int64_t l = 0; l < k; ++l) sum += left[l] * right[l];
      double value = static_cast<double>(p.alpha) * sum;
      if (p.beta != 0) {
        value += static_cast<double>(p.beta) * read(p.c, type, j * p.c_layout.ld + i);
      }
      if (bias) value += read(p.op.bias, type, i);
      const std::int64_t aux = j * p.op.aux_ld + i;
      if (forward) {
        write(p.op.aux, type, aux, value);
        value = gelu(value);
      }
      if (backward) value *= gelu_slope(read(p.op.aux, type, aux));
      write(p.d, type, j * p.d_layout.ld + i, value);
    }
  }
  if (epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += b[static_cast<std::size_t>(j * k + l)];
      write(p.op.bias, type, j, sum);
    }
  }
}

inline bool is_aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

inline bool is_usable(const void* matrix, cudaDataType_t type) {
  return matrix != nullptr && is_aligned(matrix, size_of(type));
}

// Sizes that do not fit are INVALID_VALUE; what no kernel does is NOT_SUPPORTED.
inline cublasStatus_t examine(const cublasLtMatmulDescOpaque_t& op,
                              const cublasLtMatrixLayoutOpaque_t& a,
                              const cublasLtMatrixLayoutOpaque_t& b,
                              const cublasLtMatrixLayoutOpaque_t& c,
                              const cublasLtMatrixLayoutOpaque_t& d) {
  const bool ta = op.transpose_a == CUBLAS_OP_T;
  const bool tb = op.transpose_b == CUBLAS_OP_T;
  for (const auto* layout : {&a, &b, &c, &d}) {
    if (layout->rows == 0 || layout->columns == 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (layout->ld < static_cast<std::int64_t>(layout->rows)) return CUBLAS_STATUS_INVALID_VALUE;
    if (layout->batch < 1 || layout->batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
    if (layout->batch_stride < 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  // Inputs may be shared by the whole batch (stride 0) or overlap; results may not.
  if (d.batch > 1 && d.batch_stride < d.ld * static_cast<std::int64_t>(d.columns)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if ((ta ? a.columns : a.rows) != d.rows || (tb ? b.rows : b.columns) != d.columns ||
      (ta ? a.rows : a.columns) != (tb ? b.columns : b.rows) || c.rows != d.rows ||
      c.columns != d.columns) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const LibraryFacts& facts = library();
  if (a.type != b.type || c.type != d.type || (d.type != a.type && d.type != CUDA_R_32F) ||
      facts.refuses_products) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (op.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  // Batches of biases and sums have strides of their own, which trainer/cuda does not use.
  if (facts.refuses_epilogues || d.batch > 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool vector = (op.epilogue & (4U | 512U)) != 0;
  if (vector && (op.bias == nullptr || !is_aligned(op.bias, size_of(d.type)))) {
    return op.bias == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if ((op.epilogue & 128U) != 0) {
    if (size_of(d.type) != 2) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (op.aux == nullptr || op.aux_ld < static_cast<std::int64_t>(d.rows)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (op.aux_ld % 8 != 0 || !is_aligned(op.aux, 16)) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

inline bool is_algorithm(const cublasLtMatmulAlgo_t& algo) {
  const std::uint64_t index = algo.data[0] - kAlgorithmMark;
  return index < 3 && algo.data[1] == index;
}

}  // namespace regatta::emulation

inline const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the requested functionality is not supported";
    default:
      return "unknown";
  }
}
inline std::size_t cublasLtGetVersion() { return 130100; }

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!regatta::emulation::library().starts) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                               cublasComputeType_t, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  *description = new cublasLtMatmulDescOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                                     cublasLtMatmulDescAttributes_t attribute,
                                                     const void* value, std::size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(description->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(description->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(description->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description->bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(description->aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(description->aux_ld);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                                 cudaDataType_t type, std::uint64_t rows,
                                                 std::uint64_t columns, std::int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                       cublasLtMatrixLayoutAttribute_t attribute,
                                                       const void* value, std::size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout->batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout->batch_stride);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
    const void* value, std::size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference->reductions);
    default:
      return set(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
  }
}
inline cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                           cublasLtMatmulAlgoConfigAttributes_t,
                                                           void* value, std::size_t bytes,
                                                           std::size_t* written) {
  if (!regatta::emulation::is_algorithm(*algo) || bytes != sizeof(std::uint32_t)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto scheme = static_cast<std::uint32_t>(algo->data[2]);
  std::memcpy(value, &scheme, sizeof scheme);
  if (written != nullptr) *written = sizeof scheme;
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t op,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              const cublasLtMatmulAlgo_t* algo,
                                              cublasLtMatmulHeuristicResult_t* result) {
  using namespace regatta::emulation;
  if (!is_algorithm(*algo)) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = algo->data[1] == 0 ? 0 : kAlgorithmWorkspace;
  return result->state = examine(*op, *a, *b, *c, *d);
}

inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
    int wanted, cublasLtMatmulHeuristicResult_t results[], int* found) {
  using namespace regatta::emulation;
  ++library().heuristics;
  *found = 0;
  const cublasStatus_t status = examine(*op, *a, *b, *c, *d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const std::uint32_t schemes[] = {CUBLASLT_REDUCTION_SCHEME_NONE,
                                   CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                                   CUBLASLT_REDUCTION_SCHEME_INPLACE};
  for (std::uint64_t i = 0; i < 3 && *found < wanted; ++i) {
    if ((schemes[i] & ~preference->reductions) != 0) continue;
    if (i > 0 && preference->workspace < kAlgorithmWorkspace) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    result.algo.data[0] = kAlgorithmMark + i;
    result.algo.data[1] = i;
    result.algo.data[2] = schemes[i];
    result.workspaceSize = i == 0 ? 0 : kAlgorithmWorkspace;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return *found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t op, const void* alpha,
                                     const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                                     cublasLtMatrixLayout_t b_layout, const void* beta,
                                     const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                     cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t* algo, void* workspace,
                                     std::size_t workspace_bytes, cudaStream_t stream) {
  using namespace regatta::emulation;
  const cublasStatus_t status = examine(*op, *a_layout, *b_layout, *c_layout, *d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (!is_algorithm(*algo)) return CUBLAS_STATUS_INVALID_VALUE;
  if (library().fails_first_algorithm && algo->data[1] == 0) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (algo->data[1] > 0 && (workspace_bytes < kAlgorithmWorkspace || !is_aligned(workspace, 256))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const void* pointer : {a, b}) {
    if (!is_usable(pointer, a_layout->type)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const void* pointer : {c, static_cast<const void*>(d)}) {
    if (!is_usable(pointer, d_layout->type)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  ++library().calls;
  if (op->epilogue != CUBLASLT_EPILOGUE_DEFAULT) ++library().calls_with_epilogue;
  if (algo->data[1] > 0) {  // as partial sums would
    static_cast<void>(cudaMemsetAsync(workspace, 0xFF, kAlgorithmWorkspace, stream));
  }
  const Product product{*op,
                        a,
                        b,
                        c,
                        d,
                        *a_layout,
                        *b_layout,
                        *c_layout,
                        *d_layout,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta)};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(32);
  config.stream = stream;
  const cudaError_t error = enqueue_kernel(config, nullptr, [product] {
    for (std::int64_t i = 0; i < product.d_layout.batch; ++i) run(of_batch(product, i));
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
