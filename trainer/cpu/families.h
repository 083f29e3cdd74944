// Declarations of one instruction set's kernels, for the files that define them and for the table.
#pragma once

#include "trainer/cpu/kernels.h"

namespace regatta::trainer::cpu::REGATTA_ISA {

using std::int64_t;

int64_t packed_floats(int64_t k, int64_t n);
void pack(Operand b, int64_t k, int64_t n, float* packed);
int64_t product_scratch(int64_t k);
void product(int64_t m, int64_t n, int64_t k, Operand a, const float* packed, float* c,
             int64_t c_row, bool add, float* scratch);

void gelu_forward(const float* x, float* y, int64_t n, bool tanh_form);
void gelu_backward(const float* x, const float* dy, float* dx, int64_t n, bool tanh_form);
void tanh_forward(const float* x, float* y, int64_t n);
void tanh_backward(const float* y, const float* dy, float* dx, int64_t n);

void add(const float* x, float* y, int64_t n);
void scale(float* x, int64_t n, float factor);
void column_sums(const float* x, int64_t rows, int64_t columns, float* sum);
void set_rows(const float* row, int64_t rows, int64_t columns, float* to);
double sum_of_squares(const float* x, int64_t n);

int64_t row_scratch(int64_t hidden);
void layer_norm_forward(const device::LayerNormForward& op, int64_t begin, int64_t end,
                        float* scratch);
void layer_norm_backward(const device::LayerNormBackward& op, int64_t begin, int64_t end,
                         float* partial, float* scratch);

void embedding_forward(const device::EmbeddingForward& op, int64_t begin, int64_t end,
                       float* scratch);
void embedding_backward(const device::EmbeddingBackward& op, int64_t begin, int64_t end,
                        float* partial, float* scratch);
void word_gradient(const device::EmbeddingBackward& op, int64_t begin, int64_t end);
void position_gradient(const device::EmbeddingBackward& op, int64_t begin, int64_t end);

int64_t attention_scratch(int64_t length, int64_t head_size, bool backward);
void attention_forward(const device::AttentionForward& op, int64_t sample, int64_t head,
                       float* scratch);
void attention_backward(const device::AttentionBackward& op, int64_t sample, int64_t head,
                        float* scratch);

void cross_entropy(const device::CrossEntropy& op, int64_t begin, int64_t end, float* losses,
                   float* correct);
void span_cross_entropy(const device::SpanCrossEntropy& op, int64_t begin, int64_t end,
                        float* losses, float* correct, float* scratch);
void squared_error(const device::SquaredError& op, int64_t begin, int64_t end, float* losses);

void adamw(const AdamConstants& constants, const AdamRange& range, float rate);
SquaredNorms lamb_moments(const AdamConstants& constants, const AdamRange& range);
void lamb_step(const AdamConstants& constants, const AdamRange& range, float rate);
FourSums noise_sums(const NoiseConstants& constants, const device::NoiseSums& op, int64_t begin,
                    int64_t end);

}  // namespace regatta::trainer::cpu::REGATTA_ISA
