#include "trainer/step/stage_ranks.h"

#include <vector>

#include "base/error.h"

namespace regatta::trainer::step {

StageRanks::StageRanks(ranks::Communicator& world, const contract::RankGrid& grid, bool tied)
    : world_(world), grid_(grid) {
  base::check(grid.ranks() == world.ranks(), "stages and replicas make up the ranks");
  if (grid.stages == 1) return;
  data_ = world.open_group(grid.ranks_of_stage(stage()));
  if (!tied) return;
  const bool is_end = stage() == 0 || stage() == grid.stages - 1;
  ends_ = world.open_group(is_end ? std::vector<int>{grid.rank_of(0, replica()),
                                                     grid.rank_of(grid.stages - 1, replica())}
                                  : std::vector<int>{});
}

}  // namespace regatta::trainer::step
