#include "trainer/device/shape_checks.h"

#include <cmath>

#include "base/error.h"

namespace regatta::trainer::device {
namespace {

using base::check;

bool is_floats(const View& view, std::int64_t size) {
  return view.dtype == Dtype::Float32 && view.size == size;
}
bool is_ints(const View& view, std::int64_t size) {
  return view.dtype == Dtype::Int32 && view.size == size;
}
bool is_sixteen_bit(Dtype dtype) { return dtype == Dtype::BFloat16 || dtype == Dtype::Float16; }
bool is_compute_type(Dtype dtype) { return dtype == Dtype::Float32 || is_sixteen_bit(dtype); }
bool is_rows(const View& view, std::int64_t columns) {
  return is_compute_type(view.dtype) && columns > 0 && view.size % columns == 0;
}
// Activations of the same type and size as others.
bool is_like(const View& view, const View& other) {
  return is_compute_type(view.dtype) && view.dtype == other.dtype && view.size == other.size;
}
bool is_rows_like(const View& view, std::int64_t columns, const View& other) {
  return is_rows(view, columns) && view.dtype == other.dtype;
}
bool is_absent(const View& view) { return view.data == nullptr && view.size == 0; }

void check_dropout(const Dropout& dropout, const TokenIdentity& tokens, std::int64_t count) {
  if (dropout.threshold == 0) return;
  check(dropout.threshold < 65536, "a dropout threshold is below 65536");
  check(is_ints(tokens.ordinal, count) && is_ints(tokens.position, count),
        "dropout knows sample and position of every row");
  check(tokens.step.dtype == Dtype::Int32 && tokens.step.size >= 1,
        "dropout knows the step, one int32");
}

void check_samples(const TokenIdentity& tokens) {
  check(tokens.cumulative.dtype == Dtype::Int32 && tokens.cumulative.size >= 2,
        "a packed batch has B + 1 int32 offsets and at least one sample");
}

// h of an operation whose rows are `x` and whose scale is `gamma`; checks both.
std::int64_t hidden_of(const View& gamma, const View& x) {
  check(gamma.dtype == Dtype::Float32 && gamma.size > 0 && gamma.size % 8 == 0,
        "the hidden size is a multiple of 8");
  check(is_rows(x, gamma.size), "activations are whole rows of the hidden size");
  return gamma.size;
}

void check_attention(const View& qkv, const View& out, const View& lse, int heads,
                     const Dropout& dropout, const TokenIdentity& tokens) {
  check_samples(tokens);
  check(heads > 0 && lse.dtype == Dtype::Float32 && lse.size % heads == 0,
        "attention keeps one lse per head and token");
  const std::int64_t count = lse.size / heads;
  check(count > 0 && is_rows(out, count * heads), "attention's output has T rows of all heads");
  check(qkv.size == 3 * out.size && qkv.dtype == out.dtype,
        "attention reads query, key and value side by side");
  check(tokens.max_length > 0 && tokens.max_length <= count && tokens.max_length < 4096,
        "attention knows the longest sample, below 4096 tokens");
  check_dropout(dropout, tokens, count);
}

// The forward activation: what a·b + bias is goes elsewhere, so c has no old contents to add.
void check_forward_activation(const Gemm& op) {
  check(op.activation != Activation::None && op.beta == 0.0F,
        "a product with a forward activation names it, and has beta 0");
  check(is_like(op.pre_activation, op.c) && op.c.dtype == op.a.dtype,
        "a pre-activation and its activation have the product's type, and c's size");
  check(op.pre_activation.data != op.c.data || op.c.size == 0,
        "a pre-activation and its activation differ");
}

void check_backward_activation(const Gemm& op) {
  check(op.activation != Activation::None && op.beta == 0.0F && op.bias.size == 0,
        "a product with a backward activation names it, and has beta 0 and no bias");
  check(is_like(op.gelu_input, op.c) && op.c.dtype == op.a.dtype,
        "the activation's input and its gradient have the product's type, and c's size");
  check(is_absent(op.c_column_sums) || is_floats(op.c_column_sums, op.n),
        "column sums of c have n elements");
}

// An epilogue that is absent has neither memory nor size; one of a c without elements may look so.
void check_epilogue(const Gemm& op) {
  const bool forward = !is_absent(op.pre_activation);
  const bool backward = !is_absent(op.gelu_input);
  const bool sums = !is_absent(op.a_column_sums);
  check(static_cast<int>(forward) + static_cast<int>(backward) + static_cast<int>(sums) <= 1,
        "a matrix product has at most one epilogue");
  if (forward) check_forward_activation(op);
  if (backward) check_backward_activation(op);
  if (sums) {
    check(op.transpose_a && is_floats(op.a_column_sums, op.m),
          "column sums are of a transposed a, and have m elements");
  }
  check(forward || backward || op.activation == Activation::None || op.c.size == 0,
        "an activation comes with its input or takes it");
  check(backward || is_absent(op.c_column_sums) || op.c.size == 0,
        "column sums of c come with a backward activation");
}

// What every loss has beside its logits.
void check_loss(const View& scale, bool evaluate, const View& sums) {
  check(evaluate || is_floats(scale, 1), "a loss's gradient has one scale");
  check(is_floats(sums, 3), "a loss accumulates three sums");
}

void check_smoothing(float label_smoothing) {
  check(label_smoothing >= 0 && label_smoothing < 1, "label smoothing is in [0, 1)");
}

// An update in parts; its tensors are known to lie in the slice.
void check_parts(const OptimizerUpdate& op) {
  check(op.lamb, "only LAMB is updated in parts");
  check(op.tensor_norms.dtype == Dtype::Float32 && op.tensor_norms.size % 2 == 0,
        "tensors have two float32 norms each");
  for (std::int64_t i = 0; i < op.tensor_count; ++i) {
    const std::int64_t number = op.tensors[i].number;
    check(number >= 0 && number < op.tensor_norms.size / 2, "every tensor's number has norms");
  }
}

}  // namespace

void check_shapes(const Gemm& op) {
  check(op.m >= 0 && op.n >= 0 && op.k > 0, "a matrix product has sizes, and a k above 0");
  check(is_compute_type(op.a.dtype) && op.a.size == op.m * op.k,
        "a of a matrix product is activations [m, k]");
  check(op.b.dtype == op.a.dtype && op.b.size == op.k * op.n,
        "b of a matrix product is [k, n] and of a's type");
  check((op.c.dtype == op.a.dtype || op.c.dtype == Dtype::Float32) && op.c.size == op.m * op.n,
        "c of a matrix product is [m, n], of a's type or float32");
  check(op.beta == 0.0F || op.beta == 1.0F, "beta of a matrix product is 0 or 1");
  check(op.bias.size == 0 || (op.bias.dtype == op.c.dtype && op.bias.size == op.n),
        "a bias has n elements of c's type");
  check_epilogue(op);
}

void check_shapes(const EmbeddingForward& op) {
  const std::int64_t h = hidden_of(op.gamma, op.x);
  const std::int64_t count = op.x.size / h;
  check(is_floats(op.beta, h) && is_like(op.y, op.x), "embedding outputs have T rows");
  check(is_floats(op.mean, count) && is_floats(op.rstd, count),
        "embedding keeps mean and rstd [T]");
  check(is_ints(op.ids, count) && is_ints(op.types, count), "embedding reads ids and types [T]");
  check(is_rows_like(op.word, h, op.x) && is_rows_like(op.position, h, op.x) &&
            is_rows_like(op.type, h, op.x),
        "embedding tables are rows of the hidden size, of x's type");
  check(is_ints(op.tokens.position, count), "embedding reads a position for every token");
  check_dropout(op.dropout, op.tokens, count);
}

void check_shapes(const EmbeddingBackward& op) {
  const std::int64_t h = hidden_of(op.gamma, op.x);
  const std::int64_t count = op.x.size / h;
  check(is_like(op.dy, op.x), "the embedding's gradient has T rows");
  check(is_floats(op.mean, count) && is_floats(op.rstd, count), "embedding kept mean and rstd [T]");
  check(is_ints(op.ids, count) && is_ints(op.types, count) && is_ints(op.sorted, count),
        "embedding reads ids, types and the sorted order [T]");
  const auto is_table = [&](const View& view) {
    return view.dtype == Dtype::Float32 && is_rows(view, h);
  };
  check(is_table(op.dword) && is_table(op.dposition) && is_table(op.dtype_rows),
        "gradients of embedding tables are float32 rows of the hidden size");
  check(is_floats(op.dgamma, h) && is_floats(op.dbeta, h), "dgamma and dbeta have h elements");
  check_samples(op.tokens);
  check(is_ints(op.tokens.position, count), "embedding reads a position for every token");
  check(op.tokens.max_length * h <= op.dposition.size, "no sample is longer than the positions");
  check_dropout(op.dropout, op.tokens, count);
}

void check_shapes(const LayerNormForward& op) {
  const std::int64_t h = hidden_of(op.gamma, op.x);
  const std::int64_t rows = op.x.size / h;
  check(is_floats(op.beta, h), "LayerNorm's beta has h elements");
  check(op.residual.size == 0 || is_like(op.residual, op.x), "a residual has x's shape");
  check(is_like(op.z, op.x) && is_like(op.y, op.x), "z and y have x's shape");
  check(is_floats(op.mean, rows) && is_floats(op.rstd, rows), "LayerNorm keeps mean and rstd [R]");
  check_dropout(op.dropout, op.tokens, rows);
}

void check_shapes(const LayerNormBackward& op) {
  const std::int64_t h = hidden_of(op.gamma, op.z);
  const std::int64_t rows = op.z.size / h;
  check(is_like(op.dy, op.z) && is_like(op.dresidual, op.z) && is_like(op.dx, op.z),
        "gradients of LayerNorm have z's shape");
  check(is_floats(op.mean, rows) && is_floats(op.rstd, rows), "LayerNorm kept mean and rstd [R]");
  check(is_floats(op.dgamma, h) && is_floats(op.dbeta, h), "dgamma and dbeta have h elements");
  check(is_absent(op.dbias) || is_floats(op.dbias, h), "dbias has h elements");
  check(op.dropout.threshold == 0 || op.dx.data != op.dresidual.data,
        "with dropout, dx and dresidual differ");
  check_dropout(op.dropout, op.tokens, rows);
}

void check_shapes(const AttentionForward& op) {
  check_attention(op.qkv, op.out, op.lse, op.heads, op.dropout, op.tokens);
}

void check_shapes(const AttentionBackward& op) {
  check_attention(op.qkv, op.out, op.lse, op.heads, op.dropout, op.tokens);
  check(is_like(op.dout, op.out) && is_like(op.dqkv, op.qkv),
        "gradients of attention have the shapes of out and qkv");
}

void check_shapes(const CrossEntropy& op) {
  check(op.classes > 0 && op.row_stride() >= op.classes && is_rows(op.logits, op.row_stride()),
        "logits are rows of all classes");
  check(is_ints(op.labels, op.logits.size / op.row_stride()), "every row of logits has a label");
  check_smoothing(op.label_smoothing);
  check_loss(op.scale, op.evaluate, op.sums);
}

void check_shapes(const SpanCrossEntropy& op) {
  check(is_rows(op.logits, 2), "logits of answers are rows of a beginning and an end");
  check(op.cumulative.dtype == Dtype::Int32 && op.cumulative.size >= 1,
        "a packed batch has B + 1 int32 offsets");
  check(is_ints(op.answers, 2 * (op.cumulative.size - 1)), "every sample has two answers");
  check_smoothing(op.label_smoothing);
  check_loss(op.scale, op.evaluate, op.sums);
}

void check_shapes(const SquaredError& op) {
  check(is_rows(op.logits, 1) && is_floats(op.values, op.logits.size),
        "every sample has one logit and one float32 value");
  check_loss(op.scale, op.evaluate, op.sums);
}

void check_shapes(const OptimizerUpdate& op) {
  const std::int64_t size = op.parameters.size;
  check(is_floats(op.parameters, size) && is_floats(op.gradients, size) &&
            is_floats(op.first_moment, size) && is_floats(op.second_moment, size),
        "the optimizer's four arrays are float32 and of one size");
  check(is_floats(op.scalars, kStepScalars), "the optimizer reads kStepScalars scalars");
  check(is_floats(op.squared_norm, 1), "the optimizer reads one squared norm");
  check(is_absent(op.compute_copy) ||
            (is_sixteen_bit(op.compute_copy.dtype) && op.compute_copy.size == size),
        "a compute copy has the parameters' size and a 16-bit type");
  check(op.tensor_count == 0 || op.tensors != nullptr, "the optimizer knows its tensors");
  for (std::int64_t i = 0; i < op.tensor_count; ++i) {
    const OptimizerTensor& tensor = op.tensors[i];
    check(tensor.offset >= 0 && tensor.size >= 0 && tensor.offset <= size &&
              tensor.size <= size - tensor.offset,
          "every tensor lies in the optimizer's slice");
    check(std::isfinite(tensor.learning_rate) && tensor.learning_rate >= 0,
          "a tensor's learning rate is a finite multiple of the step's");
  }
  if (op.part != UpdatePart::Whole) check_parts(op);
}

void check_elementwise(const View& x, const View& y) {
  check(is_like(y, x), "views of an element-wise operation are of one type and of one size");
}

void check_elementwise(const View& x, const View& y, const View& z) {
  check_elementwise(x, y);
  check_elementwise(x, z);
}

void check_copy(const View& to, const View& from) {
  check(to.dtype == from.dtype && to.size == from.size, "a copy keeps type and size");
}

void check_convert(const View& to, const View& from) {
  check(to.size == from.size && ((to.dtype == Dtype::Float32 && is_sixteen_bit(from.dtype)) ||
                                 (from.dtype == Dtype::Float32 && is_sixteen_bit(to.dtype))),
        "a conversion is between float32 and a 16-bit type, and keeps the size");
}

void check_column_sums(const View& x, std::int64_t columns, const View& sum) {
  check(is_rows(x, columns) && is_floats(sum, columns), "column sums have one element per column");
}

void check_row_selection(const View& many, const View& index, std::int64_t columns,
                         const View& few) {
  check(is_rows(many, columns), "rows are selected from a matrix");
  check(index.dtype == Dtype::Int32 && few.dtype == many.dtype && few.size == index.size * columns,
        "a selection has one row per index");
}

void check_sum_of_squares(const View& x, const View& result) {
  check(x.dtype == Dtype::Float32 && is_floats(result, 1), "a sum of squares is one float32");
}

void check_shapes(const NoiseSums& op) {
  check(is_floats(op.mean, op.mean.size) && is_floats(op.difference, op.mean.size) &&
            is_floats(op.second_moment, op.mean.size),
        "gradients and their second moment are float32 of one size");
  check(is_floats(op.scalars, kStepScalars) && is_floats(op.squared_norm, 1),
        "noise is summed with the scalars of a step");
  check(is_floats(op.sums, 4), "noise has four sums, float32");
}

void check_limit_norm(const View& x, const View& squared_norm, const View& limit) {
  check(x.dtype == Dtype::Float32, "what is limited in its norm is float32");
  check(is_floats(squared_norm, 1) && is_floats(limit, 1),
        "a squared norm and its limit are one float32 each");
}

}  // namespace regatta::trainer::device
