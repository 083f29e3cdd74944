#include "tests/trainer/nccl/emulated_world.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace regatta::tests {
namespace {

using State = EmulatedComm::State;
using Clock = std::chrono::steady_clock;

constexpr float kUndefined = std::numeric_limits<float>::quiet_NaN();

// Elements that a call reads and writes on one rank.
std::int64_t elements_from(const Op& op) {
  const auto ranks = static_cast<std::int64_t>(op.comm->group->ranks.size());
  return op.call == Call::ReduceScatter ? op.count * ranks : op.count;
}
std::int64_t elements_to(const Op& op) {
  const auto ranks = static_cast<std::int64_t>(op.comm->group->ranks.size());
  if (op.call == Call::Reduce && op.root != op.comm->rank) return 0;
  if (op.call == Call::Broadcast && op.root == op.comm->rank) return 0;
  return op.call == Call::AllGather ? op.count * ranks : op.count;
}

SlotName name_of(const Op& op) {
  const std::pair<int, int> ends =
      op.call == Call::Message ? std::pair(op.sender, op.root) : std::pair(-1, -1);
  return {ends.first, ends.second, ++op.comm->numbers[ends]};
}

}  // namespace

Time EmulatedNccl::World::after(double milliseconds) const {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double, std::milli>(milliseconds));
}

double EmulatedNccl::World::random_milliseconds(double most) {
  return most <= 0 ? 0 : std::uniform_real_distribution<double>(0, most)(random);
}

void EmulatedNccl::World::violate(const std::string& what) {
  violations.push_back("emulated NCCL: " + what);
  changed.notify_all();
}

EmulatedComm* EmulatedNccl::World::make_comm(std::shared_ptr<Group> group, int rank,
                                             int world_rank) {
  comms.emplace_back();
  EmulatedComm& comm = comms.back();
  comm.group = std::move(group);
  comm.rank = rank;
  comm.world_rank = world_rank;
  return &comm;
}

Result EmulatedNccl::World::init(int r, trainer::nccl::Comm* comm, int count, int id, int rank) {
  std::shared_ptr<Group>& group = groups[id];
  if (group == nullptr) {
    group = std::make_shared<Group>();
    group->ranks.assign(static_cast<std::size_t>(count), -1);
  }
  int& place = group->ranks[static_cast<std::size_t>(rank)];
  if (place != -1 || static_cast<int>(group->ranks.size()) != count) violate("ranks join once");
  place = r;
  if (++group->joined == count) group->ready_at = after(delays.init);
  *comm = reinterpret_cast<trainer::nccl::Comm>(make_comm(group, rank, r));
  return Result::InProgress;
}

bool EmulatedNccl::World::may_call(const EmulatedComm& comm) {
  if (comm.is_gone) violate("a communicator is called after its end");
  if (!comm.is_gone && comm.state != State::Ready) violate("a communicator in progress is called");
  return violations.empty();
}

Result EmulatedNccl::World::split(EmulatedComm* comm, int color, int key,
                                  trainer::nccl::Comm* child) {
  if (!may_call(*comm)) return Result::InternalError;
  if (comm->under_way > 0) violate("a communicator with launches under way is split");
  Group& group = *comm->group;
  if (group.splits.size() <= comm->splits) group.splits.resize(comm->splits + 1);
  Group::Split& split = group.splits[comm->splits];
  split.wishes[comm->rank] = {color, key};
  if (split.wishes.size() == group.ranks.size()) split_parts(group, &split);
  comm->child = child;
  comm->state = State::Splitting;
  return Result::InProgress;
}

void EmulatedNccl::World::split_parts(const Group& parent, Group::Split* split) {
  std::map<int, std::set<std::pair<int, int>>> parts;  // color → key, rank
  for (const auto& [rank, wish] : split->wishes) parts[wish.first].insert({wish.second, rank});
  parts.erase(trainer::nccl::kNoColor);
  for (const auto& [color, members] : parts) {
    auto group = std::make_shared<Group>();
    for (const auto& [key, rank] : members) {
      group->ranks.push_back(parent.ranks[static_cast<std::size_t>(rank)]);
    }
    group->joined = static_cast<int>(members.size());
    group->ready_at = after(delays.init);
    split->parts[color] = std::move(group);
  }
  split->ready_at = after(delays.init);
}

Result EmulatedNccl::World::finalize(EmulatedComm* comm) {
  if (!may_call(*comm)) return Result::InternalError;
  if (comm->is_finalized) violate("a communicator is finalized twice");
  comm->is_finalized = true;
  ++comm->group->finalized;
  comm->state = State::Finalizing;
  return Result::InProgress;
}

Result EmulatedNccl::World::destroy(EmulatedComm* comm) {
  if (!may_call(*comm)) return Result::InternalError;
  if (!comm->is_finalized) violate("a communicator is destroyed before it is finalized");
  comm->is_gone = true;
  return Result::Success;
}

// Returns when no launch touches memory any more.
Result EmulatedNccl::World::abort(EmulatedComm* comm) {
  if (comm->is_gone) violate("a communicator is aborted after its end");
  comm->is_gone = true;
  comm->group->is_broken = true;
  comm->launch.clear();
  changed.notify_all();
  return Result::Success;
}

