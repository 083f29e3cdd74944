#include "trainer/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "trainer/cpu/content_checks.h"
#include "trainer/cpu/cpu_profile.h"
#include "trainer/cpu/host_memory.h"
#include "trainer/cpu/kernels.h"
#include "trainer/cpu/matrix_product.h"
#include "trainer/cpu/optimizer_update.h"
#include "trainer/device/half_types.h"
#include "trainer/device/shape_checks.h"

namespace regatta::trainer::cpu {
namespace {

using cpu::kElements;
using cpu::Kernels;
using Lease = cpu::ScratchPool::Lease;

// Sums over rows are made of partial sums of at most this many chunks, so that partial sums stay
// small beside the rows.
constexpr std::int64_t kMaxChunks = 64;
constexpr std::int64_t kMinChunkRows = 16;

std::int64_t rows_at_a_time(std::int64_t columns) {
  return std::max<std::int64_t>(1, kElements / 2 / columns);
}
std::int64_t chunk_rows(std::int64_t rows) {
  return std::max(kMinChunkRows, (rows + kMaxChunks - 1) / kMaxChunks);
}
std::int64_t chunk_count(std::int64_t rows) {
  return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

// Adds rows in order to a loss's three sums; `correct` may be null. What has no label has lost 0.
template <typename Labelled>
void add_losses(const device::View& sums, std::int64_t rows, const float* losses,
                const float* correct, Labelled is_labelled) {
  double loss = 0;
  double right = 0;
  std::int64_t labelled = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    loss += static_cast<double>(losses[r]);
    if (correct != nullptr) right += static_cast<double>(correct[r]);
    if (is_labelled(r)) ++labelled;
  }
  sums.floats()[0] += static_cast<float>(loss);
  sums.floats()[1] += static_cast<float>(right);
  sums.floats()[2] += static_cast<float>(labelled);
}

class CpuDevice final : public device::Device {
 public:
  CpuDevice(const CpuOptions& options, const Kernels& kernels)
      : kernels_(kernels),
        pool_(options.threads),
        product_{pool_, scratch_, kernels_,
                 kernels.portable ? CpuProducts::BuiltIn : options.products},
        optimizer_{pool_, kernels_} {}

  std::string description() const override { return cpu::describe(profile()); }
  device::DeviceProfile profile() const override { return cpu::cpu_profile(product_); }

  bool computes_in(device::Dtype dtype) const override { return dtype == device::Dtype::Float32; }

  void* allocate(std::int64_t bytes) override { return memory_.allocate(bytes); }
  void release(void* memory) override { memory_.release(memory); }
  std::int64_t peak_bytes() const override { return memory_.peak_bytes(); }
  void* allocate_host(std::int64_t bytes) override { return host_memory_.allocate(bytes); }
  void release_host(void* memory) override { host_memory_.release(memory); }

  device::Stream make_stream() override { return ++last_stream_; }
  device::Event record(device::Stream stream) override {
    check_stream(stream);
    return ++last_event_;
  }
  void wait(device::Stream stream, device::Event event) override {
    check_stream(stream);
    wait_host(event);
  }
  void wait_host(device::Event event) override {
    base::check(event >= 1 && event <= last_event_, "an event is recorded before it is waited for");
  }
  void synchronize() override {}

  void copy_to_device(device::Stream stream, device::View to, const void* from) override {
    check_stream(stream);
    copy_bytes(to.data, from, to.bytes());
  }
  void copy_to_host(device::Stream stream, void* to, device::View from) override {
    check_stream(stream);
    copy_bytes(to, from.data, from.bytes());
  }
  void copy(device::Stream stream, device::View to, device::View from) override {
    check_stream(stream);
    device::check_copy(to, from);
    copy_bytes(to.data, from.data, to.bytes());
  }
  void convert(device::Stream stream, device::View to, device::View from) override;
  void fill_zero(device::Stream stream, device::View to) override {
    check_stream(stream);
    set_zero(to);
  }

