#include "trainer/step/shard_sums.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::trainer::step {
namespace {

using contract::kAdd;
using contract::SumTree;
using model::kCompute;

constexpr std::int64_t kStatistics = 6;  // floats of Bert::read_statistics

// As a communicator cuts a view of that size.
std::vector<ArenaSlice> part_ranges(std::int64_t size, const ranks::Communicator& communicator) {
  std::vector<ArenaSlice> ranges;
  const std::int64_t part = communicator.part_size(size);
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    ArenaSlice range;
    range.begin = std::min(size, part * rank);
    range.size = std::min(size, part * (rank + 1)) - range.begin;
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

std::vector<ArenaSlice> granule_ranges(std::int64_t arena_size, int ranks) {
  const std::int64_t granules = (arena_size + kGranule - 1) / kGranule;
  std::vector<ArenaSlice> ranges;
  for (int rank = 0; rank < ranks; ++rank) {
    ArenaSlice range;
    range.begin = std::min(arena_size, granules * rank / ranks * kGranule);
    range.size = std::min(arena_size, granules * (rank + 1) / ranks * kGranule) - range.begin;
    ranges.push_back(range);
  }
  return ranges;
}

std::int64_t shard_sum_elements(std::int64_t arena_size, int shards, int ranks) {
  const SumTree tree = contract::sum_tree(shards, ranks);
  int slots = 0;
  for (const contract::SumOrder& order : tree.of_rank) {
    slots = std::max(slots, contract::depth_of(order));
  }
  const std::int64_t part = (arena_size + ranks - 1) / ranks + kGranule;
  const auto others = static_cast<std::int64_t>(tree.partials.size()) - 1;
  return slots * arena_size + others * part;
}

ShardSums::ShardSums(device::Device& device, ranks::Communicator& communicator,
                     const base::Clock& clock, model::Bert& model, int shards, bool sharded)
    : device_(device),
      communicator_(communicator),
      clock_(clock),
      model_(model),
      tree_(contract::sum_tree(shards, communicator.ranks())),
      sharded_(sharded),
      ranges_(sharded ? granule_ranges(model.table().arena_size, communicator.ranks())
                      : part_ranges(model.table().arena_size, communicator)),
      inbox_(tree_.partials.size()),
      statistics_(device, 4 * kStatistics * tree_.shards_per_rank) {
  base::check(communicator.parts() == communicator.ranks(), "every rank has a part of its own");
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const int slots = contract::depth_of(tree_.of_rank[rank]);
  for (int i = 0; i < slots; ++i) {
    slots_.emplace_back(device, model.table().arena_size, device::Dtype::Float32);
  }
  for (std::size_t i = 0; i < inbox_.size(); ++i) {
    if (tree_.partials[i].rank == communicator.rank() || mine().size == 0) continue;
    inbox_[i] = device::DeviceMemory(device, mine().size, device::Dtype::Float32);
  }
}

void ShardSums::begin() {
  base::check(!busy_, "the last step's sums are over");
  next_ = used_ = done_ = 0;
  exposed_ = 0;
}

void ShardSums::add() {
  const contract::SumOrder& order = tree_.of_rank[static_cast<std::size_t>(communicator_.rank())];
  base::check(next_ < order.size() && order[next_] == static_cast<int>(done_),
              "shards come in their order");
  model_.read_statistics(statistics_.floats() + kStatistics * static_cast<std::int64_t>(done_));
  ++done_;
  ++next_;
  if (next_ < order.size() && order[next_] == kAdd) {
    device_.add(kCompute, model_.gradients(), slot(used_ - 1));
    ++next_;
  } else {
    device_.copy(kCompute, slot(used_++), model_.gradients());
  }
  for (; next_ < order.size() && order[next_] == kAdd; ++next_, --used_) {
    device_.add(kCompute, slot(used_ - 1), slot(used_ - 2));
  }
}

void ShardSums::wait_for(const std::vector<ranks::Pending>& pending) {
  const double mark = clock_.monotonic_seconds();
  for (const ranks::Pending one : pending) communicator_.finish(kCompute, one);
  exposed_ += clock_.monotonic_seconds() - mark;
}

// Every rank's part of this rank's partials goes there, and this rank's part of the others' comes.
void ShardSums::exchange() {
  std::vector<ranks::Pending> pending;
  std::size_t own = 0;
  for (std::size_t i = 0; i < tree_.partials.size(); ++i) {
    const int from = tree_.partials[i].rank;
    if (from != communicator_.rank()) {
      if (mine().size > 0) {
        pending.push_back(communicator_.receive(kCompute, inbox_[i].view(), from));
      }
      continue;
    }
    const device::View partial = slot(own++);
    for (int to = 0; to < communicator_.ranks(); ++to) {
      const ArenaSlice& range = ranges_[static_cast<std::size_t>(to)];
      if (to == from || range.size == 0) continue;
      pending.push_back(communicator_.send(kCompute, partial.slice(range.begin, range.size), to));
    }
  }
  base::check(own == used_, "a rank has the partials that the tree gives it");
  wait_for(pending);
}

void ShardSums::finish() {
  base::check(done_ == static_cast<std::size_t>(count()), "every shard has been added");
  busy_ = true;
  exchange();
  if (mine().size > 0) {
    std::vector<device::View> stack;
    std::size_t own = 0;
    for (const int operand : tree_.of_all) {
      if (operand == kAdd) {
        device_.add(kCompute, stack[stack.size() - 1], stack[stack.size() - 2]);
        stack.pop_back();
        continue;
      }
      const auto partial = static_cast<std::size_t>(operand);
      const bool is_own = tree_.partials[partial].rank == communicator_.rank();
      stack.push_back(is_own ? slot(own++).slice(mine().begin, mine().size)
                             : inbox_[partial].view());
    }
    device_.copy(kCompute, model_.gradients().slice(mine().begin, mine().size), stack.front());
  }
  if (!sharded_) wait_for({communicator_.all_gather(kCompute, model_.gradients())});
  busy_ = false;
}

ShardSums::Losses ShardSums::own_losses() const {
  Losses losses;
  for (int i = 0; i < count(); ++i) {
    const model::Statistics one =
        model::Bert::statistics_of(statistics_.floats() + kStatistics * i);
    losses.mlm += one.mlm_loss;
    losses.sample += one.sample_loss;
  }
  return losses;
}

ShardSums::Losses ShardSums::all_losses() const {
  std::vector<Losses> own(static_cast<std::size_t>(count()));
  for (int i = 0; i < count(); ++i) {
    const model::Statistics one =
        model::Bert::statistics_of(statistics_.floats() + kStatistics * i);
    own[static_cast<std::size_t>(i)] = {one.mlm_loss, one.sample_loss};
  }
  std::vector<Losses> all(static_cast<std::size_t>(shards()));
  communicator_.host().all_gather(own.data(), static_cast<std::int64_t>(sizeof(Losses)) * count(),
                                  all.data());
  Losses sum;
  for (const Losses& one : all) {
    sum.mlm += one.mlm;
    sum.sample += one.sample;
  }
  return sum;
}

}  // namespace regatta::trainer::step
