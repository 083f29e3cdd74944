// Equal matrix products side by side, by cuBLASLt's strided batches: what attention_reference.cu is
// made of. Float32 sums, and float32 operands are read as they are: never TF32.
//
// The library is asked once for every shape, untimed, and its first suggestion stays for the life
// of this object. No workspace is offered, so no algorithm may split k and add later: bits repeat.
// It is asked for `usual_batch` products, whatever the number at hand, so that a product's bits do
// not depend on how many are beside it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "trainer/cuda/gemm_plan.h"
#include "trainer/cuda/kernels/kernels.h"

struct cublasLtContext;

namespace regatta::trainer::cuda {

// c_i[m, n] = a_i·b_i (+ c_i) for i < batch. Row-major; matrix i + 1 begins where matrix i ends.
// `transpose_a`: a_i is stored [k, m]; `transpose_b`: b_i is stored [n, k]. a and b are of one type
// (float32, bfloat16, float16), c is float32; all are aligned to 16 bytes, and m, n and k are
// multiples of 8, so that every row of every matrix is, too.
struct BatchedProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  device::View a, b, c;
  bool accumulate = false;
  std::int64_t batch = 1;
  std::int64_t usual_batch = 1;  // what the algorithm is chosen for
};

class BatchedProducts {
 public:
  // `handle` outlives this.
  explicit BatchedProducts(cublasLtContext* handle) : handle_(handle) {}

  // Only enqueues; leaves at.scratch alone. A shape without an algorithm is computed by product.cu,
  // one launch a product. Throws Code::Developer if the library fails on what it has suggested.
  void run(const KernelLaunch& at, const BatchedProduct& op);

 private:
  struct Key {
    std::int64_t m, n, k;
    bool transpose_a, transpose_b;
    device::Dtype type;
    bool accumulate;
    std::int64_t usual_batch;

    auto operator<=>(const Key&) const = default;
  };

  cublasLtContext* handle_;
  std::map<Key, std::optional<GemmAlgorithm>> algorithms_;
};

}  // namespace regatta::trainer::cuda
