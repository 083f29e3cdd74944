// z = dropout(x) + residual; y = LayerNorm(z)·gamma + beta (Ba et al., 2016). One row at a time
// stays in the first-level cache. Traffic for [R, h]: forward reads x and residual, writes z and y,
// 16·R·h bytes; backward reads dy and z, writes dz (and dx with dropout), 12 to 16·R·h bytes. Masks
// are drawn again in backward, so they cost no memory.
#include "trainer/cpu/families.h"
#include "trainer/cpu/norm_row.h"

namespace regatta::trainer::cpu::REGATTA_ISA {

int64_t row_scratch(int64_t hidden) { return dropout_room(hidden); }

void layer_norm_forward(const device::LayerNormForward& op, int64_t begin, int64_t end,
                        float* scratch) {
  const int64_t h = op.gamma.size;
  const bool has_residual = op.residual.size != 0;
  for (int64_t r = begin; r < end; ++r) {
    float* z = op.z.floats() + r * h;
    const float* x = op.x.floats() + r * h;
    if (op.dropout.threshold != 0) {
      dropout_factors(token_row(op.dropout, op.tokens, r, h), h, scratch);
      multiply_row(x, scratch, h, z);
    } else {
      copy_row(x, h, z);
    }
    if (has_residual) add(op.residual.floats() + r * h, z, h);
    const Moments of = moments_of_row(z, h, op.epsilon);
    op.mean.floats()[r] = of.mean;
    op.rstd.floats()[r] = of.rstd;
    normalise_row(z, of, op.gamma.floats(), op.beta.floats(), h, op.y.floats() + r * h);
  }
}

void layer_norm_backward(const device::LayerNormBackward& op, int64_t begin, int64_t end,
                         float* partial, float* scratch) {
  const int64_t h = op.gamma.size;
  clear(partial, 2 * h);
  for (int64_t r = begin; r < end; ++r) {
    float* dz = op.dresidual.floats() + r * h;
    const Moments of = {op.mean.floats()[r], op.rstd.floats()[r]};
    norm_backward_row(op.dy.floats() + r * h, op.z.floats() + r * h, of, op.gamma.floats(), h, dz,
                      partial, partial + h);
    float* dx = op.dx.floats() + r * h;
    if (op.dropout.threshold != 0) {
      dropout_factors(token_row(op.dropout, op.tokens, r, h), h, scratch);
      multiply_row(dz, scratch, h, dx);
    } else {
      copy_row(dz, h, dx);
    }
  }
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
