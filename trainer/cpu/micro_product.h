// The register-blocked heart of every matrix product: kRows × (1 or 2 vectors) of C stay in
// registers while k runs. B comes packed in panels of kPanel columns, A by strides.
//
// Per step of k with AVX-512: 16 multiply-adds of 16 lanes for 2 vector loads and 8 broadcasts,
// enough independent sums to hide the latency of one or two FMA pipes.
//
// Vectors are the machine's, also where others are longer (REGATTA_PORTABLE): an element of C is
// one sum over k in order, whatever lies beside it.
#pragma once

#include "trainer/cpu/vector.h"

namespace regatta::trainer::cpu::REGATTA_ISA {

#if defined(__AVX512F__)
constexpr int kRows = 8;
#elif defined(__AVX2__)
constexpr int kRows = 6;
#else
constexpr int kRows = 4;
#endif
constexpr int kPanelVectors = 2;
constexpr int kPanel = kPanelVectors * kMachineLanes;

// Floats of a packed [k, n] matrix.
constexpr int64_t packed_size(int64_t k, int64_t n) { return k * round_up(n, kPanel); }

// Packs b, element (p, j) at b[p·row_stride + j·column_stride], as panels [n / kPanel][k][kPanel]
// with zeros behind column n. One of the strides is 1.
inline void pack_panels(const float* b, int64_t row_stride, int64_t column_stride, int64_t k,
                        int64_t n, float* packed) {
  for (int64_t j = 0; j < n; j += kPanel) {
    float* panel = packed + j * k;
    const int64_t width = n - j < kPanel ? n - j : kPanel;
    if (width < kPanel) {
      for (int64_t i = 0; i < k * kPanel; ++i) panel[i] = 0;
    }
    if (column_stride == 1) {
      for (int64_t p = 0; p < k; ++p) {
        const float* from = b + p * row_stride + j;
        if (width == kPanel) {
          __builtin_memcpy(panel + p * kPanel, from, sizeof(float) * kPanel);
        } else {
          for (int64_t c = 0; c < width; ++c) panel[p * kPanel + c] = from[c];
        }
      }
    } else {
      for (int64_t c = 0; c < width; ++c) {
        const float* from = b + (j + c) * column_stride;
        for (int64_t p = 0; p < k; ++p) panel[p * kPanel + c] = from[p * row_stride];
      }
    }
  }
}

inline MachineVec load_machine(const float* from) {
  MachineVec value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

// c[kRows, Vectors·kMachineLanes] (+)= a·panel. a(i, p) = a[i·a_row + p·a_column].
template <int Vectors, bool Accumulate>
inline __attribute__((always_inline)) void micro_product(int64_t k, const float* a, int64_t a_row,
                                                         int64_t a_column, const float* panel,
                                                         float* c, int64_t c_row) {
  MachineVec sums[kRows][Vectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < Vectors; ++v) {
      sums[i][v] = Accumulate ? load_machine(c + i * c_row + v * kMachineLanes) : MachineVec{};
    }
  }
  for (int64_t p = 0; p < k; ++p) {
    MachineVec row[Vectors];
    for (int v = 0; v < Vectors; ++v) {
      row[v] = load_machine(panel + p * kPanel + v * kMachineLanes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const MachineVec value = a[i * a_row + p * a_column] - MachineVec{};
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) sums[i][v] += value * row[v];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < Vectors; ++v) {
      __builtin_memcpy(c + i * c_row + v * kMachineLanes, &sums[i][v], sizeof(MachineVec));
    }
  }
}

enum class Into { Overwrite, Add };

// c[m, n] (+)= a·b over whole blocks: a and c must have round_up(m, kRows) readable and writable
// rows, c rows of round_up(n, kMachineLanes) floats; what lies beyond [m, n] becomes rubbish. a_row
// or a_column is 1.
template <Into into>
inline void block_product(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row,
                          int64_t a_column, const float* packed, float* c, int64_t c_row) {
  constexpr bool kAdd = into == Into::Add;
  for (int64_t j = 0; j < n; j += kPanel) {
    const float* panel = packed + j * k;
    for (int64_t i = 0; i < m; i += kRows) {
      const float* rows = a + i * a_row;
      float* corner = c + i * c_row + j;
      if (n - j > kMachineLanes) {
        if (a_column == 1) {
          micro_product<2, kAdd>(k, rows, a_row, 1, panel, corner, c_row);
        } else {
          micro_product<2, kAdd>(k, rows, 1, a_column, panel, corner, c_row);
        }
      } else if (a_column == 1) {
        micro_product<1, kAdd>(k, rows, a_row, 1, panel, corner, c_row);
      } else {
        micro_product<1, kAdd>(k, rows, 1, a_column, panel, corner, c_row);
      }
    }
  }
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
