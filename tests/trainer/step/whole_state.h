// A run's state on one rank, for comparison.
#pragma once

#include <vector>

#include "trainer/cpu/cpu_device.h"
#include "trainer/ranks/communicator.h"
#include "trainer/step/snapshot.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer {

// On rank 0 what a checkpoint would hold now, gathered from all ranks' snapshots; elsewhere empty.
// Collective.
inline step::TrainingState whole_state(ranks::Communicator& communicator, step::TrainLoop& loop) {
  const contract::TensorTable& table = loop.model().table();
  const auto size = static_cast<std::size_t>(table.arena_size);
  const auto memory = cpu::make_cpu_device(1);
  step::Snapshot snapshot(*memory, table, loop.pieces(), loop.shard().value_or(0), loop.shards(),
                          true);
  loop.snapshot(&snapshot);
  const auto gathered = [&](const float* values) {
    std::vector<double> sums(size, 0.0);
    if (loop.shard()) {  // else another rank has the same
      for (const step::StatePiece& piece : snapshot.shard().pieces) {
        for (std::int64_t i = 0; i < piece.size; ++i) {
          sums[static_cast<std::size_t>(piece.arena_begin + i)] =
              static_cast<double>(values[piece.state_begin + i]);
        }
      }
    }
    const bool whole =
        snapshot.shard().pieces.size() == 1 && snapshot.shard().pieces[0].size == table.arena_size;
    if (!whole) communicator.host().all_reduce_sum(sums.data(), static_cast<int>(size));
    return std::vector<float>(sums.begin(), sums.end());
  };
  step::TrainingState state;
  state.parameters.assign(snapshot.parameters(), snapshot.parameters() + size);
  state.first_moment = gathered(snapshot.first_moment());
  state.second_moment = gathered(snapshot.second_moment());
  state.loss_scale = snapshot.shard().loss_scale;
  state.good_steps = snapshot.shard().good_steps;
  state.noise = snapshot.shard().noise;
  return communicator.rank() == 0 ? state : step::TrainingState{};
}

}  // namespace regatta::trainer
