#include "tests/trainer/device/deferred_device.h"

#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "tests/trainer/device/deferred_queue.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/device/shape_checks.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;

device::View host_view(const void* memory, const device::View& like) {
  return {const_cast<void*>(memory), like.size, like.dtype};
}

// What an operation reads to draw its masks.
std::vector<device::View> with_masks(std::vector<device::View> views,
                                     const device::Dropout& dropout,
                                     const device::TokenIdentity& tokens) {
  if (dropout.threshold != 0) {
    views.insert(views.end(), {tokens.ordinal, tokens.position, tokens.step});
  }
  return views;
}

class DeferredDevice final : public device::Device {
 public:
  DeferredDevice(std::unique_ptr<device::Device> worker, std::uint64_t seed)
      : worker_(std::move(worker)), queue_(seed) {}
  ~DeferredDevice() override {
    for (void* memory : released_) worker_->release(memory);
    for (void* memory : released_host_) worker_->release_host(memory);
  }

  std::string description() const override { return "deferred " + worker_->description(); }

  bool computes_in(device::Dtype dtype) const override { return worker_->computes_in(dtype); }
  std::int64_t token_bucket() const override { return worker_->token_bucket(); }

  void* allocate(std::int64_t bytes) override {
    void* memory = worker_->allocate(bytes);
    std::memset(memory, 0xFF, static_cast<std::size_t>(bytes));
    bytes_[memory] = bytes;
    return memory;
  }
  void release(void* memory) override {
    if (memory == nullptr) return;
    base::check(bytes_.count(memory) != 0, "only memory of this device is released, and once");
    released_.push_back(memory);
  }
  std::int64_t peak_bytes() const override { return worker_->peak_bytes(); }
  void* allocate_host(std::int64_t bytes) override {
    void* memory = worker_->allocate_host(bytes);
    std::memset(memory, 0xFF, static_cast<std::size_t>(bytes));
    host_bytes_[memory] = bytes;
    return memory;
  }
  // Copies that have not run yet find 0xFF there.
  void release_host(void* memory) override {
    if (memory == nullptr) return;
    const auto found = host_bytes_.find(memory);
    base::check(found != host_bytes_.end(),
                "only host memory of this device is released, and once");
    std::memset(memory, 0xFF, static_cast<std::size_t>(found->second));
    host_bytes_.erase(found);
    released_host_.push_back(memory);
  }

  device::Stream make_stream() override { return queue_.make_stream(); }
  device::Event record(device::Stream stream) override { return queue_.record(stream); }
  void wait(device::Stream stream, device::Event event) override { queue_.wait(stream, event); }
  void wait_host(device::Event event) override { queue_.wait_host(event); }
  void synchronize() override {
    queue_.run_all();
    for (void* memory : std::exchange(released_, {})) {
      std::memset(memory, 0xFF, static_cast<std::size_t>(bytes_.at(memory)));
      bytes_.erase(memory);
      worker_->release(memory);
    }
    for (void* memory : std::exchange(released_host_, {})) worker_->release_host(memory);
  }

  void copy_to_device(device::Stream stream, device::View to, const void* from) override {
    queue_.enqueue(stream, "copy_to_device", {{host_view(from, to)}, {}, {to}},
                   [=, this] { worker_->copy_to_device(0, to, from); });
  }
  void copy_to_host(device::Stream stream, void* to, device::View from) override {
    queue_.enqueue(stream, "copy_to_host", {{from}, {}, {host_view(to, from)}},
                   [=, this] { worker_->copy_to_host(0, to, from); });
  }
  void copy(device::Stream stream, device::View to, device::View from) override {
    device::check_copy(to, from);
    queue_.enqueue(stream, "copy", {{from}, {}, {to}}, [=, this] { worker_->copy(0, to, from); });
  }
  void convert(device::Stream stream, device::View to, device::View from) override {
    device::check_convert(to, from);
    queue_.enqueue(stream, "convert", {{from}, {}, {to}},
                   [=, this] { worker_->convert(0, to, from); });
  }
  void fill_zero(device::Stream stream, device::View to) override {
    queue_.enqueue(stream, "fill_zero", {{}, {}, {to}}, [=, this] { worker_->fill_zero(0, to); });
  }