  void gemm(device::Stream stream, const device::Gemm& op) override;
  void add_column_sums(device::Stream stream, device::View x, std::int64_t columns,
                       device::View sum) override;
  void gelu_forward(device::Stream stream, device::View x, device::View y, bool tanh_form) override;
  void gelu_backward(device::Stream stream, device::View x, device::View dy, device::View dx,
                     bool tanh_form) override;
  void tanh_forward(device::Stream stream, device::View x, device::View y) override;
  void tanh_backward(device::Stream stream, device::View y, device::View dy,
                     device::View dx) override;
  void add(device::Stream stream, device::View x, device::View y) override;
  void gather_rows(device::Stream stream, device::View from, device::View index,
                   std::int64_t columns, device::View to) override;
  void scatter_add_rows(device::Stream stream, device::View from, device::View index,
                        std::int64_t columns, device::View to) override;
  void embedding_forward(device::Stream stream, const device::EmbeddingForward& op) override;
  void embedding_backward(device::Stream stream, const device::EmbeddingBackward& op) override;
  void layer_norm_forward(device::Stream stream, const device::LayerNormForward& op) override;
  void layer_norm_backward(device::Stream stream, const device::LayerNormBackward& op) override;
  void attention_forward(device::Stream stream, const device::AttentionForward& op) override;
  void attention_backward(device::Stream stream, const device::AttentionBackward& op) override;
  void cross_entropy(device::Stream stream, const device::CrossEntropy& op) override;
  void span_cross_entropy(device::Stream stream, const device::SpanCrossEntropy& op) override;
  void squared_error(device::Stream stream, const device::SquaredError& op) override;
  void sum_of_squares(device::Stream stream, device::View x, device::View result) override;
  void limit_norm(device::Stream stream, device::View x, device::View squared_norm,
                  device::View limit) override;
  void update(device::Stream stream, const device::OptimizerUpdate& op) override;
  void add_noise_sums(device::Stream stream, const device::NoiseSums& op) override;

 private:
  void check_stream(device::Stream stream) const {
    base::check(stream >= 0 && stream <= last_stream_, "a stream comes from make_stream");
  }
  template <typename Body>
  void elementwise(std::int64_t count, Body body) {
    pool_.parallel_for(count, kElements, body);
  }
  void copy_bytes(void* to, const void* from, std::int64_t count) {
    pool_.parallel_for(count, 4 * kElements, [&](std::int64_t begin, std::int64_t end) {
      std::memmove(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                   static_cast<std::size_t>(end - begin));
    });
  }
  void set_zero(const device::View& to) {
    pool_.parallel_for(to.bytes(), 4 * kElements, [&](std::int64_t begin, std::int64_t end) {
      std::memset(static_cast<char*>(to.data) + begin, 0, static_cast<std::size_t>(end - begin));
    });
  }
  // Runs one(sample, head, scratch) for every head of every sample that has tokens.
  template <typename One>
  void for_each_head(const device::TokenIdentity& tokens, std::int64_t heads,
                     std::int64_t scratch_floats, One one);
  // Runs chunk(begin, end, partial) on chunks of rows, each filling `width` floats of its own;
  // returns with the sums over all chunks, added in order, in the first `width` floats of
  // `partials`.
  template <typename Chunk>
  void sum_over_rows(std::int64_t rows, std::int64_t width, float* partials, Chunk chunk);

  const Kernels kernels_;
  base::ThreadPool pool_;
  cpu::ScratchPool scratch_;
  cpu::AlignedMemory memory_, host_memory_;
  cpu::ProductContext product_;
  cpu::OptimizerContext optimizer_;
  device::Stream last_stream_ = 0;
  device::Event last_event_ = 0;
};

template <typename Chunk>
void CpuDevice::sum_over_rows(std::int64_t rows, std::int64_t width, float* partials, Chunk chunk) {
  const std::int64_t size = chunk_rows(rows);
  pool_.parallel_for(rows, size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; r += size) {
      chunk(r, std::min(end, r + size), partials + r / size * width);
    }
  });
  for (std::int64_t i = 1; i < chunk_count(rows); ++i) {
    kernels_.add(partials + i * width, partials, width);
  }
}

