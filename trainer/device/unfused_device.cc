#include "trainer/device/unfused_device.h"

#include "trainer/device/forwarding_device.h"
#include "trainer/device/shape_checks.h"

namespace regatta::trainer::device {
namespace {

class UnfusedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  [[nodiscard]] std::string description() const override {
    return inner().description() + ", unfused";
  }
  void gemm(Stream stream, const Gemm& op) override {
    check_shapes(op);
    const bool tanh_form = op.activation == Activation::GeluTanh;
    Gemm plain = op;
    plain.activation = Activation::None;
    plain.pre_activation = plain.gelu_input = plain.c_column_sums = plain.a_column_sums = {};
    if (op.pre_activation.data != nullptr) {
      plain.c = op.pre_activation;
      inner().gemm(stream, plain);
      inner().gelu_forward(stream, op.pre_activation, op.c, tanh_form);
      return;
    }
    inner().gemm(stream, plain);
    if (op.gelu_input.data != nullptr) {
      inner().gelu_backward(stream, op.gelu_input, op.c, op.c, tanh_form);
      if (op.c_column_sums.size > 0) add_column_sums(stream, op.c, op.n, op.c_column_sums);
    }
    if (op.a_column_sums.size > 0) add_column_sums(stream, op.a, op.m, op.a_column_sums);
  }
  void layer_norm_forward(Stream stream, const LayerNormForward& op) override {
    check_shapes(op);
    LayerNormForward step = op;
    step.residual = {};
    if (op.residual.size > 0) {
      if (op.dropout.threshold > 0) {
        inner().layer_norm_forward(stream, step);  // for z = dropout(x); the rest is overwritten
      } else if (op.z.data != op.x.data) {
        inner().copy(stream, op.z, op.x);
      }
      inner().add(stream, op.residual, op.z);
      step.x = op.z;
      step.dropout = {};
    }
    inner().layer_norm_forward(stream, step);
  }
  void layer_norm_backward(Stream stream, const LayerNormBackward& op) override {
    check_shapes(op);
    LayerNormBackward step = op;
    step.dbias = {};
    inner().layer_norm_backward(stream, step);
    if (op.dbias.size > 0) add_column_sums(stream, op.dx, op.dbias.size, op.dbias);
  }
};

}  // namespace

std::unique_ptr<Device> make_unfused_device(Device& inner) {
  return std::make_unique<UnfusedDevice>(inner);
}

}  // namespace regatta::trainer::device
