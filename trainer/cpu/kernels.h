// The functions that are compiled once per instruction set, as a table of pointers. Each works on a
// range of rows (or elements) so that the device decides how to split, by sizes only; none
// allocates, throws or starts threads. Formulas and traffic stand at the head of each family's
// file.
#pragma once

#include <array>
#include <cstdint>

#include "trainer/device/device.h"

namespace regatta::trainer::cpu {

// Elements of an element-wise operation that one thread takes at a time: 64 KB, some microseconds.
constexpr std::int64_t kElements = 16384;

// One operand of the built-in product: element (i, j) at data[i·row_stride + j·column_stride]; one
// of the strides is 1.
struct Operand {
  const float* data = nullptr;
  std::int64_t row_stride = 1, column_stride = 1;
};

struct AdamConstants {
  float factor = 1;  // of the gradient, from clipping
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float correction1 = 1, correction2 = 1;
  float weight_decay = 0;  // of this tensor
};
// Equal ranges of the four arrays.
struct AdamRange {
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float *first = nullptr, *second = nullptr;
  std::int64_t size = 0;
};
struct SquaredNorms {
  double parameters = 0, update = 0;
};
// Of device::NoiseSums: the second moment is decay·v + weight·(ḡ² + part_to_rest·d²).
struct NoiseConstants {
  float scale = 1, part_to_rest = 1, decay = 0, weight = 0, epsilon = 0;
};
using FourSums = std::array<double, 4>;

// cross_entropy.cc. Rows or samples [begin, end): losses[r], and correct[r] 0 or 1.
struct LossKernels {
  void (*cross_entropy)(const device::CrossEntropy& op, std::int64_t begin, std::int64_t end,
                        float* losses, float* correct) = nullptr;
  // `scratch` has one float for each token of the longest sample.
  void (*span_cross_entropy)(const device::SpanCrossEntropy& op, std::int64_t begin,
                             std::int64_t end, float* losses, float* correct,
                             float* scratch) = nullptr;
  void (*squared_error)(const device::SquaredError& op, std::int64_t begin, std::int64_t end,
                        float* losses) = nullptr;
};

struct Kernels {
  const char* isa = nullptr;
  bool portable = false;  // the same bits on every instruction set

  // product.cc
  std::int64_t (*packed_size)(std::int64_t k, std::int64_t n) = nullptr;
  void (*pack)(Operand b, std::int64_t k, std::int64_t n, float* packed) = nullptr;
  std::int64_t (*product_scratch)(std::int64_t k) = nullptr;
  // c[m, n] = a[m, k]·b (+ c if `add`), c with rows of c_row floats.
  void (*product)(std::int64_t m, std::int64_t n, std::int64_t k, Operand a, const float* packed,
                  float* c, std::int64_t c_row, bool add, float* scratch) = nullptr;

  // activation.cc: n elements each
  void (*gelu_forward)(const float* x, float* y, std::int64_t n, bool tanh_form) = nullptr;
  void (*gelu_backward)(const float* x, const float* dy, float* dx, std::int64_t n,
                        bool tanh_form) = nullptr;
  void (*tanh_forward)(const float* x, float* y, std::int64_t n) = nullptr;
  void (*tanh_backward)(const float* y, const float* dy, float* dx, std::int64_t n) = nullptr;

  // rows.cc
  void (*add)(const float* x, float* y, std::int64_t n) = nullptr;
  void (*scale)(float* x, std::int64_t n, float factor) = nullptr;
  // sum[c] = Σ over `rows` rows of x.
  void (*column_sums)(const float* x, std::int64_t rows, std::int64_t columns,
                      float* sum) = nullptr;
  void (*set_rows)(const float* row, std::int64_t rows, std::int64_t columns, float* to) = nullptr;
  double (*sum_of_squares)(const float* x, std::int64_t n) = nullptr;

  // layernorm.cc: rows [begin, end). `partial` [2, h] receives dgamma, dbeta of these rows.
  std::int64_t (*row_scratch)(std::int64_t hidden) = nullptr;
  void (*layer_norm_forward)(const device::LayerNormForward& op, std::int64_t begin,
                             std::int64_t end, float* scratch) = nullptr;
  void (*layer_norm_backward)(const device::LayerNormBackward& op, std::int64_t begin,
                              std::int64_t end, float* partial, float* scratch) = nullptr;

  // embedding.cc: tokens [begin, end). `partial` [2 + types, h]: dgamma, dbeta, then the type rows.
  void (*embedding_forward)(const device::EmbeddingForward& op, std::int64_t begin,
                            std::int64_t end, float* scratch) = nullptr;
  void (*embedding_backward)(const device::EmbeddingBackward& op, std::int64_t begin,
                             std::int64_t end, float* partial, float* scratch) = nullptr;
  // Segments of equal ids that start in [begin, end) of `sorted`.
  void (*word_gradient)(const device::EmbeddingBackward& op, std::int64_t begin,
                        std::int64_t end) = nullptr;
  // Positions [begin, end).
  void (*position_gradient)(const device::EmbeddingBackward& op, std::int64_t begin,
                            std::int64_t end) = nullptr;

  // attention.cc: one head of one sample that is not empty.
  std::int64_t (*attention_scratch)(std::int64_t length, std::int64_t head_size,
                                    bool backward) = nullptr;
  void (*attention_forward)(const device::AttentionForward& op, std::int64_t sample,
                            std::int64_t head, float* scratch) = nullptr;
  void (*attention_backward)(const device::AttentionBackward& op, std::int64_t sample,
                             std::int64_t head, float* scratch) = nullptr;

  LossKernels loss;

  // optimizer.cc
  void (*adamw)(const AdamConstants& constants, const AdamRange& range, float rate) = nullptr;
  SquaredNorms (*lamb_moments)(const AdamConstants& constants, const AdamRange& range) = nullptr;
  void (*lamb_step)(const AdamConstants& constants, const AdamRange& range, float rate) = nullptr;
  FourSums (*noise_sums)(const NoiseConstants& constants, const device::NoiseSums& op,
                         std::int64_t begin, std::int64_t end) = nullptr;
};

// What each instruction set's files provide; nothing else of them is called from outside, and this
// only where the machine has the instructions.
namespace baseline {
[[nodiscard]] Kernels kernels();
}
#if defined(__x86_64__)
namespace avx2 {
[[nodiscard]] Kernels kernels();
}
namespace avx512 {
[[nodiscard]] Kernels kernels();
}
#endif
// The same of portable arithmetic (vector.h).
namespace portable_baseline {
[[nodiscard]] Kernels kernels();
}
#if defined(__x86_64__)
namespace portable_avx2 {
[[nodiscard]] Kernels kernels();
}
namespace portable_avx512 {
[[nodiscard]] Kernels kernels();
}
#endif

}  // namespace regatta::trainer::cpu