void CpuDevice::convert(device::Stream stream, device::View to, device::View from) {
  check_stream(stream);
  device::check_convert(to, from);
  const auto each = [&](auto* out, const auto* in, auto rounded) {
    elementwise(to.size, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = rounded(in[i]);
    });
  };
  if (to.dtype == device::Dtype::Float32) {
    const auto* bits = static_cast<const std::uint16_t*>(from.data);
    each(to.floats(), bits,
         from.dtype == device::Dtype::BFloat16 ? device::float_from_bf16 : device::float_from_fp16);
  } else {
    auto* bits = static_cast<std::uint16_t*>(to.data);
    each(bits, from.floats(),
         to.dtype == device::Dtype::BFloat16 ? device::bf16_from_float : device::fp16_from_float);
  }
}

// An epilogue is what the separate operation does: results are the same bits.
void CpuDevice::gemm(device::Stream stream, const device::Gemm& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.a);
  const bool tanh_form = op.activation == device::Activation::GeluTanh;
  device::Gemm product = op;
  if (op.pre_activation.size != 0) product.c = op.pre_activation;
  if (op.a_column_sums.size != 0) add_column_sums(stream, op.a, op.m, op.a_column_sums);
  cpu::multiply(product_, product);
  if (op.pre_activation.size != 0) gelu_forward(stream, op.pre_activation, op.c, tanh_form);
  if (op.gelu_input.size != 0) gelu_backward(stream, op.gelu_input, op.c, op.c, tanh_form);
  if (op.c_column_sums.size != 0) add_column_sums(stream, op.c, op.n, op.c_column_sums);
}

void CpuDevice::add_column_sums(device::Stream stream, device::View x, std::int64_t columns,
                                device::View sum) {
  check_stream(stream);
  device::check_column_sums(x, columns, sum);
  cpu::check_computable(x);
  const std::int64_t rows = x.size / columns;
  if (rows == 0) return;
  const Lease partials(scratch_, chunk_count(rows) * columns);
  sum_over_rows(rows, columns, partials.floats(),
                [&](std::int64_t begin, std::int64_t end, float* partial) {
                  kernels_.column_sums(x.floats() + begin * columns, end - begin, columns, partial);
                });
  kernels_.add(partials.floats(), sum.floats(), columns);
}

void CpuDevice::gelu_forward(device::Stream stream, device::View x, device::View y,
                             bool tanh_form) {
  check_stream(stream);
  device::check_elementwise(x, y);
  cpu::check_computable(x);
  elementwise(x.size, [&](std::int64_t begin, std::int64_t end) {
    kernels_.gelu_forward(x.floats() + begin, y.floats() + begin, end - begin, tanh_form);
  });
}

void CpuDevice::gelu_backward(device::Stream stream, device::View x, device::View dy,
                              device::View dx, bool tanh_form) {
  check_stream(stream);
  device::check_elementwise(x, dy, dx);
  cpu::check_computable(x);
  elementwise(x.size, [&](std::int64_t begin, std::int64_t end) {
    kernels_.gelu_backward(x.floats() + begin, dy.floats() + begin, dx.floats() + begin,
                           end - begin, tanh_form);
  });
}

void CpuDevice::tanh_forward(device::Stream stream, device::View x, device::View y) {
  check_stream(stream);
  device::check_elementwise(x, y);
  cpu::check_computable(x);
  elementwise(x.size, [&](std::int64_t begin, std::int64_t end) {
    kernels_.tanh_forward(x.floats() + begin, y.floats() + begin, end - begin);
  });
}

void CpuDevice::tanh_backward(device::Stream stream, device::View y, device::View dy,
                              device::View dx) {
  check_stream(stream);
  device::check_elementwise(y, dy, dx);
  cpu::check_computable(y);
  elementwise(y.size, [&](std::int64_t begin, std::int64_t end) {
    kernels_.tanh_backward(y.floats() + begin, dy.floats() + begin, dx.floats() + begin,
                           end - begin);
  });
}

void CpuDevice::add(device::Stream stream, device::View x, device::View y) {
  check_stream(stream);
  device::check_elementwise(x, y);
  cpu::check_computable(x);
  elementwise(x.size, [&](std::int64_t begin, std::int64_t end) {
    kernels_.add(x.floats() + begin, y.floats() + begin, end - begin);
  });
}

