#include "trainer/cpu/families.h"
#include "trainer/cpu/vector.h"

namespace regatta::trainer::cpu::REGATTA_ISA {
Kernels kernels() {
  Kernels table;
  table.isa = REGATTA_ISA_NAME;
  table.portable = kPortable;
  table.packed_size = packed_floats;
  table.pack = pack;
  table.product_scratch = product_scratch;
  table.product = product;
  table.gelu_forward = gelu_forward;
  table.gelu_backward = gelu_backward;
  table.tanh_forward = tanh_forward;
  table.tanh_backward = tanh_backward;
  table.add = add;
  table.scale = scale;
  table.column_sums = column_sums;
  table.set_rows = set_rows;
  table.sum_of_squares = sum_of_squares;
  table.row_scratch = row_scratch;
  table.layer_norm_forward = layer_norm_forward;
  table.layer_norm_backward = layer_norm_backward;
  table.embedding_forward = embedding_forward;
  table.embedding_backward = embedding_backward;
  table.word_gradient = word_gradient;
  table.position_gradient = position_gradient;
  table.attention_scratch = attention_scratch;
  table.attention_forward = attention_forward;
  table.attention_backward = attention_backward;
  table.loss = {cross_entropy, span_cross_entropy, squared_error};
  table.adamw = adamw;
  table.lamb_moments = lamb_moments;
  table.lamb_step = lamb_step;
  table.noise_sums = noise_sums;
  return table;
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
