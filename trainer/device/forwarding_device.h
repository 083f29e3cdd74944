// A Device that passes everything on to another: what derives from it changes, or watches, some of
// it.
#pragma once

#include "trainer/device/device.h"

namespace regatta::trainer::device {

class ForwardingDevice : public Device {
 public:
  // `inner` outlives it.
  explicit ForwardingDevice(Device& inner) : inner_(inner) {}

  [[nodiscard]] std::string description() const override { return inner_.description(); }
  [[nodiscard]] DeviceProfile profile() const override { return inner_.profile(); }
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
  [[nodiscard]] Event record(Stream s) override { return inner_.record(s); }
  void wait(Stream s, Event event) override { inner_.wait(s, event); }
  void wait_host(Event event) override { inner_.wait_host(event); }
  void synchronize() override { inner_.synchronize(); }
  void repeat(Stream s, std::uint64_t key, const std::function<void()>& enqueue) override {
    inner_.repeat(s, key, enqueue);
  }
  void forget_repeats() override { inner_.forget_repeats(); }

  void copy_to_device(Stream s, View to, const void* from) override {
    inner_.copy_to_device(s, to, from);
  }
  void copy_to_host(Stream s, void* to, View from) override { inner_.copy_to_host(s, to, from); }
  void copy(Stream s, View to, View from) override { inner_.copy(s, to, from); }
  void convert(Stream s, View to, View from) override { inner_.convert(s, to, from); }
  void fill_zero(Stream s, View to) override { inner_.fill_zero(s, to); }

  void gemm(Stream s, const Gemm& op) override { inner_.gemm(s, op); }
  void add_column_sums(Stream s, View x, std::int64_t columns, View sum) override {
    inner_.add_column_sums(s, x, columns, sum);
  }
  void gelu_forward(Stream s, View x, View y, bool tanh_form) override {
    inner_.gelu_forward(s, x, y, tanh_form);
  }
  void gelu_backward(Stream s, View x, View dy, View dx, bool tanh_form) override {
    inner_.gelu_backward(s, x, dy, dx, tanh_form);
  }
  void tanh_forward(Stream s, View x, View y) override { inner_.tanh_forward(s, x, y); }
  void tanh_backward(Stream s, View y, View dy, View dx) override {
    inner_.tanh_backward(s, y, dy, dx);
  }
  void add(Stream s, View x, View y) override { inner_.add(s, x, y); }
  void gather_rows(Stream s, View from, View index, std::int64_t columns, View to) override {
    inner_.gather_rows(s, from, index, columns, to);
  }
  void scatter_add_rows(Stream s, View from, View index, std::int64_t columns, View to) override {
    inner_.scatter_add_rows(s, from, index, columns, to);
  }

  void embedding_forward(Stream s, const EmbeddingForward& op) override {
    inner_.embedding_forward(s, op);
  }
  void embedding_backward(Stream s, const EmbeddingBackward& op) override {
    inner_.embedding_backward(s, op);
  }
  void layer_norm_forward(Stream s, const LayerNormForward& op) override {
    inner_.layer_norm_forward(s, op);
  }
  void layer_norm_backward(Stream s, const LayerNormBackward& op) override {
    inner_.layer_norm_backward(s, op);
  }
  void attention_forward(Stream s, const AttentionForward& op) override {
    inner_.attention_forward(s, op);
  }
  void attention_backward(Stream s, const AttentionBackward& op) override {
    inner_.attention_backward(s, op);
  }
  void cross_entropy(Stream s, const CrossEntropy& op) override { inner_.cross_entropy(s, op); }
  void span_cross_entropy(Stream s, const SpanCrossEntropy& op) override {
    inner_.span_cross_entropy(s, op);
  }
  void squared_error(Stream s, const SquaredError& op) override { inner_.squared_error(s, op); }
  void sum_of_squares(Stream s, View x, View result) override {
    inner_.sum_of_squares(s, x, result);
  }
  void limit_norm(Stream s, View x, View squared_norm, View limit) override {
    inner_.limit_norm(s, x, squared_norm, limit);
  }
  void update(Stream s, const OptimizerUpdate& op) override { inner_.update(s, op); }
  void add_noise_sums(Stream s, const NoiseSums& op) override { inner_.add_noise_sums(s, op); }

 protected:
  [[nodiscard]] Device& inner() const { return inner_; }

 private:
  Device& inner_;
};

}  // namespace regatta::trainer::device
