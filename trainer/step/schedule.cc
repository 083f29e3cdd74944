#include "trainer/step/schedule.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/portable_math.h"

namespace regatta::trainer::step {
namespace {

// Counted from the head, which is 0: L − i for layer i of L, L + 1 for the embeddings.
int depth_of(const std::string& tensor, int layers) {
  const std::string layer = "bert.encoder.layer.";
  if (tensor.rfind("bert.embeddings.", 0) == 0) return layers + 1;
  if (tensor.rfind(layer, 0) != 0) return 0;
  int number = 0;
  std::from_chars(tensor.data() + layer.size(), tensor.data() + tensor.size(), number);
  return layers - number;
}

}  // namespace

double learning_rate(const contract::OptimizerConfig& config, std::int64_t steps, double step) {
  const auto warmup = static_cast<double>(config.warmup_steps);
  if (step <= warmup && warmup > 0) return config.learning_rate * step / warmup;
  if (config.schedule == contract::ScheduleKind::Constant) return config.learning_rate;
  const std::int64_t end = config.decay_steps > 0 ? config.decay_steps : steps;
  const auto length = static_cast<double>(std::max<std::int64_t>(1, end - config.warmup_steps));
  // Of the decay's steps before this one: the first still has the full rate.
  const double done = std::max(0.0, step - 1 - warmup);
  const double progress = std::min(1.0, done / length);
  const double power = config.schedule == contract::ScheduleKind::Polynomial ? config.power : 1.0;
  return config.end_learning_rate + (config.learning_rate - config.end_learning_rate) *
                                        base::portable_power(1.0 - progress, power);
}

std::vector<float> learning_rate_factors(const contract::TensorTable& table,
                                         const contract::ModelShape& shape,
                                         const contract::FineTuningConfig& config) {
  std::vector<float> factors;
  const int highest = shape.layers - config.frozen_layers;  // depth that is trained
  for (const contract::TensorEntry& tensor : table.tensors) {
    const int depth = depth_of(tensor.name, shape.layers);
    const bool frozen = config.frozen_layers > 0 && depth > highest;
    factors.push_back(frozen ? 0.0F
                             : static_cast<float>(base::portable_power(config.layer_decay, depth)));
  }
  return factors;
}

}  // namespace regatta::trainer::step
