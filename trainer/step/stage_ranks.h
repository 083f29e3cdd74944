// Whom a rank of a run with pipeline stages sums with, and whom it sends to.
#pragma once

#include <memory>

#include "trainer/contract/parallel_config.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::step {

// Without stages all of it is the communicator that it is made of, and nothing is opened.
class StageRanks {
 public:
  // `tied`: the first and the last stage have a tensor in common. Collective over all ranks of
  // `world`, which outlives this.
  StageRanks(ranks::Communicator& world, const contract::RankGrid& grid, bool tied);

  [[nodiscard]] const contract::RankGrid& grid() const { return grid_; }
  [[nodiscard]] int stage() const { return grid_.stage_of(world_.rank()); }
  [[nodiscard]] int replica() const { return grid_.replica_of(world_.rank()); }
  // Ranks of `world`; only where there is such a neighbour.
  [[nodiscard]] int below() const { return world_.rank() - grid_.data; }
  [[nodiscard]] int above() const { return world_.rank() + grid_.data; }

  [[nodiscard]] ranks::Communicator& world() const { return world_; }
  // The ranks of this stage, by replica: they sum gradients and share the step's samples.
  [[nodiscard]] ranks::Communicator& data() const { return data_ ? *data_ : world_; }
  // The first and the last stage of this replica, which sum what they have in common; null on
  // ranks between them, and where nothing is tied.
  [[nodiscard]] ranks::Communicator* ends() const { return ends_.get(); }

 private:
  ranks::Communicator& world_;
  contract::RankGrid grid_;
  std::unique_ptr<ranks::Communicator> data_, ends_;
};

}  // namespace regatta::trainer::step
