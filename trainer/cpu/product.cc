// c[m, n] (+)= a[m, k]·b[k, n], the built-in matrix product of one range of rows; b is packed
// (micro_product.h). k runs in blocks so that a panel of b (kDepth × kPanel floats, 32 KiB with
// AVX-512) and kRows rows of a stay in the nearest caches. Traffic per block of rows: a once, b
// once from the second-level cache, c k / kDepth times.
#include "trainer/cpu/families.h"
#include "trainer/cpu/micro_product.h"

namespace regatta::trainer::cpu::REGATTA_ISA {
namespace {

constexpr int64_t kDepth = 256;

// Rows [0, count) of a, depth [0, k) as [k][kRows], zeros behind row `count`.
void pack_rows(const Operand& a, int64_t count, int64_t k, float* packed) {
  if (a.row_stride == 1 && count == kRows) {
    for (int64_t p = 0; p < k; ++p) {
      __builtin_memcpy(packed + p * kRows, a.data + p * a.column_stride, sizeof(float) * kRows);
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t i = 0; i < kRows; ++i) {
      packed[p * kRows + i] = i < count ? a.data[i * a.row_stride + p * a.column_stride] : 0.0F;
    }
  }
}

template <bool Accumulate>
void product_block(int64_t vectors, int64_t k, const float* a, int64_t a_row, int64_t a_column,
                   const float* panel, float* c, int64_t c_row) {
  if (vectors == 2 && a_column == 1) {
    micro_product<2, Accumulate>(k, a, a_row, 1, panel, c, c_row);
  } else if (vectors == 2) {
    micro_product<2, Accumulate>(k, a, 1, kRows, panel, c, c_row);
  } else if (a_column == 1) {
    micro_product<1, Accumulate>(k, a, a_row, 1, panel, c, c_row);
  } else {
    micro_product<1, Accumulate>(k, a, 1, kRows, panel, c, c_row);
  }
}

void copy_corner(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                 int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t s = 0; s < columns; ++s) to[r * to_row + s] = from[r * from_row + s];
  }
}
void add_corner(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t s = 0; s < columns; ++s) to[r * to_row + s] += from[r * from_row + s];
  }
}

}  // namespace

int64_t packed_floats(int64_t k, int64_t n) { return packed_size(k, n); }

// Panels of every depth block one after the other: block p0 starts at p0·round_up(n, kPanel).
void pack(Operand b, int64_t k, int64_t n, float* packed) {
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t depth = k - p < kDepth ? k - p : kDepth;
    pack_panels(b.data + p * b.row_stride, b.row_stride, b.column_stride, depth, n,
                packed + packed_size(p, n));
  }
}

int64_t product_scratch(int64_t k) {
  return (k < kDepth ? k : kDepth) * kRows + static_cast<int64_t>(kRows) * kPanel;
}

void product(int64_t m, int64_t n, int64_t k, Operand a, const float* packed, float* c,
             int64_t c_row, bool add, float* scratch) {
  float* tile = scratch;
  float* rows = scratch + kRows * kPanel;
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t depth = k - p < kDepth ? k - p : kDepth;
    const bool accumulate = add || p > 0;
    for (int64_t i = 0; i < m; i += kRows) {
      const int64_t count = m - i < kRows ? m - i : kRows;
      Operand part = a;
      part.data += i * a.row_stride + p * a.column_stride;
      if (a.column_stride != 1 || count < kRows) {
        pack_rows(part, count, depth, rows);
        part = {rows, 1, kRows};
      }
      for (int64_t j = 0; j < n; j += kPanel) {
        const int64_t width = n - j < kPanel ? n - j : kPanel;
        const float* panel = packed + packed_size(p, n) + j * depth;
        const int64_t vectors = width > kMachineLanes ? 2 : 1;
        float* corner = c + i * c_row + j;
        if (count == kRows && width == vectors * kMachineLanes) {
          if (accumulate) {
            product_block<true>(vectors, depth, part.data, part.row_stride, part.column_stride,
                                panel, corner, c_row);
          } else {
            product_block<false>(vectors, depth, part.data, part.row_stride, part.column_stride,
                                 panel, corner, c_row);
          }
          continue;
        }
        // Where blocks end differs between machines: portable sums of edges begin as others do.
        const bool continues = kPortable && accumulate;
        if (continues) {
          copy_corner(corner, c_row, count, width, tile, kPanel);
          product_block<true>(vectors, depth, part.data, part.row_stride, part.column_stride, panel,
                              tile, kPanel);
        } else {
          product_block<false>(vectors, depth, part.data, part.row_stride, part.column_stride,
                               panel, tile, kPanel);
        }
        if (accumulate && !continues) {
          add_corner(tile, kPanel, count, width, corner, c_row);
        } else {
          copy_corner(tile, kPanel, count, width, corner, c_row);
        }
      }
    }
  }
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
