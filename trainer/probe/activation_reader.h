// What forward makes of a step's micro-batches, on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::probe {

// Elements of device memory, float32 whatever they are there; waits for them.
[[nodiscard]] std::vector<float> read_floats(device::Device& device, const device::View& view);

// An activation of the whole batch: rows of so many columns.
struct ActivationTensor {
  std::string name;  // "output of bert.encoder.layer.0.output.LayerNorm.weight"
  std::int64_t columns = 0;
};

// Runs forward on every micro-batch of a step that is about to be taken, and gives each activation
// (step/divergence.h, but for the attention's log Σ exp) the rows that come next, tensor number
// first: all of a micro-batch, then the next one's. Logits are not there: the loss has turned them
// into their gradient, which is given, without the factor of float16. Returns what they are.
using TakeRows = std::function<void(std::size_t tensor, std::span<const float> rows)>;
[[nodiscard]] std::vector<ActivationTensor> read_activations(device::Device& device,
                                                             const step::StepSeen& seen,
                                                             const TakeRows& take);

}  // namespace regatta::trainer::probe
