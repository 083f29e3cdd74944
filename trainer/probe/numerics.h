// One step beside a float64 reference: how far rounding has led, tensor by tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/probe/replay.h"

namespace regatta::trainer::probe {

struct NumericsOptions {
  ReplayOptions replay;
  // Samples from the step's first on, until there would be more tokens than this; at least one.
  std::int64_t tokens = 512;
};

// ‖x − reference‖ / ‖reference‖; of gradients, in which tokens may cancel out, beside
// ReferenceModel::gradient_spread() where that is larger.
struct TensorError {
  std::string name;
  int layer = 0;  // −1: the embeddings; as many as there are layers: the head
  double error = 0;
  // Of a computation that rounds at random wherever this one does: unit roundoff × √(roundings on
  // the way).
  double usual = 0;
};

struct NumericsReport {
  std::int64_t step = 0;
  std::int64_t samples = 0, of_samples = 0, tokens = 0, layers = 0;
  std::string dtype, device;
  double loss = 0, reference_loss = 0;
  double loss_error = 0, loss_usual = 0;
  std::vector<TensorError> activations, gradients;  // in the order of forward, and of backward
  double reference_seconds = 0;
};

// More than so many times what is usual is no rounding.
constexpr double kFarOff = 10;
[[nodiscard]] bool is_far_off(double error, double usual);
// Of loss, activations and gradients, in this order.
[[nodiscard]] std::vector<TensorError> far_off(const NumericsReport& report);

// Takes samples of the step, the first `tokens` as above, by themselves with the model's weights,
// and the same in float64 as `config` says.
[[nodiscard]] NumericsReport compare_step(device::Device& device, const base::Clock& clock,
                                          const contract::RunConfig& config,
                                          const step::StepSeen& seen,
                                          std::vector<ReplayedSample> samples, std::int64_t tokens);

// Replays the run up to the step, and takes the samples of it with its weights (as the dtype rounds
// them), dropout and labels, by themselves: losses are divided by their counts. Frozen tensors,
// which have no gradient, are left out. Time: 12 × parameters × tokens operations on one thread.
// Throws as Replay.
[[nodiscard]] NumericsReport compare_with_reference(base::FileSystem& files,
                                                    const base::Clock& clock,
                                                    const NumericsOptions& options);

// The step that the run would take next: behind its newest checkpoint, else the first. Nothing: it
// has taken all.
[[nodiscard]] std::optional<std::int64_t> next_step(base::FileSystem& files, const base::Path& run);

// For people: a line for each layer; with `all`, each tensor.
[[nodiscard]] std::string to_text(const NumericsReport& report, bool all);

}  // namespace regatta::trainer::probe
