#include "tests/trainer/device/recording_device.h"

#include "trainer/device/forwarding_device.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // what it stands for

std::string size(const char* name, std::int64_t value) {
  return std::string(" ") + name + " " + std::to_string(value);
}
std::string given(const char* name, const device::View& view) {
  return view.size > 0 ? std::string(" ") + name : "";
}
std::string dropped(const device::Dropout& dropout) {
  return dropout.threshold > 0 ? " dropout" : "";
}

class RecordingDevice final : public device::ForwardingDevice {
 public:
  RecordingDevice(device::Device& inner, std::vector<std::string>* lines)
      : device::ForwardingDevice(inner), lines_(*lines) {}

  void gemm(device::Stream stream, const device::Gemm& op) override {
    note("product" + size("m", op.m) + size("n", op.n) + size("k", op.k) +
         (op.transpose_a ? " aT" : "") + (op.transpose_b ? " bT" : "") +
         (op.beta != 0 ? " accumulates" : "") + given("bias", op.bias) +
         given("pre-activation", op.pre_activation) + given("gelu-input", op.gelu_input) +
         given("c-sums", op.c_column_sums) + given("a-sums", op.a_column_sums) +
         (op.activation == device::Activation::GeluTanh  ? " tanh"
          : op.activation == device::Activation::GeluErf ? " erf"
                                                         : ""));
    inner().gemm(stream, op);
  }
  void add_column_sums(device::Stream stream, device::View x, std::int64_t columns,
                       device::View sum) override {
    note("column sums" + size("of", x.size) + size("columns", columns));
    inner().add_column_sums(stream, x, columns, sum);
  }
  void gelu_forward(device::Stream stream, device::View x, device::View y,
                    bool tanh_form) override {
    note("gelu forward" + size("of", x.size) + (tanh_form ? " tanh" : " erf"));
    inner().gelu_forward(stream, x, y, tanh_form);
  }
  void gelu_backward(device::Stream stream, device::View x, device::View dy, device::View dx,
                     bool tanh_form) override {
    note("gelu backward" + size("of", x.size) + (tanh_form ? " tanh" : " erf"));
    inner().gelu_backward(stream, x, dy, dx, tanh_form);
  }
  void tanh_forward(device::Stream stream, device::View x, device::View y) override {
    note("tanh forward" + size("of", x.size));
    inner().tanh_forward(stream, x, y);
  }
  void tanh_backward(device::Stream stream, device::View y, device::View dy,
                     device::View dx) override {
    note("tanh backward" + size("of", y.size));
    inner().tanh_backward(stream, y, dy, dx);
  }
  void add(device::Stream stream, device::View x, device::View y) override {
    note("add" + size("of", x.size));
    inner().add(stream, x, y);
  }
  void gather_rows(device::Stream stream, device::View from, device::View index,
                   std::int64_t columns, device::View to) override {
    note("gather" + size("rows", index.size) + size("columns", columns) + size("of", from.size));
    inner().gather_rows(stream, from, index, columns, to);
  }
  void scatter_add_rows(device::Stream stream, device::View from, device::View index,
                        std::int64_t columns, device::View to) override {
    note("scatter" + size("rows", index.size) + size("columns", columns) + size("of", to.size));
    inner().scatter_add_rows(stream, from, index, columns, to);
  }
  void embedding_forward(device::Stream stream, const device::EmbeddingForward& op) override {
    note("embedding forward" + size("of", op.y.size) + dropped(op.dropout));
    inner().embedding_forward(stream, op);
  }
  void embedding_backward(device::Stream stream, const device::EmbeddingBackward& op) override {
    note("embedding backward" + size("of", op.dy.size) + dropped(op.dropout));
    inner().embedding_backward(stream, op);
  }
  void layer_norm_forward(device::Stream stream, const device::LayerNormForward& op) override {
    note("norm forward" + size("of", op.y.size) + given("residual", op.residual) +
         dropped(op.dropout));
    inner().layer_norm_forward(stream, op);
  }
  void layer_norm_backward(device::Stream stream, const device::LayerNormBackward& op) override {
    note("norm backward" + size("of", op.dy.size) + given("bias-sums", op.dbias) +
         dropped(op.dropout) + (op.dx.data == op.dresidual.data ? " one gradient" : ""));
    inner().layer_norm_backward(stream, op);
  }
  void attention_forward(device::Stream stream, const device::AttentionForward& op) override {
    note("attention forward" + size("of", op.out.size) + size("heads", op.heads) +
         size("longest", op.tokens.max_length) + dropped(op.dropout));
    inner().attention_forward(stream, op);
  }
  void attention_backward(device::Stream stream, const device::AttentionBackward& op) override {
    note("attention backward" + size("of", op.out.size) + size("heads", op.heads) +
         size("longest", op.tokens.max_length) + dropped(op.dropout));
    inner().attention_backward(stream, op);
  }
  void cross_entropy(device::Stream stream, const device::CrossEntropy& op) override {
    note("cross entropy" + size("rows", op.labels.size) + size("classes", op.classes) +
         size("stride", op.stride) + (op.label_smoothing > 0 ? " smoothed" : "") +
         (op.evaluate ? " evaluates" : ""));
    inner().cross_entropy(stream, op);
  }
  void span_cross_entropy(device::Stream stream, const device::SpanCrossEntropy& op) override {
    note("span cross entropy" + size("of", op.logits.size) +
         size("samples", op.cumulative.size - 1) + (op.label_smoothing > 0 ? " smoothed" : "") +
         (op.evaluate ? " evaluates" : ""));
    inner().span_cross_entropy(stream, op);
  }
  void squared_error(device::Stream stream, const device::SquaredError& op) override {
    note("squared error" + size("samples", op.logits.size) + (op.evaluate ? " evaluates" : ""));
    inner().squared_error(stream, op);
  }

 private:
  void note(std::string line) { lines_.push_back(std::move(line)); }

  std::vector<std::string>& lines_;
};

}  // namespace

std::unique_ptr<device::Device> make_recording_device(device::Device& inner,
                                                      std::vector<std::string>* lines) {
  return std::make_unique<RecordingDevice>(inner, lines);
}

}  // namespace regatta::tests
