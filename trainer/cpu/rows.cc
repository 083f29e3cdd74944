// Sums over columns and elements, and copies of rows: bound by memory, one pass each.
//   add                 y += x                12 bytes an element
//   column_sums         sum[c] = Σ_r x[r, c]   4 bytes an element
//   scale               x *= factor            8 bytes an element
//   sum_of_squares      Σ x² in float64        4 bytes an element
#include "trainer/cpu/families.h"
#include "trainer/cpu/vector.h"

namespace regatta::trainer::cpu::REGATTA_ISA {

void add(const float* x, float* y, int64_t n) {
  for_lanes(
      n, [&](int64_t i) { store(y + i, load(y + i) + load(x + i)); },
      [&](int64_t i, int64_t rest) {
        store_part(y + i, load_part(y + i, rest) + load_part(x + i, rest), rest);
      });
}

void scale(float* x, int64_t n, float factor) {
  for_lanes(
      n, [&](int64_t i) { store(x + i, load(x + i) * factor); },
      [&](int64_t i, int64_t rest) { store_part(x + i, load_part(x + i, rest) * factor, rest); });
}

void column_sums(const float* x, int64_t rows, int64_t columns, float* sum) {
  for_lanes(
      columns,
      [&](int64_t i) {
        Vec total{};
        for (int64_t r = 0; r < rows; ++r) total += load(x + r * columns + i);
        store(sum + i, total);
      },
      [&](int64_t i, int64_t rest) {
        Vec total{};
        for (int64_t r = 0; r < rows; ++r) total += load_part(x + r * columns + i, rest);
        store_part(sum + i, total, rest);
      });
}

void set_rows(const float* row, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    __builtin_memcpy(to + r * columns, row, sizeof(float) * static_cast<size_t>(columns));
  }
}

// Sixteen float64 sums side by side on every instruction set, so that all agree.
double sum_of_squares(const float* x, int64_t n) {
  constexpr int kSums = 16;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int j = 0; j < kSums; ++j) {
      const auto value = static_cast<double>(x[i + j]);
      sums[j] += value * value;
    }
  }
  for (int j = 0; i + j < n; ++j) {
    const auto value = static_cast<double>(x[i + j]);
    sums[j] += value * value;
  }
  for (int width = kSums / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
