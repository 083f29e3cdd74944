// x[t] = word[ids[t]] + position[p] + type[types[t]]; y = dropout(LayerNorm(x)·gamma + beta).
// Traffic for [T, h]: forward gathers 12·T·h bytes (positions and types stay in cache) and writes
// 8·T·h; backward reads dy and x, writes dx, then reads dx once for the words (in order of ids: a
// segmented sum without races, each row of the gradient written once) and once for the positions.
#include "trainer/cpu/families.h"
#include "trainer/cpu/norm_row.h"

namespace regatta::trainer::cpu::REGATTA_ISA {

void embedding_forward(const device::EmbeddingForward& op, int64_t begin, int64_t end,
                       float* scratch) {
  const int64_t h = op.gamma.size;
  const bool drop = op.dropout.threshold != 0;
  for (int64_t t = begin; t < end; ++t) {
    float* x = op.x.floats() + t * h;
    copy_row(op.word.floats() + op.ids.ints()[t] * h, h, x);
    add(op.position.floats() + op.tokens.position.ints()[t] * h, x, h);
    add(op.type.floats() + op.types.ints()[t] * h, x, h);
    const Moments of = moments_of_row(x, h, op.epsilon);
    op.mean.floats()[t] = of.mean;
    op.rstd.floats()[t] = of.rstd;
    float* y = op.y.floats() + t * h;
    normalise_row(x, of, op.gamma.floats(), op.beta.floats(), h, y);
    if (drop) {
      dropout_factors(token_row(op.dropout, op.tokens, t, h), h, scratch);
      multiply_row(y, scratch, h, y);
    }
  }
}

void embedding_backward(const device::EmbeddingBackward& op, int64_t begin, int64_t end,
                        float* partial, float* scratch) {
  const int64_t h = op.gamma.size;
  clear(partial, 2 * h + op.dtype_rows.size);
  for (int64_t t = begin; t < end; ++t) {
    float* dy = op.dy.floats() + t * h;
    if (op.dropout.threshold != 0) {
      dropout_factors(token_row(op.dropout, op.tokens, t, h), h, scratch);
      multiply_row(dy, scratch, h, dy);
    }
    const Moments of = {op.mean.floats()[t], op.rstd.floats()[t]};
    norm_backward_row(dy, op.x.floats() + t * h, of, op.gamma.floats(), h, dy, partial,
                      partial + h);
    add(dy, partial + (2 + op.types.ints()[t]) * h, h);
  }
}

void word_gradient(const device::EmbeddingBackward& op, int64_t begin, int64_t end) {
  const int64_t h = op.gamma.size;
  const int64_t tokens = op.ids.size;
  const std::int32_t* sorted = op.sorted.ints();
  const std::int32_t* ids = op.ids.ints();
  for (int64_t i = begin; i < end; ++i) {
    const std::int32_t id = ids[sorted[i]];
    if (i > 0 && ids[sorted[i - 1]] == id) continue;  // the segment's start adds it
    float* row = op.dword.floats() + id * h;
    for (int64_t j = i; j < tokens && ids[sorted[j]] == id; ++j) {
      add(op.dy.floats() + sorted[j] * h, row, h);
    }
  }
}

void position_gradient(const device::EmbeddingBackward& op, int64_t begin, int64_t end) {
  const int64_t h = op.gamma.size;
  const std::int32_t* first = op.tokens.cumulative.ints();
  const int64_t samples = op.tokens.cumulative.size - 1;
  for (int64_t p = begin; p < end; ++p) {
    for (int64_t s = 0; s < samples; ++s) {
      if (first[s] + p < first[s + 1]) {
        add(op.dy.floats() + (first[s] + p) * h, op.dposition.floats() + p * h, h);
      }
    }
  }
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