Result EmulatedNccl::World::progress(EmulatedComm* comm) {
  if (comm->is_gone) violate("a communicator is asked after its end");
  if (!violations.empty()) return Result::InternalError;
  if (comm->error != Result::Success) return comm->error;
  const Time now = Clock::now();
  Group& group = *comm->group;
  const auto members = static_cast<int>(group.ranks.size());
  bool done = true;
  if (comm->state == State::Joining) done = group.joined == members && now >= group.ready_at;
  if (comm->state == State::Finalizing) done = comm->under_way == 0 && group.finalized == members;
  if (comm->state == State::Splitting) {
    Group::Split& split = group.splits[comm->splits];
    done = split.wishes.size() == group.ranks.size() && now >= split.ready_at;
    const bool is_left_out = split.wishes[comm->rank].first == trainer::nccl::kNoColor;
    if (done && is_left_out) ++comm->splits;
    if (done && !is_left_out) {
      const auto& part = split.parts[split.wishes[comm->rank].first];
      const auto at = std::find(part->ranks.begin(), part->ranks.end(), comm->world_rank);
      *comm->child = reinterpret_cast<trainer::nccl::Comm>(
          make_comm(part, static_cast<int>(at - part->ranks.begin()), comm->world_rank));
      ++comm->splits;
    }
  }
  if (comm->state == State::Launching && !(done = now >= comm->due)) return Result::InProgress;
  if (comm->state == State::Launching) {
    ++comm->under_way;
    comm->launch.front().stream->enqueue(
        [this, comm, ops = std::move(comm->launch)] { run(comm, ops); });
    comm->launch.clear();
  }
  if (!done) return Result::InProgress;
  comm->state = State::Ready;
  return Result::Success;
}

Result EmulatedNccl::World::call(const Op& op) {
  if (!may_call(*op.comm)) return Result::InternalError;
  check_memory(op);
  EmulatedRank& mine = rank(op.comm->world_rank);
  if (mine.open_groups == 0) return start({op});
  mine.grouped.push_back(op);
  return Result::Success;
}

Result EmulatedNccl::World::group_end(int r) {
  EmulatedRank& mine = rank(r);
  if (mine.open_groups-- != 1) violate("groups are ended as often as they are started");
  if (mine.grouped.empty()) return Result::Success;
  return start(std::exchange(mine.grouped, {}));
}

Result EmulatedNccl::World::start(std::vector<Op> ops) {
  EmulatedComm* comm = ops.front().comm;
  for (const Op& op : ops) {
    if (op.comm != comm || op.stream != ops.front().stream) violate("a group has one stream");
  }
  comm->launch = std::move(ops);
  comm->due = after(delays.launch);
  comm->state = State::Launching;
  return Result::InProgress;
}

void EmulatedNccl::World::check_memory(const Op& op) {
  const auto is_lent = [&](const float* begin, std::int64_t count) {
    const auto& lent = rank(op.comm->world_rank).lent;
    return std::any_of(lent.begin(), lent.end(), [&](const auto& piece) {
      return begin >= piece.first && begin + count <= piece.second;
    });
  };
  if (op.count <= 0) violate("empty calls are left out");
  if (op.from != nullptr && !is_lent(op.from, elements_from(op))) violate("reads outside");
  if (op.to != nullptr && !is_lent(op.to, elements_to(op))) violate("writes outside");
}

bool EmulatedNccl::World::is_stuck(const EmulatedComm& comm) const {
  return comm.group->is_broken ||
         std::any_of(comm.group->ranks.begin(), comm.group->ranks.end(),
                     [&](int r) { return ranks[static_cast<std::size_t>(r)]->is_broken; });
}

void EmulatedNccl::World::run(EmulatedComm* comm, const std::vector<Op>& ops) {
  std::unique_lock lock(mutex);
  const auto is_over = [&] { return has_ended || comm->is_gone || !violations.empty(); };
  const Time begin = after(random_milliseconds(delays.random_start));
  changed.wait_until(lock, begin, is_over);
  std::vector<Slot*> slots;
  for (const Op& op : ops) {
    if (is_over()) break;
    slots.push_back(&comm->group->slots[name_of(op)]);
    give(op, slots.back());
  }
  for (const Op& op : ops) {
    if (!is_over() && op.to != nullptr) std::fill(op.to, op.to + elements_to(op), kUndefined);
  }
  const std::size_t members = comm->group->ranks.size();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = *slots[i];
    const int needed = ops[i].call == Call::Message ? 2 : static_cast<int>(members);
    if (slot.came == needed && !slot.ready && !is_stuck(*comm)) {
      slot.ready = true;
      slot.ready_at = after(random_milliseconds(delays.random_transfer));
      changed.notify_all();
    }
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    changed.wait(lock, [&] { return is_over() || slots[i]->ready; });
    if (!is_over()) changed.wait_until(lock, slots[i]->ready_at, is_over);
    if (!is_over()) take(ops[i], *slots[i]);
  }
  --comm->under_way;
  changed.notify_all();
}

void EmulatedNccl::World::give(const Op& op, Slot* slot) {
  if (!slot->first) slot->first = op;
  if (slot->first->call != op.call || slot->first->count != op.count ||
      slot->first->root != op.root) {
    violate("ranks call different things, or with different counts");
  }
  ++slot->came;
  if (op.from != nullptr) {
    slot->given[op.comm->rank].assign(op.from, op.from + elements_from(op));
  }
}

void EmulatedNccl::World::take(const Op& op, const Slot& slot) {
  if (op.to == nullptr) return;
  const std::int64_t count = elements_to(op);
  const bool sums =
      op.call == Call::AllReduce || op.call == Call::ReduceScatter || op.call == Call::Reduce;
  if (!sums) {
    for (const auto& [from, values] : slot.given) {
      const std::int64_t begin = op.call == Call::AllGather ? op.count * from : 0;
      if (op.call == Call::Broadcast && from != op.root) continue;
      if (count > 0) std::copy(values.begin(), values.end(), op.to + begin);
    }
    return;
  }
  const std::int64_t offset = op.call == Call::ReduceScatter ? op.count * op.comm->rank : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const auto& [from, values] : slot.given) {
      sum += values[static_cast<std::size_t>(offset + i)];
    }
    op.to[i] = sum;
  }
}

}  // namespace regatta::tests
