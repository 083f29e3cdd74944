#include "trainer/optimizer.h"

#include <algorithm>
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
      squared_norm_(device, 1, Dtype::Float32),
      host_scalars_(device, 4 * kStepScalars) {
  device_.fill_zero(kCompute, first_moment_.view());
  device_.fill_zero(kCompute, second_moment_.view());
  for (const TensorEntry& tensor : table.tensors) {
    tensors_.push_back({tensor.offset, tensor.size, tensor.weight_decay, tensor.trust_ratio});
  }
}

void Optimizer::update(const Bert& model, const Step& step) {
  const auto number = static_cast<double>(step.number);
  float* scalars = host_scalars_.floats();
  std::fill(scalars, scalars + kStepScalars, 0.0F);
  scalars[kLearningRate] = static_cast<float>(step.learning_rate);
  scalars[kBiasCorrection1] = static_cast<float>(1.0 - std::pow(config_.beta1, number));
  scalars[kBiasCorrection2] = static_cast<float>(1.0 - std::pow(config_.beta2, number));
  scalars[kClipNorm] = static_cast<float>(clip_norm_);
  scalars[kInverseLossScale] = static_cast<float>(1.0 / step.loss_scale);
  device_.copy_to_device(kCompute, scalars_.view(), scalars);
  device_.sum_of_squares(kCompute, model.gradients(), squared_norm_.view());
  OptimizerUpdate op;
  op.parameters = model.parameters();
  op.gradients = model.gradients();
  op.compute_copy = model.compute_copy();
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
