#include "trainer/cpu/matrix_product.h"

#include <algorithm>

#include "base/error.h"

#if defined(REGATTA_HAVE_ONEDNN)
#include <dnnl.h>
#endif
#if defined(REGATTA_HAVE_OPENMP)
#include <omp.h>
#endif

namespace regatta::trainer::cpu {
namespace {

constexpr std::int64_t pieces(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

Operand left_operand(const device::Gemm& op) {
  return {op.a.floats(), op.transpose_a ? 1 : op.k, op.transpose_a ? op.m : 1};
}
Operand right_operand(const device::Gemm& op) {
  return {op.b.floats(), op.transpose_b ? 1 : op.n, op.transpose_b ? op.k : 1};
}

// A slice of c: rows [row, row + rows) × columns [column, column + columns).
struct Slice {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// Cuts c into a grid of slices of at most rows × columns.
struct Grid {
  std::int64_t m = 0, n = 0, rows = 1, columns = 1;
  [[nodiscard]] std::int64_t count() const { return pieces(m, rows) * pieces(n, columns); }
  [[nodiscard]] Slice at(std::int64_t index) const {
    const std::int64_t down = index / pieces(n, columns) * rows;
    const std::int64_t across = index % pieces(n, columns) * columns;
    return {down, std::min(rows, m - down), across, std::min(columns, n - across)};
  }
};

void set_bias(const ProductContext& context, const device::Gemm& op, const Slice& slice, bool add) {
  for (std::int64_t r = slice.row; r < slice.row + slice.rows; ++r) {
    float* row = op.c.floats() + r * op.n + slice.column;
    const float* bias = op.bias.floats() + slice.column;
    if (add) {
      context.kernels.add(bias, row, slice.columns);
    } else {
      context.kernels.set_rows(bias, 1, slice.columns, row);
    }
  }
}

// Rows of a slice of the built-in product: multiples of every kernel's block of rows. Short
// products get short slices, so that their last slice does not leave the other threads idle.
constexpr std::int64_t built_in_rows(std::int64_t m) { return m > 1024 ? 96 : 48; }
constexpr std::int64_t kBuiltInColumns = 256;

void multiply_built_in(const ProductContext& context, const device::Gemm& op) {
  const Kernels& kernels = context.kernels;
  const Operand a = left_operand(op);
  const Operand b = right_operand(op);
  const Grid grid{op.m, op.n, built_in_rows(op.m), kBuiltInColumns};
  // Every column group is packed by itself, so that a slice finds its panels together.
  const std::int64_t groups = pieces(op.n, kBuiltInColumns);
  const std::int64_t group_size = kernels.packed_size(op.k, std::min(op.n, kBuiltInColumns));
  const ScratchPool::Lease packed(context.scratch, groups * group_size);
  context.pool.parallel_for(groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      Operand part = b;
      part.data += g * kBuiltInColumns * b.column_stride;
      kernels.pack(part, op.k, std::min(kBuiltInColumns, op.n - g * kBuiltInColumns),
                   packed.floats() + g * group_size);
    }
  });
  context.pool.parallel_for(grid.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Lease scratch(context.scratch, kernels.product_scratch(op.k));
    for (std::int64_t index = begin; index < end; ++index) {
      const Slice slice = grid.at(index);
      if (op.bias.size != 0) set_bias(context, op, slice, op.beta != 0);
      Operand part = a;
      part.data += slice.row * a.row_stride;
      kernels.product(slice.rows, slice.columns, op.k, part,
                      packed.floats() + slice.column / kBuiltInColumns * group_size,
                      op.c.floats() + slice.row * op.n + slice.column, op.n,
                      op.beta != 0 || op.bias.size != 0, scratch.floats());
    }
  });
}

#if defined(REGATTA_HAVE_ONEDNN)
// oneDNN packs both operands anew for every slice, so slices are as large as they can be while
// there is work for several threads: halved until one is at most 2·2²⁴ FLOPs (a third of a
// millisecond), or 64 × 64.
Grid onednn_grid(const device::Gemm& op) {
  constexpr std::int64_t kMost = 256;
  constexpr std::int64_t kLeast = 64;
  constexpr std::int64_t kWork = std::int64_t{1} << 24;
  Grid grid{op.m, op.n, std::min(kMost, op.m), std::min(kMost, op.n)};
  while (grid.rows * grid.columns * op.k > kWork && std::max(grid.rows, grid.columns) > kLeast) {
    std::int64_t& larger = grid.rows >= grid.columns ? grid.rows : grid.columns;
    larger = std::max(kLeast, pieces(larger, 32) * 16);
  }
  return grid;
}

void multiply_onednn(const ProductContext& context, const device::Gemm& op) {
  const Operand a = left_operand(op);
  const Operand b = right_operand(op);
  const Grid grid = onednn_grid(op);
  context.pool.parallel_for(grid.count(), 1, [&](std::int64_t begin, std::int64_t end) {
#if defined(REGATTA_HAVE_OPENMP)
    omp_set_num_threads(1);  // of this thread only: oneDNN must not start a second pool
#endif
    for (std::int64_t index = begin; index < end; ++index) {
      const Slice slice = grid.at(index);
      const bool has_bias = op.bias.size != 0;
      if (has_bias) set_bias(context, op, slice, op.beta != 0);
      const dnnl_status_t status =
          dnnl_sgemm(op.transpose_a ? 'T' : 'N', op.transpose_b ? 'T' : 'N', slice.rows,
                     slice.columns, op.k, 1.0F, a.data + slice.row * a.row_stride,
                     op.transpose_a ? op.m : op.k, b.data + slice.column * b.column_stride,
                     op.transpose_b ? op.k : op.n, op.beta != 0 || has_bias ? 1.0F : 0.0F,
                     op.c.floats() + slice.row * op.n + slice.column, op.n);
      base::check(status == dnnl_success, "oneDNN multiplies float32 matrices");
    }
  });
}
#endif

}  // namespace

bool has_onednn() {
#if defined(REGATTA_HAVE_ONEDNN)
  return true;
#else
  return false;
#endif
}

std::string onednn_version() {
#if defined(REGATTA_HAVE_ONEDNN)
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
#else
  return "";
#endif
}

void multiply(const ProductContext& context, const device::Gemm& op) {
  if (op.m == 0 || op.n == 0) return;
#if defined(REGATTA_HAVE_ONEDNN)
  const bool fastest = context.products == CpuProducts::Fastest && op.transpose_a;
  if (fastest || context.products == CpuProducts::OneDnn) {
    multiply_onednn(context, op);
    return;
  }
#endif
  multiply_built_in(context, op);
}

}  // namespace regatta::trainer::cpu