  void gemm(device::Stream stream, const device::Gemm& op) override {
    device::check_shapes(op);
    Touched touched{{op.a, op.b, op.bias, op.gelu_input},
                    {op.c_column_sums, op.a_column_sums},
                    {op.pre_activation}};
    (op.beta == 0.0F ? touched.overwritten : touched.updated).push_back(op.c);
    queue_.enqueue(stream, "gemm", touched, [=, this] { worker_->gemm(0, op); });
  }
  void add_column_sums(device::Stream stream, device::View x, std::int64_t columns,
                       device::View sum) override {
    device::check_column_sums(x, columns, sum);
    queue_.enqueue(stream, "add_column_sums", {{x}, {sum}, {}},
                   [=, this] { worker_->add_column_sums(0, x, columns, sum); });
  }
  void gelu_forward(device::Stream stream, device::View x, device::View y,
                    bool tanh_form) override {
    device::check_elementwise(x, y);
    queue_.enqueue(stream, "gelu_forward", {{x}, {}, {y}},
                   [=, this] { worker_->gelu_forward(0, x, y, tanh_form); });
  }
  void gelu_backward(device::Stream stream, device::View x, device::View dy, device::View dx,
                     bool tanh_form) override {
    device::check_elementwise(x, dy, dx);
    queue_.enqueue(stream, "gelu_backward", {{x, dy}, {}, {dx}},
                   [=, this] { worker_->gelu_backward(0, x, dy, dx, tanh_form); });
  }
  void tanh_forward(device::Stream stream, device::View x, device::View y) override {
    device::check_elementwise(x, y);
    queue_.enqueue(stream, "tanh_forward", {{x}, {}, {y}},
                   [=, this] { worker_->tanh_forward(0, x, y); });
  }
  void tanh_backward(device::Stream stream, device::View y, device::View dy,
                     device::View dx) override {
    device::check_elementwise(y, dy, dx);
    queue_.enqueue(stream, "tanh_backward", {{y, dy}, {}, {dx}},
                   [=, this] { worker_->tanh_backward(0, y, dy, dx); });
  }
  void add(device::Stream stream, device::View x, device::View y) override {
    device::check_elementwise(x, y);
    queue_.enqueue(stream, "add", {{x}, {y}, {}}, [=, this] { worker_->add(0, x, y); });
  }

  void gather_rows(device::Stream stream, device::View from, device::View index,
                   std::int64_t columns, device::View to) override {
    device::check_row_selection(from, index, columns, to);
    queue_.enqueue(stream, "gather_rows", {{from, index}, {}, {to}},
                   [=, this] { worker_->gather_rows(0, from, index, columns, to); });
  }
  void scatter_add_rows(device::Stream stream, device::View from, device::View index,
                        std::int64_t columns, device::View to) override {
    device::check_row_selection(to, index, columns, from);
    queue_.enqueue(stream, "scatter_add_rows", {{from, index}, {to}, {}},
                   [=, this] { worker_->scatter_add_rows(0, from, index, columns, to); });
  }

  void embedding_forward(device::Stream stream, const device::EmbeddingForward& op) override;
  void embedding_backward(device::Stream stream, const device::EmbeddingBackward& op) override;
  void layer_norm_forward(device::Stream stream, const device::LayerNormForward& op) override;
  void layer_norm_backward(device::Stream stream, const device::LayerNormBackward& op) override;
  void attention_forward(device::Stream stream, const device::AttentionForward& op) override;
  void attention_backward(device::Stream stream, const device::AttentionBackward& op) override;
  void cross_entropy(device::Stream stream, const device::CrossEntropy& op) override;
  void span_cross_entropy(device::Stream stream, const device::SpanCrossEntropy& op) override;
  void squared_error(device::Stream stream, const device::SquaredError& op) override;

  void sum_of_squares(device::Stream stream, device::View x, device::View result) override {
    device::check_sum_of_squares(x, result);
    queue_.enqueue(stream, "sum_of_squares", {{x}, {}, {result}},
                   [=, this] { worker_->sum_of_squares(0, x, result); });
  }
  void limit_norm(device::Stream stream, device::View x, device::View squared_norm,
                  device::View limit) override {
    device::check_limit_norm(x, squared_norm, limit);
    queue_.enqueue(stream, "limit_norm", {{squared_norm, limit}, {x}, {}},
                   [=, this] { worker_->limit_norm(0, x, squared_norm, limit); });
  }
  void update(device::Stream stream, const device::OptimizerUpdate& op) override;
  void add_noise_sums(device::Stream stream, const device::NoiseSums& op) override {
    device::check_shapes(op);
    queue_.enqueue(
        stream, "add_noise_sums",
        {{op.difference, op.mean, op.second_moment, op.scalars, op.squared_norm}, {op.sums}, {}},
        [=, this] { worker_->add_noise_sums(0, op); });
  }

 private:
  std::unique_ptr<device::Device> worker_;
  DeferredQueue queue_;
  std::unordered_map<void*, std::int64_t> bytes_, host_bytes_;
  std::vector<void*> released_, released_host_;
};

void DeferredDevice::embedding_forward(device::Stream stream, const device::EmbeddingForward& op) {
  device::check_shapes(op);
  Touched touched{
      {op.ids, op.types, op.word, op.position, op.type, op.gamma, op.beta, op.tokens.position},
      {},
      {op.x, op.mean, op.rstd, op.y}};
  touched.read = with_masks(std::move(touched.read), op.dropout, op.tokens);
  queue_.enqueue(stream, "embedding_forward", touched,
                 [=, this] { worker_->embedding_forward(0, op); });
}

