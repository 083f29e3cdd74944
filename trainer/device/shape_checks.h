// The sizes and types that trainer/device/device.h promises, checked on entry to every operation of
// every device. They only read the views' sizes and types, never their memory. A wrong one aborts:
// it is a bug.
#pragma once

#include "trainer/device/device.h"

namespace regatta::trainer::device {

void check_shapes(const Gemm& op);
void check_shapes(const EmbeddingForward& op);
void check_shapes(const EmbeddingBackward& op);
void check_shapes(const LayerNormForward& op);
void check_shapes(const LayerNormBackward& op);
void check_shapes(const AttentionForward& op);
void check_shapes(const AttentionBackward& op);
void check_shapes(const CrossEntropy& op);
void check_shapes(const SpanCrossEntropy& op);
void check_shapes(const SquaredError& op);
void check_shapes(const OptimizerUpdate& op);
void check_shapes(const NoiseSums& op);
// Views of an element-wise operation: activations of one type and size.
void check_elementwise(const View& x, const View& y);
void check_elementwise(const View& x, const View& y, const View& z);
void check_copy(const View& to, const View& from);
// One is float32, the other of a 16-bit type.
void check_convert(const View& to, const View& from);
void check_column_sums(const View& x, std::int64_t columns, const View& sum);
// `index` selects rows of `many`; `few` has one row for each.
void check_row_selection(const View& many, const View& index, std::int64_t columns,
                         const View& few);
void check_sum_of_squares(const View& x, const View& result);
void check_limit_norm(const View& x, const View& squared_norm, const View& limit);

}  // namespace regatta::trainer::device