void CpuDevice::gather_rows(device::Stream stream, device::View from, device::View index,
                            std::int64_t columns, device::View to) {
  check_stream(stream);
  device::check_row_selection(from, index, columns, to);
  cpu::check_computable(from);
  cpu::check_indexes(index, -1, from.size / columns, "a gathered row exists");
  pool_.parallel_for(
      index.size, rows_at_a_time(columns), [&](std::int64_t begin, std::int64_t end) {
        const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(float);
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = index.ints()[i];
          if (row < 0) {
            std::memset(to.floats() + i * columns, 0, bytes);
          } else {
            std::memcpy(to.floats() + i * columns, from.floats() + row * columns, bytes);
          }
        }
      });
}

void CpuDevice::scatter_add_rows(device::Stream stream, device::View from, device::View index,
                                 std::int64_t columns, device::View to) {
  check_stream(stream);
  device::check_row_selection(to, index, columns, from);
  cpu::check_computable(to);
  cpu::check_indexes(index, -1, to.size / columns, "a row to scatter to exists");
  pool_.parallel_for(index.size, rows_at_a_time(columns),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         if (index.ints()[i] < 0) continue;
                         kernels_.add(from.floats() + i * columns,
                                      to.floats() + index.ints()[i] * columns, columns);
                       }
                     });
}

void CpuDevice::embedding_forward(device::Stream stream, const device::EmbeddingForward& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.x);
  const std::int64_t h = op.gamma.size;
  cpu::check_indexes(op.ids, 0, op.word.size / h, "a token's id is in the vocabulary");
  cpu::check_indexes(op.types, 0, op.type.size / h, "a token's type has an embedding");
  cpu::check_indexes(op.tokens.position, 0, op.position.size / h,
                     "a token's position has an embedding");
  pool_.parallel_for(op.ids.size, rows_at_a_time(h), [&](std::int64_t begin, std::int64_t end) {
    const Lease scratch(scratch_, kernels_.row_scratch(h));
    kernels_.embedding_forward(op, begin, end, scratch.floats());
  });
}

void CpuDevice::embedding_backward(device::Stream stream, const device::EmbeddingBackward& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.x);
  const std::int64_t h = op.gamma.size;
  const std::int64_t count = op.ids.size;
  if (count == 0) return;
  cpu::check_indexes(op.ids, 0, op.dword.size / h, "a token's id is in the vocabulary");
  cpu::check_indexes(op.types, 0, op.dtype_rows.size / h, "a token's type has an embedding");
  cpu::check_indexes(op.sorted, 0, count, "the sorted order names tokens of the batch");
  cpu::check_offsets(op.tokens, count);
  const std::int64_t width = 2 * h + op.dtype_rows.size;
  const Lease partials(scratch_, chunk_count(count) * width);
  sum_over_rows(count, width, partials.floats(),
                [&](std::int64_t begin, std::int64_t end, float* partial) {
                  const Lease scratch(scratch_, kernels_.row_scratch(h));
                  kernels_.embedding_backward(op, begin, end, partial, scratch.floats());
                });
  kernels_.add(partials.floats(), op.dgamma.floats(), h);
  kernels_.add(partials.floats() + h, op.dbeta.floats(), h);
  kernels_.add(partials.floats() + 2 * h, op.dtype_rows.floats(), op.dtype_rows.size);
  pool_.parallel_for(count, rows_at_a_time(h), [&](std::int64_t begin, std::int64_t end) {
    kernels_.word_gradient(op, begin, end);
  });
  pool_.parallel_for(op.tokens.max_length, 4, [&](std::int64_t begin, std::int64_t end) {
    kernels_.position_gradient(op, begin, end);
  });
}

void CpuDevice::layer_norm_forward(device::Stream stream, const device::LayerNormForward& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.x);
  const std::int64_t h = op.gamma.size;
  pool_.parallel_for(op.mean.size, rows_at_a_time(h), [&](std::int64_t begin, std::int64_t end) {
    const Lease scratch(scratch_, kernels_.row_scratch(h));
    kernels_.layer_norm_forward(op, begin, end, scratch.floats());
  });
}