void DeferredDevice::embedding_backward(device::Stream stream,
                                        const device::EmbeddingBackward& op) {
  device::check_shapes(op);
  Touched touched{{op.ids, op.types, op.sorted, op.gamma, op.x, op.mean, op.rstd,
                   op.tokens.position, op.tokens.cumulative},
                  {op.dy, op.dword, op.dposition, op.dtype_rows, op.dgamma, op.dbeta},
                  {}};
  touched.read = with_masks(std::move(touched.read), op.dropout, op.tokens);
  queue_.enqueue(stream, "embedding_backward", touched,
                 [=, this] { worker_->embedding_backward(0, op); });
}

void DeferredDevice::layer_norm_forward(device::Stream stream, const device::LayerNormForward& op) {
  device::check_shapes(op);
  Touched touched{with_masks({op.x, op.residual, op.gamma, op.beta}, op.dropout, op.tokens),
                  {},
                  {op.z, op.mean, op.rstd, op.y}};
  queue_.enqueue(stream, "layer_norm_forward", touched,
                 [=, this] { worker_->layer_norm_forward(0, op); });
}

void DeferredDevice::layer_norm_backward(device::Stream stream,
                                         const device::LayerNormBackward& op) {
  device::check_shapes(op);
  Touched touched{with_masks({op.dy, op.z, op.mean, op.rstd, op.gamma}, op.dropout, op.tokens),
                  {op.dgamma, op.dbeta, op.dbias},
                  {op.dresidual, op.dx}};
  queue_.enqueue(stream, "layer_norm_backward", touched,
                 [=, this] { worker_->layer_norm_backward(0, op); });
}

void DeferredDevice::attention_forward(device::Stream stream, const device::AttentionForward& op) {
  device::check_shapes(op);
  Touched touched{
      with_masks({op.qkv, op.tokens.cumulative}, op.dropout, op.tokens), {}, {op.out, op.lse}};
  queue_.enqueue(stream, "attention_forward", touched,
                 [=, this] { worker_->attention_forward(0, op); });
}

void DeferredDevice::attention_backward(device::Stream stream,
                                        const device::AttentionBackward& op) {
  device::check_shapes(op);
  Touched touched{
      with_masks({op.qkv, op.out, op.lse, op.dout, op.tokens.cumulative}, op.dropout, op.tokens),
      {},
      {op.dqkv}};
  queue_.enqueue(stream, "attention_backward", touched,
                 [=, this] { worker_->attention_backward(0, op); });
}

void DeferredDevice::cross_entropy(device::Stream stream, const device::CrossEntropy& op) {
  device::check_shapes(op);
  queue_.enqueue(stream, "cross_entropy", {{op.labels, op.scale}, {op.logits, op.sums}, {}},
                 [=, this] { worker_->cross_entropy(0, op); });
}

void DeferredDevice::span_cross_entropy(device::Stream stream, const device::SpanCrossEntropy& op) {
  device::check_shapes(op);
  queue_.enqueue(stream, "span_cross_entropy",
                 {{op.answers, op.cumulative, op.scale}, {op.logits, op.sums}, {}},
                 [=, this] { worker_->span_cross_entropy(0, op); });
}

void DeferredDevice::squared_error(device::Stream stream, const device::SquaredError& op) {
  device::check_shapes(op);
  queue_.enqueue(stream, "squared_error", {{op.values, op.scale}, {op.logits, op.sums}, {}},
                 [=, this] { worker_->squared_error(0, op); });
}

void DeferredDevice::update(device::Stream stream, const device::OptimizerUpdate& op) {
  device::check_shapes(op);
  // The tensors are read now: the host may change them as soon as this returns.
  std::vector<device::OptimizerTensor> tensors(op.tensors, op.tensors + op.tensor_count);
  Touched touched{{op.gradients, op.scalars, op.squared_norm},
                  {op.parameters, op.first_moment, op.second_moment, op.compute_copy},
                  {}};
  if (op.part == device::UpdatePart::Moments) {
    touched = {{op.parameters, op.gradients, op.scalars, op.squared_norm},
               {op.first_moment, op.second_moment, op.tensor_norms},
               {}};
  } else if (op.part == device::UpdatePart::Weights) {
    touched = {{op.first_moment, op.second_moment, op.tensor_norms, op.scalars, op.squared_norm},
               {op.parameters, op.compute_copy},
               {}};
  }
  queue_.enqueue(stream, "update", touched, [this, op, tensors = std::move(tensors)] {
    device::OptimizerUpdate later = op;
    later.tensors = tensors.data();
    worker_->update(0, later);
  });
}

}  // namespace

std::unique_ptr<device::Device> make_deferred_device(std::unique_ptr<device::Device> worker,
                                                     std::uint64_t seed) {
  return std::make_unique<DeferredDevice>(std::move(worker), seed);
}

std::unique_ptr<device::Device> make_deferred_device(int threads, std::uint64_t seed) {
  return make_deferred_device(cpu::make_cpu_device(threads), seed);
}

}  // namespace regatta::tests
