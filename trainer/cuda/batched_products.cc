#include "trainer/cuda/batched_products.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/cuda/library_call.h"
#include "trainer/cuda/product.h"

namespace regatta::trainer::cuda {
namespace {

// Product i of the batch alone.
device::Gemm single(const BatchedProduct& op, std::int64_t i) {
  const auto part = [i](const device::View& all, std::int64_t size) {
    return all.slice(i * size, size);
  };
  device::Gemm gemm;
  gemm.m = op.m;
  gemm.n = op.n;
  gemm.k = op.k;
  gemm.a = part(op.a, op.m * op.k);
  gemm.b = part(op.b, op.k * op.n);
  gemm.c = part(op.c, op.m * op.n);
  gemm.transpose_a = op.transpose_a;
  gemm.transpose_b = op.transpose_b;
  gemm.beta = op.accumulate ? 1.0F : 0.0F;
  return gemm;
}

}  // namespace

void BatchedProducts::run(const KernelLaunch& at, const BatchedProduct& op) {
  if (op.batch == 0) return;
  const Key key{op.m,           op.n,       op.k,          op.transpose_a,
                op.transpose_b, op.a.dtype, op.accumulate, op.usual_batch};
  auto known = algorithms_.find(key);
  if (known == algorithms_.end()) {
    BatchedProduct usual = op;
    usual.batch = op.usual_batch;
    const std::vector<GemmAlgorithm> found = LibraryCall(usual).algorithms(handle_, 1);
    known = algorithms_.emplace(key, std::nullopt).first;
    if (!found.empty()) known->second = found.front();
  }
  if (!known->second) {
    for (std::int64_t i = 0; i < op.batch; ++i) built_in_product(at, single(op, i));
    return;
  }
  const cublasStatus_t status = LibraryCall(op).enqueue(handle_, at, *known->second);
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw base::Error(base::Code::Developer, "cuBLASLt failed on " + std::to_string(op.batch) +
                                                 " products " + std::to_string(op.m) + "x" +
                                                 std::to_string(op.n) + "x" + std::to_string(op.k) +
                                                 " (" + cublasLtGetStatusString(status) + ")");
  }
}

}  // namespace regatta::trainer::cuda