void CpuDevice::layer_norm_backward(device::Stream stream, const device::LayerNormBackward& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.z);
  const std::int64_t h = op.gamma.size;
  const std::int64_t rows = op.mean.size;
  if (rows == 0) return;
  const Lease partials(scratch_, chunk_count(rows) * 2 * h);
  sum_over_rows(rows, 2 * h, partials.floats(),
                [&](std::int64_t begin, std::int64_t end, float* partial) {
                  const Lease scratch(scratch_, kernels_.row_scratch(h));
                  kernels_.layer_norm_backward(op, begin, end, partial, scratch.floats());
                });
  kernels_.add(partials.floats(), op.dgamma.floats(), h);
  kernels_.add(partials.floats() + h, op.dbeta.floats(), h);
  if (op.dbias.size != 0) add_column_sums(stream, op.dx, h, op.dbias);
}

template <typename One>
void CpuDevice::for_each_head(const device::TokenIdentity& tokens, std::int64_t heads,
                              std::int64_t scratch_floats, One one) {
  const std::int32_t* first = tokens.cumulative.ints();
  pool_.parallel_for((tokens.cumulative.size - 1) * heads, 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       const Lease scratch(scratch_, scratch_floats);
                       for (std::int64_t task = begin; task < end; ++task) {
                         const std::int64_t sample = task / heads;
                         if (first[sample] == first[sample + 1]) continue;
                         one(sample, task % heads, scratch.floats());
                       }
                     });
}

void CpuDevice::attention_forward(device::Stream stream, const device::AttentionForward& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.qkv);
  const std::int64_t count = op.lse.size / op.heads;
  cpu::check_offsets(op.tokens, count);
  const std::int64_t floats =
      kernels_.attention_scratch(op.tokens.max_length, op.out.size / count / op.heads, false);
  for_each_head(op.tokens, op.heads, floats,
                [&](std::int64_t sample, std::int64_t head, float* scratch) {
                  kernels_.attention_forward(op, sample, head, scratch);
                });
  const std::int64_t used = op.tokens.cumulative.ints()[op.tokens.cumulative.size - 1];
  const std::int64_t hidden = op.out.size / count;
  set_zero(op.out.slice(used * hidden, (count - used) * hidden));
  for (std::int64_t head = 0; head < op.heads; ++head) {
    set_zero(op.lse.slice(head * count + used, count - used));
  }
}

void CpuDevice::attention_backward(device::Stream stream, const device::AttentionBackward& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.qkv);
  const std::int64_t count = op.lse.size / op.heads;
  cpu::check_offsets(op.tokens, count);
  const std::int64_t floats =
      kernels_.attention_scratch(op.tokens.max_length, op.out.size / count / op.heads, true);
  for_each_head(op.tokens, op.heads, floats,
                [&](std::int64_t sample, std::int64_t head, float* scratch) {
                  kernels_.attention_backward(op, sample, head, scratch);
                });
  const std::int64_t used = op.tokens.cumulative.ints()[op.tokens.cumulative.size - 1];
  const std::int64_t width = op.dqkv.size / count;
  set_zero(op.dqkv.slice(used * width, (count - used) * width));
}

void CpuDevice::cross_entropy(device::Stream stream, const device::CrossEntropy& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.logits);
  cpu::check_indexes(op.labels, -1, op.classes, "a label is one of the classes");
  const std::int64_t rows = op.labels.size;
  const Lease scratch(scratch_, 2 * rows);
  float* losses = scratch.floats();
  float* correct = losses + rows;
  pool_.parallel_for(rows, rows_at_a_time(op.classes), [&](std::int64_t begin, std::int64_t end) {
    kernels_.loss.cross_entropy(op, begin, end, losses, correct);
  });
  add_losses(op.sums, rows, losses, correct,
             [&](std::int64_t r) { return op.labels.ints()[r] >= 0; });
}

void CpuDevice::span_cross_entropy(device::Stream stream, const device::SpanCrossEntropy& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.logits);
  const std::int64_t longest = cpu::longest_sample(op.cumulative, op.logits.size / 2);
  cpu::check_answers(op);
  const std::int64_t samples = op.cumulative.size - 1;
  const Lease results(scratch_, 2 * samples);
  float* losses = results.floats();
  float* correct = losses + samples;
  pool_.parallel_for(samples, rows_at_a_time(std::max<std::int64_t>(1, 2 * longest)),
                     [&](std::int64_t begin, std::int64_t end) {
                       const Lease scratch(scratch_, longest);
                       kernels_.loss.span_cross_entropy(op, begin, end, losses, correct,
                                                        scratch.floats());
                     });
  const std::int64_t used = 2 * std::int64_t{op.cumulative.ints()[samples]};
  set_zero(op.logits.slice(used, op.logits.size - used));
  add_losses(op.sums, samples, losses, correct, [&](std::int64_t s) {
    return op.answers.ints()[2 * s] >= 0 && op.answers.ints()[2 * s + 1] >= 0;
  });
}

