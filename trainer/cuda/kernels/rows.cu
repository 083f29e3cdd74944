// Rows of activations [rows, columns] chosen by index int32 [count]:
//   gather_rows        to[i] = from[index[i]], zeros for index −1      2·s bytes an element
//   scatter_add_rows   to[index[i]] += from[i], nothing for index −1   3·s
// (s = bytes of an element). A warp has one row, a lane 16 bytes of it in turn; where rows are not
// whole 16 bytes, single elements. Indexes other than −1 are unique in a scatter, so no two warps
// share a row. Floor on H200 for 5,000 rows of 1,024 bfloat16: 20 MB gathered = 5 µs at 4.0 TB/s,
// which is about what a launch costs. Not measured. Rejected: a block a row (a row of 1,024
// bfloat16 is only four 16-byte loads a lane).
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/kernels/launch.cuh"
#include "trainer/cuda/kernels/norm_row.cuh"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::trainer::cuda {
namespace {

constexpr int kWarps = 4;

// The warp's row of `count`, or −1 past the end.
__device__ std::int64_t row_of_warp(std::int64_t count) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  return row < count ? row : -1;
}

// Piece is T or the 16 bytes that hold several; `columns` counts pieces.
template <typename Piece>
__global__ void __launch_bounds__(32 * kWarps)
    gather_rows_kernel(const Piece* from, const std::int32_t* index, std::int64_t count,
                       std::int64_t columns, Piece* to) {
  const std::int64_t row = row_of_warp(count);
  if (row < 0) return;
  const std::int64_t source = index[row];
#pragma unroll 4
  for (std::int64_t c = threadIdx.x % 32; c < columns; c += 32) {
    Piece piece = {};
    if (source >= 0) piece = from[source * columns + c];
    to[row * columns + c] = piece;
  }
}

template <typename T, bool wide>
__global__ void __launch_bounds__(32 * kWarps)
    scatter_add_rows_kernel(const T* from, const std::int32_t* index, std::int64_t count,
                            std::int64_t columns, T* to) {
  const std::int64_t row = row_of_warp(count);
  if (row < 0) return;
  const std::int64_t target = index[row];
  if (target < 0) return;
  const T* source = from + row * columns;
  T* sum = to + target * columns;
  constexpr int kStep = wide ? 8 : 1;
#pragma unroll 2
  for (std::int64_t c = threadIdx.x % 32 * kStep; c < columns; c += 32 * kStep) {
    if constexpr (wide) {
      Eight v = load8(sum + c);
      const Eight more = load8(source + c);
#pragma unroll
      for (int e = 0; e < 8; ++e) v.v[e] += more.v[e];
      store8(sum + c, v);
    } else {
      sum[c] = from_float<T>(to_float(sum[c]) + to_float(source[c]));
    }
  }
}

dim3 grid_of(std::int64_t count) {
  return dim3(static_cast<unsigned>((count + kWarps - 1) / kWarps));
}

}  // namespace

void gather_rows(const KernelLaunch& at, device::View from, device::View index,
                 std::int64_t columns, device::View to) {
  const std::int64_t row_bytes = columns * device::size_of(from.dtype);
  const auto gather = [&](auto piece) {
    using Piece = decltype(piece);
    launch(gather_rows_kernel<Piece>, grid_of(index.size), dim3(32 * kWarps), 0, at.stream,
           data_of<Piece>(from), index.ints(), index.size,
           row_bytes / static_cast<std::int64_t>(sizeof(Piece)), data_of<Piece>(to));
  };
  if (row_bytes % 16 == 0 && is_aligned(from.data) && is_aligned(to.data)) {
    gather(uint4{});
  } else if (device::size_of(from.dtype) == 4) {
    gather(std::uint32_t{});
  } else {
    gather(std::uint16_t{});
  }
}

void scatter_add_rows(const KernelLaunch& at, device::View from, device::View index,
                      std::int64_t columns, device::View to) {
  with_type(from.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool wide = columns % 8 == 0 && is_aligned(from.data) && is_aligned(to.data);
    launch(wide ? scatter_add_rows_kernel<T, true> : scatter_add_rows_kernel<T, false>,
           grid_of(index.size), dim3(32 * kWarps), 0, at.stream, data_of<T>(from), index.ints(),
           index.size, columns, data_of<T>(to));
  });
}

}  // namespace regatta::trainer::cuda
