// Buckets ⇄ communicator, of a run whose sums do not depend on its ranks: the gradient of each
// shard alone, added by the tree of contract/sum_tree.h.
//
// A rank adds the nodes of the tree that it has whole. Then the arena is divided among ranks: each
// is sent its part of all such nodes, and goes on with the tree there. So a rank moves as much as
// in an all-reduce, times the nodes it has (one where ranks are a power of two times what divides
// the tree evenly), and no bit depends on who adds what.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "trainer/contract/sum_tree.h"
#include "trainer/model/bert.h"
#include "trainer/ranks/communicator.h"
#include "trainer/step/gradient_reducer.h"

namespace regatta::trainer::step {

// Elements of a granule: norms are sums over granules, whoever holds which, and ranks hold whole
// ones.
constexpr std::int64_t kGranule = 4096;

// Of each rank what it holds of the arena, in granules; may be empty.
[[nodiscard]] std::vector<ArenaSlice> granule_ranges(std::int64_t arena_size, int ranks);

// Elements that a rank keeps beside the model's gradient.
[[nodiscard]] std::int64_t shard_sum_elements(std::int64_t arena_size, int shards, int ranks);

class ShardSums {
 public:
  // sharded: each rank needs the sum of its granule_ranges() only. Everything passed outlives this.
  ShardSums(device::Device& device, ranks::Communicator& communicator, const base::Clock& clock,
            model::Bert& model, int shards, bool sharded);

  // This rank's shards.
  [[nodiscard]] int first() const { return communicator_.rank() * tree_.shards_per_rank; }
  [[nodiscard]] int count() const { return tree_.shards_per_rank; }
  [[nodiscard]] int shards() const { return count() * communicator_.ranks(); }

  // Before the first shard of a step.
  void begin();
  // The model's gradients and statistics are those of this rank's next shard: enqueues that they
  // are kept. Later work may overwrite them.
  void add();
  // After the last: the model's gradients become the sum over all shards, where this rank needs it.
  void finish();
  [[nodiscard]] bool is_busy() const { return busy_; }
  // Seconds that finish() blocked the host for other ranks.
  [[nodiscard]] double exposed_seconds() const { return exposed_; }

  struct Losses {
    double mlm = 0, sample = 0;
  };
  // Of this rank's shards, once the host has waited for the step.
  [[nodiscard]] Losses own_losses() const;
  // Of all, added in the order of shards. Collective.
  [[nodiscard]] Losses all_losses() const;

 private:
  void exchange();
  void wait_for(const std::vector<ranks::Pending>& pending);
  [[nodiscard]] device::View slot(std::size_t i) const { return slots_[i].view(); }
  [[nodiscard]] const ArenaSlice& mine() const {
    return ranges_[static_cast<std::size_t>(communicator_.rank())];
  }

  device::Device& device_;
  ranks::Communicator& communicator_;
  const base::Clock& clock_;
  model::Bert& model_;
  contract::SumTree tree_;
  bool sharded_;
  std::vector<ArenaSlice> ranges_;              // by rank
  std::vector<device::DeviceMemory> slots_;     // a stack; at the end this rank's partials
  std::vector<device::DeviceMemory> inbox_;     // by partial; nothing of this rank's own
  device::HostMemory statistics_;               // of each of this rank's shards
  std::size_t next_ = 0, used_ = 0, done_ = 0;  // of the order, of slots, of shards
  bool busy_ = false;
  double exposed_ = 0;
};

}  // namespace regatta::trainer::step
