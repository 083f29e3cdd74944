// What the gradient noise scale is estimated from: on some steps, the mean gradient of a random
// half of the step's samples beside the step's own (contract/noise_scale.h).
//
// The half is a forward and backward pass of its own before the step's, over the same samples with
// the same masks, and one more reduction; so it costs half of a step's computing and all of its
// communication, on those steps only, and changes no bit of training. It needs memory for one
// gradient (with sharded state, for this rank's part of one).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/contract/noise_scale.h"
#include "trainer/device/device.h"
#include "trainer/model/bert.h"
#include "trainer/step/optimizer.h"

namespace regatta::trainer::step {

// Whether each place of the step's batch is in the half: batch / 2 of them, by a fair draw for each
// step. Balancing has no part in it, nor has the order of samples within the step, which is not
// free of lengths under `stratified`.
[[nodiscard]] std::vector<bool> half_of_step(std::uint64_t seed, std::int64_t step, int batch);

// Squared norms of h, the half's mean gradient, and ḡ, the step's, of parameters that learn.
struct NoiseNorms {
  double difference = 0, whole = 0;  // ‖ḡ − h‖², ‖ḡ‖²
  // The same of gradients divided by √v̂ + ε: what an update of Adam or LAMB is made of (Pollux,
  // section 3.1). As in an update, v̂ is the optimizer's bias-corrected second moment with this
  // step's squared gradient in it: a word that no step has had yet would count without a limit
  // otherwise. That square is the mean of h² and of the rest's: with ḡ² the two halves would not be
  // divided by what does not know them, and no signal would look like a negative one.
  struct Preconditioned {
    double difference = 0, whole = 0;
  };
  std::optional<Preconditioned> preconditioned;  // nothing before kLeastUpdates updates
};

class NoiseProbe {
 public:
  static constexpr std::int64_t kLeastUpdates = 5;  // as Pollux

  // Everything passed outlives the probe.
  NoiseProbe(device::Device& device, const model::Bert& model, Optimizer& optimizer);

  // −h lies in the model's gradients, summed over ranks: enqueues its copy.
  void keep_half();
  // ḡ lies there, summed, and the optimizer has made `updates` updates and begun this step's:
  // enqueues the norms and their copy to the host. The half counted `half_to_rest` items for each
  // of the others.
  void measure(std::int64_t updates, double half_to_rest);
  // Once the host has waited for them.
  [[nodiscard]] NoiseNorms norms() const;

 private:
  device::Device& device_;
  const model::Bert& model_;
  Optimizer& optimizer_;
  bool preconditions_ = false;  // in the last measure()
  device::DeviceMemory kept_;   // as the moments lie: −h, then ḡ − h
  device::DeviceMemory sums_;   // float32 [4]: device::NoiseSums
  device::HostMemory host_sums_;
};

}  // namespace regatta::trainer::step
