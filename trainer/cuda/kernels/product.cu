// Matrix products without a library: c[m, n] = a[m, k]·b[k, n] (+ c), and a bias for every row.
//
// One block of 32 × 8 threads makes a tile of 32 × 32 of c, 4 elements a thread, from slices of 32
// of k in shared memory (rows of 33 floats, so that a column of a tile lies in 32 banks). Every
// element is one sum in the order of k. 2mnk FLOP on the FP32 units: an upper bound of 60 TFLOP/s
// on H200, a tenth of which is to be expected (two shared loads per multiplication); not measured.
// Nothing on the path of a training step comes here: sizes of real models are multiples of 8, which
// the library takes. Rejected: padding operands to sizes that the library takes, which needs memory
// and copies for a case that is never fast.
//
// The bias: reads and writes c once, 2·m·n elements.
#include <algorithm>

#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/numeric.cuh"
#include "trainer/cuda/product.h"

namespace regatta::trainer::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kRows = 8;  // of threads

struct Sizes {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
};

template <typename T, typename U>
__global__ void product_kernel(Sizes s, const T* a, const T* b, U* c) {
  __shared__ float a_tile[kTile][kTile + 1];  // [row of c][k]
  __shared__ float b_tile[kTile][kTile + 1];  // [k][column of c]
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const std::int64_t tiles = (s.n + kTile - 1) / kTile;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) / tiles * kTile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) % tiles * kTile;
  float sums[kTile / kRows] = {};
  for (std::int64_t from = 0; from < s.k; from += kTile) {
    for (int i = y; i < kTile; i += kRows) {
      // Neighbouring threads read neighbouring elements, whichever way the matrix is stored.
      const std::int64_t a_row = row + (s.transpose_a ? x : i);
      const std::int64_t a_k = from + (s.transpose_a ? i : x);
      const bool in_a = a_row < s.m && a_k < s.k;
      const std::int64_t a_at = s.transpose_a ? a_k * s.m + a_row : a_row * s.k + a_k;
      (s.transpose_a ? a_tile[x][i] : a_tile[i][x]) = in_a ? to_float(a[a_at]) : 0.0F;
      const std::int64_t b_k = from + (s.transpose_b ? x : i);
      const std::int64_t b_column = column + (s.transpose_b ? i : x);
      const bool in_b = b_k < s.k && b_column < s.n;
      const std::int64_t b_at = s.transpose_b ? b_column * s.k + b_k : b_k * s.n + b_column;
      (s.transpose_b ? b_tile[x][i] : b_tile[i][x]) = in_b ? to_float(b[b_at]) : 0.0F;
    }
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
      for (int j = 0; j < kTile / kRows; ++j) sums[j] += a_tile[y + j * kRows][i] * b_tile[i][x];
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < kTile / kRows; ++j) {
    const std::int64_t r = row + y + j * kRows;
    if (r >= s.m || column + x >= s.n) continue;
    U* to = c + r * s.n + column + x;
    *to = from_float<U>(s.accumulate ? sums[j] + to_float(*to) : sums[j]);
  }
}

template <typename T>
__global__ void add_bias_kernel(T* c, const T* bias, std::int64_t size, std::int64_t columns) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    c[i] = from_float<T>(to_float(c[i]) + to_float(bias[i % columns]));
  }
}

}  // namespace

void built_in_product(const KernelLaunch& at, const device::Gemm& op) {
  const Sizes sizes{op.m, op.n, op.k, op.transpose_a, op.transpose_b, op.beta != 0.0F};
  const std::int64_t tiles = ((op.m + kTile - 1) / kTile) * ((op.n + kTile - 1) / kTile);
  base::check(tiles < (std::int64_t{1} << 31), "a grid holds the tiles of a product");
  const dim3 grid(static_cast<unsigned>(tiles));
  const dim3 block(kTile, kRows);
  with_type(op.a.dtype, [&](auto type) {
    using T = decltype(type);
    if (op.c.dtype == device::Dtype::Float32) {
      launch(product_kernel<T, float>, grid, block, 0, at.stream, sizes, data_of<T>(op.a),
             data_of<T>(op.b), op.c.floats());
    } else {
      launch(product_kernel<T, T>, grid, block, 0, at.stream, sizes, data_of<T>(op.a),
             data_of<T>(op.b), data_of<T>(op.c));
    }
  });
}

void add_bias(const KernelLaunch& at, device::View c, device::View bias) {
  constexpr int kThreads = 256;
  constexpr std::int64_t kMostBlocks = 4096;
  const std::int64_t blocks = std::min((c.size + kThreads - 1) / kThreads, kMostBlocks);
  with_type(c.dtype, [&](auto type) {
    using T = decltype(type);
    launch(add_bias_kernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, at.stream,
           data_of<T>(c), data_of<T>(bias), c.size, bias.size);
  });
}

}  // namespace regatta::trainer::cuda
