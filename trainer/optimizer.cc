#include "trainer/optimizer.h"

#include <cmath>

namespace regatta::trainer {
namespace {

constexpr Stream kCompute = 0;

}  // namespace

Optimizer::Optimizer(Device& device, const TensorTable& table, const OptimizerConfig& config,
                     double clip_norm)
    : device_(device),
      config_(config),
      clip_norm_(clip_norm),
      first_moment_(device, table.arena_size, Dtype::Float32),
      second_moment_(device, table.arena_size, Dtype::Float32),
      scalars_(device, kStepScalars, Dtype::Float32),
      squared_norm_(device, 1, Dtype::Float32) {
  device_.fill_zero(kCompute, first_moment_.view());
  device_.fill_zero(kCompute, second_moment_.view());
  for (const TensorEntry& tensor : table.tensors) {
    tensors_.push_back({tensor.offset, tensor.size, tensor.weight_decay, tensor.trust_ratio});
  }
}

void Optimizer::update(View parameters, View gradients, std::int64_t step, double learning_rate) {
  const auto steps = static_cast<double>(step);
  host_scalars_[kLearningRate] = static_cast<float>(learning_rate);
  host_scalars_[kBiasCorrection1] = static_cast<float>(1.0 - std::pow(config_.beta1, steps));
  host_scalars_[kBiasCorrection2] = static_cast<float>(1.0 - std::pow(config_.beta2, steps));
  host_scalars_[kClipNorm] = static_cast<float>(clip_norm_);
  host_scalars_[kInverseLossScale] = 1;
  device_.copy_to_device(kCompute, scalars_.view(), host_scalars_.data());
  device_.sum_of_squares(kCompute, gradients, squared_norm_.view());
  OptimizerUpdate op;
  op.parameters = parameters;
  op.gradients = gradients;
  op.first_moment = first_moment_.view();
  op.second_moment = second_moment_.view();
  op.tensors = tensors_.data();
  op.tensor_count = static_cast<std::int64_t>(tensors_.size());
  op.beta1 = static_cast<float>(config_.beta1);
  op.beta2 = static_cast<float>(config_.beta2);
  op.epsilon = static_cast<float>(config_.epsilon);
  op.weight_decay = static_cast<float>(config_.weight_decay);
  op.lamb = config_.kind == OptimizerKind::Lamb;
  op.scalars = scalars_.view();
  op.squared_norm = squared_norm_.view();
  device_.update(kCompute, op);
}

void Optimizer::read_squared_norm(float* value) {
  device_.copy_to_host(kCompute, value, squared_norm_.view());
}

}  // namespace regatta::trainer
