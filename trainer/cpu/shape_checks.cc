#include "trainer/cpu/shape_checks.h"

#include "base/error.h"

namespace regatta::trainer {
namespace {

using base::check;

bool is_floats(const View& view, std::int64_t size) {
  return view.dtype == Dtype::Float32 && view.size == size;
}
bool is_ints(const View& view, std::int64_t size) {
  return view.dtype == Dtype::Int32 && view.size == size;
}
bool is_rows(const View& view, std::int64_t columns) {
  return view.dtype == Dtype::Float32 && columns > 0 && view.size % columns == 0;
}

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
  check(count > 0 && out.dtype == Dtype::Float32 && out.size % (count * heads) == 0,
        "attention's output has T rows of all heads");
  check(is_floats(qkv, 3 * out.size), "attention reads query, key and value side by side");
  check(tokens.max_length > 0 && tokens.max_length <= count && tokens.max_length < 4096,
        "attention knows the longest sample, below 4096 tokens");
  check_dropout(dropout, tokens, count);
}

}  // namespace

void check_shapes(const Gemm& op) {
  check(op.m >= 0 && op.n >= 0 && op.k > 0, "a matrix product has sizes, and a k above 0");
  check(is_floats(op.a, op.m * op.k), "a of a matrix product is float32 [m, k]");
  check(is_floats(op.b, op.k * op.n), "b of a matrix product is float32 [k, n]");
  check(is_floats(op.c, op.m * op.n), "c of a matrix product is float32 [m, n]");
  check(op.beta == 0.0F || op.beta == 1.0F, "beta of a matrix product is 0 or 1");
  check(op.bias.size == 0 || is_floats(op.bias, op.n), "a bias has n elements");
}

void check_shapes(const EmbeddingForward& op) {
  const std::int64_t h = hidden_of(op.gamma, op.x);
  const std::int64_t count = op.x.size / h;
  check(is_floats(op.beta, h) && is_floats(op.y, op.x.size), "embedding outputs have T rows");
  check(is_floats(op.mean, count) && is_floats(op.rstd, count),
        "embedding keeps mean and rstd [T]");
  check(is_ints(op.ids, count) && is_ints(op.types, count), "embedding reads ids and types [T]");
  check(is_rows(op.word, h) && is_rows(op.position, h) && is_rows(op.type, h),
        "embedding tables are rows of the hidden size");
  check(is_ints(op.tokens.position, count), "embedding reads a position for every token");
  check_dropout(op.dropout, op.tokens, count);
}

void check_shapes(const EmbeddingBackward& op) {
  const std::int64_t h = hidden_of(op.gamma, op.x);
  const std::int64_t count = op.x.size / h;
  check(is_floats(op.dy, op.x.size), "the embedding's gradient has T rows");
  check(is_floats(op.mean, count) && is_floats(op.rstd, count), "embedding kept mean and rstd [T]");
  check(is_ints(op.ids, count) && is_ints(op.types, count) && is_ints(op.sorted, count),
        "embedding reads ids, types and the sorted order [T]");
  check(is_rows(op.dword, h) && is_rows(op.dposition, h) && is_rows(op.dtype_rows, h),
        "gradients of embedding tables are rows of the hidden size");
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
  check(op.residual.size == 0 || is_floats(op.residual, op.x.size), "a residual has x's shape");
  check(is_floats(op.z, op.x.size) && is_floats(op.y, op.x.size), "z and y have x's shape");
  check(is_floats(op.mean, rows) && is_floats(op.rstd, rows), "LayerNorm keeps mean and rstd [R]");
  check_dropout(op.dropout, op.tokens, rows);
}

void check_shapes(const LayerNormBackward& op) {
  const std::int64_t h = hidden_of(op.gamma, op.z);
  const std::int64_t rows = op.z.size / h;
  check(is_floats(op.dy, op.z.size) && is_floats(op.dresidual, op.z.size) &&
            is_floats(op.dx, op.z.size),
        "gradients of LayerNorm have z's shape");
  check(is_floats(op.mean, rows) && is_floats(op.rstd, rows), "LayerNorm kept mean and rstd [R]");
  check(is_floats(op.dgamma, h) && is_floats(op.dbeta, h), "dgamma and dbeta have h elements");
  check(op.dropout.threshold == 0 || op.dx.data != op.dresidual.data,
        "with dropout, dx and dresidual differ");
  check_dropout(op.dropout, op.tokens, rows);
}

void check_shapes(const AttentionForward& op) {
  check_attention(op.qkv, op.out, op.lse, op.heads, op.dropout, op.tokens);
}

void check_shapes(const AttentionBackward& op) {
  check_attention(op.qkv, op.out, op.lse, op.heads, op.dropout, op.tokens);
  check(is_floats(op.dout, op.out.size) && is_floats(op.dqkv, op.qkv.size),
        "gradients of attention have the shapes of out and qkv");
}

void check_shapes(const CrossEntropy& op) {
  check(op.classes > 0 && is_rows(op.logits, op.classes), "logits are rows of all classes");
  check(is_ints(op.labels, op.logits.size / op.classes), "every row of logits has a label");
  check(is_floats(op.sums, 3), "cross-entropy accumulates three sums");
}

void check_shapes(const OptimizerUpdate& op) {
  const std::int64_t size = op.parameters.size;
  check(is_floats(op.parameters, size) && is_floats(op.gradients, size) &&
            is_floats(op.first_moment, size) && is_floats(op.second_moment, size),
        "the optimizer's four arrays are float32 and of one size");
  check(is_floats(op.scalars, kStepScalars), "the optimizer reads kStepScalars scalars");
  check(is_floats(op.squared_norm, 1), "the optimizer reads one squared norm");
  check(op.tensor_count == 0 || op.tensors != nullptr, "the optimizer knows its tensors");
  for (std::int64_t i = 0; i < op.tensor_count; ++i) {
    const OptimizerTensor& tensor = op.tensors[i];
    check(tensor.offset >= 0 && tensor.size >= 0 && tensor.offset <= size &&
              tensor.size <= size - tensor.offset,
          "every tensor lies in the optimizer's slice");
  }
}

void check_elementwise(const View& x, const View& y) {
  check(x.dtype == Dtype::Float32 && is_floats(y, x.size),
        "views of an element-wise operation are float32 and of one size");
}

void check_elementwise(const View& x, const View& y, const View& z) {
  check_elementwise(x, y);
  check_elementwise(x, z);
}

void check_copy(const View& to, const View& from) {
  check(to.dtype == from.dtype && to.size == from.size, "a copy keeps type and size");
}

void check_column_sums(const View& x, std::int64_t columns, const View& sum) {
  check(is_rows(x, columns) && is_floats(sum, columns), "column sums have one element per column");
}

void check_row_selection(const View& many, const View& index, std::int64_t columns,
                         const View& few) {
  check(is_rows(many, columns), "rows are selected from a matrix");
  check(index.dtype == Dtype::Int32 && is_floats(few, index.size * columns),
        "a selection has one row per index");
}

}  // namespace regatta::trainer
