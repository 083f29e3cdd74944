#include "tests/trainer/device/rounding_device.h"

#include <deque>
#include <utility>
#include <vector>

#include "tests/trainer/device/precision.h"
#include "trainer/device/shape_checks.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;

// The float32 images of one operation's activations. Views of the same memory share an image, so
// that operations in place stay in place.
class Images {
 public:
  Images() = default;
  ~Images() {
    for (const Image& image : images_) {
      if (image.written) store(image);
    }
  }
  Images(const Images&) = delete;
  Images& operator=(const Images&) = delete;

  [[nodiscard]] device::View read(const device::View& view) { return image_of(view, false); }
  [[nodiscard]] device::View written(const device::View& view) { return image_of(view, true); }
  // A float32 operand as a product in TF32 reads it.
  [[nodiscard]] device::View factor(const device::View& view) {
    const Precision tf32{device::Dtype::Float32, true};
    images_.push_back(
        {view, tf32.factors(std::vector<float>(view.floats(), view.floats() + view.size)), false});
    return {images_.back().values.data(), view.size, device::Dtype::Float32};
  }

 private:
  struct Image {
    device::View view;
    std::vector<float> values;
    bool written = false;
  };

  device::View image_of(const device::View& view, bool written) {
    if (!is_sixteen_bit(view.dtype)) return view;
    for (Image& image : images_) {
      if (image.view.data != view.data || image.view.size != view.size) continue;
      image.written = image.written || written;
      return {image.values.data(), view.size, device::Dtype::Float32};
    }
    std::vector<float> values(static_cast<std::size_t>(view.size));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t bits = static_cast<const std::uint16_t*>(view.data)[i];
      values[i] = view.dtype == device::Dtype::BFloat16 ? device::float_from_bf16(bits)
                                                        : device::float_from_fp16(bits);
    }
    images_.push_back({view, std::move(values), written});
    return {images_.back().values.data(), view.size, device::Dtype::Float32};
  }

  static void store(const Image& image) {
    for (std::size_t i = 0; i < image.values.size(); ++i) {
      static_cast<std::uint16_t*>(image.view.data)[i] =
          image.view.dtype == device::Dtype::BFloat16 ? device::bf16_from_float(image.values[i])
                                                      : device::fp16_from_float(image.values[i]);
    }
  }

  std::deque<Image> images_;
};

class RoundingDevice final : public device::Device {
 public:
  RoundingDevice(std::unique_ptr<device::Device> worker, bool tf32)
      : worker_(std::move(worker)), tf32_(tf32) {}

  std::string description() const override { return "rounding " + worker_->description(); }
  bool computes_in(device::Dtype dtype) const override {
    return dtype == device::Dtype::Float32 || is_sixteen_bit(dtype);
  }

  void* allocate(std::int64_t bytes) override { return worker_->allocate(bytes); }
  void release(void* memory) override { worker_->release(memory); }
  std::int64_t peak_bytes() const override { return worker_->peak_bytes(); }
  void* allocate_host(std::int64_t bytes) override { return worker_->allocate_host(bytes); }
  void release_host(void* memory) override { worker_->release_host(memory); }

  device::Stream make_stream() override { return worker_->make_stream(); }
  device::Event record(device::Stream stream) override { return worker_->record(stream); }
  void wait(device::Stream stream, device::Event event) override { worker_->wait(stream, event); }
  void wait_host(device::Event event) override { worker_->wait_host(event); }
  void synchronize() override { worker_->synchronize(); }

  void copy_to_device(device::Stream stream, device::View to, const void* from) override {
    worker_->copy_to_device(stream, to, from);
  }
  void copy_to_host(device::Stream stream, void* to, device::View from) override {
    worker_->copy_to_host(stream, to, from);
  }
  void copy(device::Stream stream, device::View to, device::View from) override {
    worker_->copy(stream, to, from);
  }
  void convert(device::Stream stream, device::View to, device::View from) override {
    worker_->convert(stream, to, from);
  }
  void fill_zero(device::Stream stream, device::View to) override {
    worker_->fill_zero(stream, to);
  }

  void gemm(device::Stream stream, const device::Gemm& op) override;
  void add_column_sums(device::Stream stream, device::View x, std::int64_t columns,
                       device::View sum) override {
    device::check_column_sums(x, columns, sum);
    Images images;
    worker_->add_column_sums(stream, images.read(x), columns, sum);
  }
  void gelu_forward(device::Stream stream, device::View x, device::View y,
                    bool tanh_form) override {
    device::check_elementwise(x, y);
    Images images;
    worker_->gelu_forward(stream, images.read(x), images.written(y), tanh_form);
  }
  void gelu_backward(device::Stream stream, device::View x, device::View dy, device::View dx,
                     bool tanh_form) override {
    device::check_elementwise(x, dy, dx);
    Images images;
    worker_->gelu_backward(stream, images.read(x), images.read(dy), images.written(dx), tanh_form);
  }
  void tanh_forward(device::Stream stream, device::View x, device::View y) override {
    device::check_elementwise(x, y);
    Images images;
    worker_->tanh_forward(stream, images.read(x), images.written(y));
  }
  void tanh_backward(device::Stream stream, device::View y, device::View dy,
                     device::View dx) override {
    device::check_elementwise(y, dy, dx);
    Images images;
    worker_->tanh_backward(stream, images.read(y), images.read(dy), images.written(dx));
  }
  void add(device::Stream stream, device::View x, device::View y) override {
    device::check_elementwise(x, y);
    Images images;
    worker_->add(stream, images.read(x), images.written(y));
  }
  void gather_rows(device::Stream stream, device::View from, device::View index,
                   std::int64_t columns, device::View to) override {
    device::check_row_selection(from, index, columns, to);
    Images images;
    worker_->gather_rows(stream, images.read(from), index, columns, images.written(to));
  }
  void scatter_add_rows(device::Stream stream, device::View from, device::View index,
                        std::int64_t columns, device::View to) override {
    device::check_row_selection(to, index, columns, from);
    Images images;
    worker_->scatter_add_rows(stream, images.read(from), index, columns, images.written(to));
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
    worker_->sum_of_squares(stream, x, result);
  }
  void limit_norm(device::Stream stream, device::View x, device::View squared_norm,
                  device::View limit) override {
    worker_->limit_norm(stream, x, squared_norm, limit);
  }
  void update(device::Stream stream, const device::OptimizerUpdate& op) override {
    worker_->update(stream, op);
  }
  void add_noise_sums(device::Stream stream, const device::NoiseSums& op) override {
    worker_->add_noise_sums(stream, op);
  }

