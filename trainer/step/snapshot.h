// A run's state as it was at one step, and the part of it that one rank writes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "checkpoint/safetensors.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/noise_scale.h"
#include "trainer/device/device.h"
#include "trainer/step/optimizer.h"

namespace regatta::trainer::step {

// Of the noise scale: preconditioned, raw. All zeros: nothing observed.
using NoiseStates = std::array<contract::NoiseScale::State, 2>;

// What one rank writes of a checkpoint. Borrowed memory, float32.
struct StateShard {
  const float* parameters = nullptr;  // [arena]; null: another rank writes the weights
  // As Optimizer lays them out: a piece's elements from its state_begin on.
  const float* first_moment = nullptr;
  const float* second_moment = nullptr;
  std::vector<StatePiece> pieces;
  int part = 0;  // of `parts` shards of the moments
  int parts = 1;
  double loss_scale = 0;  // of float16 runs, else 0; the first part's
  std::int64_t good_steps = 0;
  NoiseStates noise = {};  // the first part's
};

// All of it.
[[nodiscard]] bool is_whole(const StateShard& shard, const contract::TensorTable& table);
// Of a whole one: all weights and moments are finite.
[[nodiscard]] bool is_finite(const StateShard& whole, const contract::TensorTable& table);

// The weights and moments of a run at one step; arena order. No moments: they are zero.
struct TrainingState {
  std::vector<float> parameters, first_moment, second_moment;
  double loss_scale = 0;  // float16 only; 0: none yet
  std::int64_t good_steps = 0;
  NoiseStates noise = {};

  // Borrows from this.
  [[nodiscard]] StateShard whole(const contract::TensorTable& table) const;
};

// The tensors of a shard's files, by name; ranges of tensors where pieces cut them
// (checkpoint/shards.h). Bytes are borrowed from the shard, and `loss_scale`, float32 [2]: factor,
// steps without overflow, from the caller.
[[nodiscard]] std::vector<checkpoint::NamedTensor> model_tensors(const contract::TensorTable& table,
                                                                 const StateShard& shard);
[[nodiscard]] std::vector<checkpoint::NamedTensor> optimizer_tensors(
    const contract::TensorTable& table, const StateShard& shard, const float* loss_scale);

// float16 runs only: the factor and its steps without overflow.
constexpr char kLossScale[] = "loss_scale";
// float64, as NoiseStates; absent as long as nothing was observed.
constexpr char kNoiseScale[] = "noise_scale";

// A copy in host memory of what one rank writes, made between two steps and written beside the next
// ones. Reserved once and touched, so that no page is missing in the middle of a run; pinned where
// the device has such memory.
class Snapshot {
 public:
  // Of the given pieces of the moments, and of the weights where `with_parameters`. Throws
  // Code::Operator when there is not the memory.
  Snapshot(device::Device& device, const contract::TensorTable& table,
           std::vector<StatePiece> pieces, int part, int parts, bool with_parameters);

  [[nodiscard]] static std::int64_t bytes(const contract::TensorTable& table,
                                          const std::vector<StatePiece>& pieces,
                                          bool with_parameters);

  // What TrainLoop::snapshot fills; null: not part of it.
  [[nodiscard]] float* parameters() const { return parameters_.floats(); }
  [[nodiscard]] float* first_moment() const { return first_moment_.floats(); }
  [[nodiscard]] float* second_moment() const { return second_moment_.floats(); }
  void set_loss_scale(double factor, std::int64_t good_steps);
  void set_noise(const NoiseStates& noise) { shard_.noise = noise; }

  [[nodiscard]] const StateShard& shard() const { return shard_; }

 private:
  device::HostMemory parameters_, first_moment_, second_moment_;
  StateShard shard_;
};

}  // namespace regatta::trainer::step
