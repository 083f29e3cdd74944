// Batches of equal products on an emulated GPU, and the emulated library's own strided batches.
#include "trainer/cuda/batched_products.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainer/cuda/emulation/facts.h"
#include "trainer/cuda/library_call.h"
#include "trainer/device/half_types.h"

namespace regatta::trainer::cuda {
namespace {

constexpr std::int64_t kM = 16, kN = 24, kK = 40, kBatch = 3;

// Small integers, exact in every type, whose sums are exact in float32.
float integer(std::int64_t i, int step) { return static_cast<float>(i * step % 7 - 3); }

struct Operand {
  std::vector<float> values;
  std::vector<std::uint16_t> halves;
  device::Dtype dtype;

  Operand(std::int64_t count, int step, device::Dtype type) : dtype(type) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float x = integer(i, step);
      values.push_back(x);
      halves.push_back(type == device::Dtype::BFloat16 ? device::bf16_from_float(x)
                                                       : device::fp16_from_float(x));
    }
  }
  [[nodiscard]] device::View view() {
    const auto size = static_cast<std::int64_t>(values.size());
    if (dtype == device::Dtype::Float32) return {values.data(), size, dtype};
    return {halves.data(), size, dtype};
  }
};

class BatchedProductsTest : public testing::Test {
 protected:
  BatchedProductsTest() {
    emulation::configure({});
    emulation::library() = {};
    cublasLtHandle_t handle = nullptr;
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    handle_.reset(handle);
  }
  ~BatchedProductsTest() override { emulation::library() = {}; }

  void check_all_forms() {
    for (const device::Dtype dtype :
         {device::Dtype::Float32, device::Dtype::BFloat16, device::Dtype::Float16}) {
      for (int form = 0; form < 8; ++form) {
        SCOPED_TRACE(std::to_string(form) + " of type " + std::to_string(static_cast<int>(dtype)));
        check_form(dtype, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0);
      }
    }
  }
  [[nodiscard]] cublasLtHandle_t handle() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(cublasLtContext* handle) const { static_cast<void>(cublasLtDestroy(handle)); }
  };

  void check_form(device::Dtype dtype, bool transpose_a, bool transpose_b, bool accumulate) {
    Operand a(kBatch * kM * kK, 3, dtype);
    Operand b(kBatch * kK * kN, 5, dtype);
    std::vector<float> c(kBatch * kM * kN, 10);
    BatchedProducts products(handle());
    BatchedProduct op;
    op.m = kM;
    op.n = kN;
    op.k = kK;
    op.transpose_a = transpose_a;
    op.transpose_b = transpose_b;
    op.a = a.view();
    op.b = b.view();
    op.c = {c.data(), kBatch * kM * kN, device::Dtype::Float32};
    op.accumulate = accumulate;
    op.batch = kBatch;
    op.usual_batch = 9;
    products.run({}, op);
    for (std::int64_t i = 0; i < kBatch; ++i) {
      for (std::int64_t row = 0; row < kM; ++row) {
        for (std::int64_t column = 0; column < kN; ++column) {
          float sum = accumulate ? 10 : 0;
          for (std::int64_t l = 0; l < kK; ++l) {
            const std::int64_t left = transpose_a ? l * kM + row : row * kK + l;
            const std::int64_t right = transpose_b ? column * kK + l : l * kN + column;
            sum += integer(i * kM * kK + left, 3) * integer(i * kK * kN + right, 5);
          }
          ASSERT_EQ(c[static_cast<std::size_t>((i * kM + row) * kN + column)], sum)
              << i << " " << row << " " << column;
        }
      }
    }
  }

  std::unique_ptr<cublasLtContext, Destroy> handle_;
};

TEST_F(BatchedProductsTest, MultiplyInEveryFormAndType) {
  check_all_forms();
  EXPECT_EQ(emulation::library().calls, 3 * 8);
}

TEST_F(BatchedProductsTest, AreBuiltInWhereTheLibraryRefuses) {
  emulation::library().refuses_products = true;
  check_all_forms();
  EXPECT_EQ(emulation::library().calls, 0);
}

TEST_F(BatchedProductsTest, OfNoneAreNothing) {
  BatchedProduct op;
  op.m = op.n = op.k = 8;
  op.batch = 0;
  BatchedProducts(handle()).run({}, op);
  EXPECT_EQ(emulation::library().heuristics, 0);
}

// Partial sums would need a workspace, which attention uses for its matrices.
TEST_F(BatchedProductsTest, AreOfferedAlgorithmsWithoutAWorkspaceOnly) {
  Operand a(kBatch * kM * kK, 3, device::Dtype::Float32);
  BatchedProduct op;
  op.m = kM;
  op.n = kM;
  op.k = kK;
  op.a = op.b = a.view();
  op.c = a.view();
  op.transpose_b = true;
  op.batch = kBatch;
  EXPECT_EQ(LibraryCall(op).algorithms(handle(), 8).size(), 1U);
}

// What the library's documentation rules out.
TEST(EmulatedLibrary, RefusesBatchesThatDoNotFit) {
  const auto layout = [](std::int32_t batch, std::int64_t stride) {
    cublasLtMatrixLayout_t it = nullptr;
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&it, CUDA_R_32F, 8, 8, 8), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(it, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                               sizeof batch),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(it, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                               &stride, sizeof stride),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(it, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &stride,
                                               sizeof stride),
              CUBLAS_STATUS_INVALID_VALUE)
        << "a count has 32 bits";
    return it;
  };
  struct Case {
    std::int32_t a_batch;
    std::int64_t a_stride;
    std::int32_t d_batch;
    std::int64_t d_stride;
    cublasStatus_t expected;
  };
  const Case cases[] = {
      {2, 64, 2, 64, CUBLAS_STATUS_SUCCESS},        {2, 0, 2, 64, CUBLAS_STATUS_SUCCESS},
      {1, 0, 1, 0, CUBLAS_STATUS_SUCCESS},          {2, 64, 3, 64, CUBLAS_STATUS_INVALID_VALUE},
      {2, 64, 2, 0, CUBLAS_STATUS_INVALID_VALUE},   {2, 64, 2, 63, CUBLAS_STATUS_INVALID_VALUE},
      {2, -64, 2, 64, CUBLAS_STATUS_INVALID_VALUE}, {0, 64, 0, 64, CUBLAS_STATUS_INVALID_VALUE},
  };
  for (const Case& c : cases) {
    cublasLtMatmulDesc_t operation = nullptr;
    ASSERT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    const cublasLtMatrixLayout_t a = layout(c.a_batch, c.a_stride);
    const cublasLtMatrixLayout_t d = layout(c.d_batch, c.d_stride);
    cublasLtMatmulAlgo_t algorithm = {};
    algorithm.data[0] = emulation::kAlgorithmMark;
    cublasLtMatmulHeuristicResult_t result = {};
    EXPECT_EQ(cublasLtMatmulAlgoCheck(nullptr, operation, a, a, d, d, &algorithm, &result),
              c.expected)
        << c.a_batch << " " << c.a_stride << " " << c.d_batch << " " << c.d_stride;
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(a), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(d), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescDestroy(operation), CUBLAS_STATUS_SUCCESS);
  }
}

}  // namespace
}  // namespace regatta::trainer::cuda
