#pragma once

#include <cstdint>
#include <vector>

#include "trainer/bert.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer {

// AdamW or LAMB over the flat arena, with global-norm clipping folded into the update. Owns the two
// moments.
class Optimizer {
 public:
  // Moments start at zero.
  Optimizer(Device& device, const TensorTable& table, const OptimizerConfig& config,
            double clip_norm);

  [[nodiscard]] View first_moment() const { return first_moment_.view(); }
  [[nodiscard]] View second_moment() const { return second_moment_.view(); }

  struct Step {
    std::int64_t number = 1;  // 1 is the first
    double learning_rate = 0;
    double loss_scale = 1;  // that the gradients carry
  };
  // Enqueues the update of the model's parameters (and of the copy that products read) from its
  // summed gradients. One call between two synchronisations: the scalars' host copy is reused.
  void update(const Bert& model, const Step& step);
  // Enqueues the copy of Σ g² of the last update to the host.
  void read_squared_norm(float* value);

 private:
  Device& device_;
  OptimizerConfig config_;
  double clip_norm_;
  std::vector<OptimizerTensor> tensors_;
  DeviceMemory first_moment_, second_moment_, scalars_, squared_norm_;
  HostMemory host_scalars_;
};

}  // namespace regatta::trainer