void CpuDevice::squared_error(device::Stream stream, const device::SquaredError& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::check_computable(op.logits);
  const std::int64_t samples = op.logits.size;
  const Lease scratch(scratch_, samples);
  elementwise(samples, [&](std::int64_t begin, std::int64_t end) {
    kernels_.loss.squared_error(op, begin, end, scratch.floats());
  });
  add_losses(op.sums, samples, scratch.floats(), nullptr,
             [&](std::int64_t s) { return !std::isnan(op.values.floats()[s]); });
}

void CpuDevice::sum_of_squares(device::Stream stream, device::View x, device::View result) {
  check_stream(stream);
  device::check_sum_of_squares(x, result);
  cpu::sum_of_squares(optimizer_, x, result);
}

void CpuDevice::limit_norm(device::Stream stream, device::View x, device::View squared_norm,
                           device::View limit) {
  check_stream(stream);
  device::check_limit_norm(x, squared_norm, limit);
  cpu::limit_norm(optimizer_, x, squared_norm, limit);
}

void CpuDevice::update(device::Stream stream, const device::OptimizerUpdate& op) {
  check_stream(stream);
  device::check_shapes(op);
  if (!cpu::update(optimizer_, op) || op.compute_copy.size == 0) return;
  for (std::int64_t i = 0; i < op.tensor_count; ++i) {
    const device::OptimizerTensor& tensor = op.tensors[i];
    if (tensor.learning_rate == 0) continue;
    convert(stream, op.compute_copy.slice(tensor.offset, tensor.size),
            op.parameters.slice(tensor.offset, tensor.size));
  }
}

void CpuDevice::add_noise_sums(device::Stream stream, const device::NoiseSums& op) {
  check_stream(stream);
  device::check_shapes(op);
  cpu::add_noise_sums(optimizer_, op);
}

bool machine_has(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == "avx512") {
    return machine_has("avx2") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  }
#endif
  return isa == "baseline";
}

Kernels kernels_of(const std::string& isa, CpuArithmetic arithmetic) {
  const bool portable = arithmetic == CpuArithmetic::Portable;
#if defined(__x86_64__)
  if (portable && isa == "avx512") return cpu::portable_avx512::kernels();
  if (portable && isa == "avx2") return cpu::portable_avx2::kernels();
  if (isa == "avx512") return cpu::avx512::kernels();
  if (isa == "avx2") return cpu::avx2::kernels();
#endif
  base::check(isa == "baseline", "kernels exist for every instruction set that is offered");
  return portable ? cpu::portable_baseline::kernels() : cpu::baseline::kernels();
}

}  // namespace

std::vector<std::string> cpu_instruction_sets() {
  std::vector<std::string> sets;
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    if (machine_has(isa)) sets.emplace_back(isa);
  }
  return sets;
}

std::unique_ptr<device::Device> make_cpu_device(const CpuOptions& options) {
  if (options.threads < 1) {
    throw base::Error(base::Code::User, "the CPU device was asked for " +
                                            std::to_string(options.threads) +
                                            " threads; give it at least 1");
  }
  const std::string isa = options.isa.empty() ? cpu_instruction_sets().back() : options.isa;
  if (!machine_has(isa)) {
    throw base::Error(base::Code::User, "REGATTA_ISA is '" + base::printable(isa) +
                                            "'; this machine has " +
                                            base::join(cpu_instruction_sets(), ", ") +
                                            "; without it the best of them is taken");
  }
  return std::make_unique<CpuDevice>(options, kernels_of(isa, options.arithmetic));
}

std::unique_ptr<device::Device> make_cpu_device(int threads) {
  CpuOptions options;
  options.threads = threads;
  return make_cpu_device(options);
}

}  // namespace regatta::trainer::cpu
