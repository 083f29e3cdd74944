#include "trainer/unfused_device.h"

#include "trainer/shape_checks.h"

namespace regatta::trainer {
namespace {

class UnfusedDevice final : public Device {
 public:
  explicit UnfusedDevice(Device& inner) : inner_(inner) {}

  [[nodiscard]] std::string description() const override {
    return inner_.description() + ", unfused";
  }
  [[nodiscard]] bool is_on_host() const override { return inner_.is_on_host(); }
  [[nodiscard]] bool computes_in(Dtype dtype) const override { return inner_.computes_in(dtype); }
  [[nodiscard]] std::int64_t token_bucket() const override { return inner_.token_bucket(); }

  [[nodiscard]] void* allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
  void release(void* memory) override { inner_.release(memory); }
  [[nodiscard]] std::int64_t peak_bytes() const override { return inner_.peak_bytes(); }
  [[nodiscard]] void* allocate_host(std::int64_t bytes) override {
    return inner_.allocate_host(bytes);
  }
  void release_host(void* memory) override { inner_.release_host(memory); }

  [[nodiscard]] Stream make_stream() override { return inner_.make_stream(); }
  [[nodiscard]] Event record(Stream stream) override { return inner_.record(stream); }
  void wait(Stream stream, Event event) override { inner_.wait(stream, event); }
  void wait_host(Event event) override { inner_.wait_host(event); }
  void synchronize() override { inner_.synchronize(); }
  void repeat(Stream stream, std::uint64_t key, const std::function<void()>& enqueue) override {
    inner_.repeat(stream, key, enqueue);
  }
  void forget_repeats() override { inner_.forget_repeats(); }

  void copy_to_device(Stream stream, View to, const void* from) override {
    inner_.copy_to_device(stream, to, from);
  }
  void copy_to_host(Stream stream, void* to, View from) override {
    inner_.copy_to_host(stream, to, from);
  }
  void copy(Stream stream, View to, View from) override { inner_.copy(stream, to, from); }
  void convert(Stream stream, View to, View from) override { inner_.convert(stream, to, from); }
  void fill_zero(Stream stream, View to) override { inner_.fill_zero(stream, to); }

  void gemm(Stream stream, const Gemm& op) override {
    check_shapes(op);
    const bool tanh_form = op.activation == Activation::GeluTanh;
    Gemm plain = op;
    plain.activation = Activation::None;
    plain.pre_activation = plain.gelu_input = plain.c_column_sums = plain.a_column_sums = {};
    if (op.pre_activation.data != nullptr) {
      plain.c = op.pre_activation;
      inner_.gemm(stream, plain);
      inner_.gelu_forward(stream, op.pre_activation, op.c, tanh_form);
      return;
    }
    inner_.gemm(stream, plain);
    if (op.gelu_input.data != nullptr) {
      inner_.gelu_backward(stream, op.gelu_input, op.c, op.c, tanh_form);
      if (op.c_column_sums.size > 0) add_column_sums(stream, op.c, op.n, op.c_column_sums);
    }
    if (op.a_column_sums.size > 0) add_column_sums(stream, op.a, op.m, op.a_column_sums);
  }
  void add_column_sums(Stream stream, View x, std::int64_t columns, View sum) override {
    inner_.add_column_sums(stream, x, columns, sum);
  }
  void gelu_forward(Stream stream, View x, View y, bool tanh_form) override {
    inner_.gelu_forward(stream, x, y, tanh_form);
  }
  void gelu_backward(Stream stream, View x, View dy, View dx, bool tanh_form) override {
    inner_.gelu_backward(stream, x, dy, dx, tanh_form);
  }
  void tanh_forward(Stream stream, View x, View y) override { inner_.tanh_forward(stream, x, y); }
  void tanh_backward(Stream stream, View y, View dy, View dx) override {
    inner_.tanh_backward(stream, y, dy, dx);
  }
  void add(Stream stream, View x, View y) override { inner_.add(stream, x, y); }
  void gather_rows(Stream stream, View from, View index, std::int64_t columns, View to) override {
    inner_.gather_rows(stream, from, index, columns, to);
  }
  void scatter_add_rows(Stream stream, View from, View index, std::int64_t columns,
                        View to) override {
    inner_.scatter_add_rows(stream, from, index, columns, to);
  }

  void embedding_forward(Stream stream, const EmbeddingForward& op) override {
    inner_.embedding_forward(stream, op);
  }
  void embedding_backward(Stream stream, const EmbeddingBackward& op) override {
    inner_.embedding_backward(stream, op);
  }
  void layer_norm_forward(Stream stream, const LayerNormForward& op) override {
    check_shapes(op);
    LayerNormForward step = op;
    step.residual = {};
    if (op.residual.size > 0) {
      if (op.dropout.threshold > 0) {
        inner_.layer_norm_forward(stream, step);  // for z = dropout(x); the rest is overwritten
      } else if (op.z.data != op.x.data) {
        inner_.copy(stream, op.z, op.x);
      }
      inner_.add(stream, op.residual, op.z);
      step.x = op.z;
      step.dropout = {};
    }
    inner_.layer_norm_forward(stream, step);
  }
  void layer_norm_backward(Stream stream, const LayerNormBackward& op) override {
    check_shapes(op);
    LayerNormBackward step = op;
    step.dbias = {};
    inner_.layer_norm_backward(stream, step);
    if (op.dbias.size > 0) add_column_sums(stream, op.dx, op.dbias.size, op.dbias);
  }
  void attention_forward(Stream stream, const AttentionForward& op) override {
    inner_.attention_forward(stream, op);
  }
  void attention_backward(Stream stream, const AttentionBackward& op) override {
    inner_.attention_backward(stream, op);
  }
  void cross_entropy(Stream stream, const CrossEntropy& op) override {
    inner_.cross_entropy(stream, op);
  }

  void sum_of_squares(Stream stream, View x, View result) override {
    inner_.sum_of_squares(stream, x, result);
  }
  void limit_norm(Stream stream, View x, View squared_norm, View limit) override {
    inner_.limit_norm(stream, x, squared_norm, limit);
  }
  void update(Stream stream, const OptimizerUpdate& op) override { inner_.update(stream, op); }

 private:
  Device& inner_;
};

}  // namespace

std::unique_ptr<Device> make_unfused_device(Device& inner) {
  return std::make_unique<UnfusedDevice>(inner);
}

}  // namespace regatta::trainer