 private:
  std::unique_ptr<device::Device> worker_;
  bool tf32_;
};

void RoundingDevice::gemm(device::Stream stream, const device::Gemm& op) {
  device::check_shapes(op);
  Images images;
  device::Gemm wide = op;
  const bool tf32 = tf32_ && op.a.dtype == device::Dtype::Float32;
  if (tf32 && op.a_column_sums.size != 0) {  // of a as it is stored
    worker_->add_column_sums(stream, op.a, op.m, op.a_column_sums);
    wide.a_column_sums = {};
  }
  wide.a = tf32 ? images.factor(op.a) : images.read(op.a);
  wide.b = tf32 ? images.factor(op.b) : images.read(op.b);
  wide.c = images.written(op.c);
  wide.bias = images.read(op.bias);
  wide.pre_activation = images.written(op.pre_activation);
  wide.gelu_input = images.read(op.gelu_input);
  worker_->gemm(stream, wide);
}

void RoundingDevice::embedding_forward(device::Stream stream, const device::EmbeddingForward& op) {
  device::check_shapes(op);
  Images images;
  device::EmbeddingForward wide = op;
  for (device::View* view : {&wide.word, &wide.position, &wide.type}) *view = images.read(*view);
  for (device::View* view : {&wide.x, &wide.y}) *view = images.written(*view);
  worker_->embedding_forward(stream, wide);
}

void RoundingDevice::embedding_backward(device::Stream stream,
                                        const device::EmbeddingBackward& op) {
  device::check_shapes(op);
  Images images;
  device::EmbeddingBackward wide = op;
  wide.x = images.read(op.x);
  wide.dy = images.written(op.dy);
  worker_->embedding_backward(stream, wide);
}

void RoundingDevice::layer_norm_forward(device::Stream stream, const device::LayerNormForward& op) {
  device::check_shapes(op);
  Images images;
  device::LayerNormForward wide = op;
  for (device::View* view : {&wide.x, &wide.residual}) *view = images.read(*view);
  for (device::View* view : {&wide.z, &wide.y}) *view = images.written(*view);
  worker_->layer_norm_forward(stream, wide);
}

void RoundingDevice::layer_norm_backward(device::Stream stream,
                                         const device::LayerNormBackward& op) {
  device::check_shapes(op);
  Images images;
  device::LayerNormBackward wide = op;
  for (device::View* view : {&wide.dy, &wide.z}) *view = images.read(*view);
  for (device::View* view : {&wide.dresidual, &wide.dx}) *view = images.written(*view);
  worker_->layer_norm_backward(stream, wide);
}

void RoundingDevice::attention_forward(device::Stream stream, const device::AttentionForward& op) {
  device::check_shapes(op);
  Images images;
  device::AttentionForward wide = op;
  wide.qkv = images.read(op.qkv);
  wide.out = images.written(op.out);
  worker_->attention_forward(stream, wide);
}

void RoundingDevice::attention_backward(device::Stream stream,
                                        const device::AttentionBackward& op) {
  device::check_shapes(op);
  Images images;
  device::AttentionBackward wide = op;
  for (device::View* view : {&wide.qkv, &wide.out, &wide.dout}) *view = images.read(*view);
  wide.dqkv = images.written(op.dqkv);
  worker_->attention_backward(stream, wide);
}

void RoundingDevice::cross_entropy(device::Stream stream, const device::CrossEntropy& op) {
  device::check_shapes(op);
  Images images;
  device::CrossEntropy wide = op;
  wide.logits = images.written(op.logits);
  worker_->cross_entropy(stream, wide);
}

void RoundingDevice::span_cross_entropy(device::Stream stream, const device::SpanCrossEntropy& op) {
  device::check_shapes(op);
  Images images;
  device::SpanCrossEntropy wide = op;
  wide.logits = images.written(op.logits);
  worker_->span_cross_entropy(stream, wide);
}

void RoundingDevice::squared_error(device::Stream stream, const device::SquaredError& op) {
  device::check_shapes(op);
  Images images;
  device::SquaredError wide = op;
  wide.logits = images.written(op.logits);
  worker_->squared_error(stream, wide);
}

}  // namespace

std::unique_ptr<device::Device> make_rounding_device(std::unique_ptr<device::Device> worker,
                                                     bool tf32) {
  return std::make_unique<RoundingDevice>(std::move(worker), tf32);
}

}  // namespace regatta::tests
