// EMULATED: what the ranks of emulated_nccl.h share. One lock for everything.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/trainer/nccl/emulated_nccl.h"
#include "tests/trainer/nccl/emulated_streams.h"

namespace regatta::tests {

using trainer::nccl::Result;
using Time = std::chrono::steady_clock::time_point;

enum class Call { AllReduce, ReduceScatter, AllGather, Broadcast, Reduce, Message };
struct EmulatedComm;

// One call of one rank. Of messages, `root` is the receiver, and `from` or `to` is null.
struct Op {
  Call call = Call::AllReduce;
  const float* from = nullptr;
  float* to = nullptr;
  std::int64_t count = 0;
  int root = 0;
  EmulatedComm* comm = nullptr;
  EmulatedStream* stream = nullptr;
  int sender = -1;
};

// One call of all ranks, or one message.
struct Slot {
  std::optional<Op> first;
  std::map<int, std::vector<float>> given;  // by rank in the communicator
  int came = 0;
  bool ready = false;
  Time ready_at;
};
// Sender, receiver, number; −1, −1, number for what all ranks do.
using SlotName = std::tuple<int, int, std::int64_t>;

struct Group {
  std::vector<int> ranks;  // of the world, by rank in the group; −1: not yet joined
  Time ready_at;           // once all have joined
  bool is_broken = false;  // somebody aborted
  int joined = 0;
  int finalized = 0;
  std::map<SlotName, Slot> slots;
  struct Split {
    std::map<int, std::pair<int, int>> wishes;  // color and key, by rank in the group
    std::map<int, std::shared_ptr<Group>> parts;
    Time ready_at;
  };
  std::vector<Split> splits;
};

struct EmulatedComm {
  enum class State { Joining, Splitting, Launching, Finalizing, Ready };
  std::shared_ptr<Group> group;
  int rank = 0;  // in the group
  int world_rank = 0;
  State state = State::Joining;
  Result error = Result::Success;
  bool is_gone = false;  // aborted or destroyed
  bool is_finalized = false;
  Time due;
  std::vector<Op> launch;
  int under_way = 0;  // launches on streams
  std::map<std::pair<int, int>, std::int64_t> numbers;
  trainer::nccl::Comm* child = nullptr;
  std::size_t splits = 0;
};

struct EmulatedRank {
  std::array<EmulatedStream, 4> device_streams;
  std::map<void*, std::unique_ptr<EmulatedStream>> streams, old_streams;
  std::map<void*, std::unique_ptr<EmulatedEvent>> events, old_events;
  std::map<std::string, int> calls;
  std::map<std::string, Result> faults;
  std::vector<std::pair<const float*, const float*>> lent;
  bool is_broken = false;
  int open_groups = 0;
  std::vector<Op> grouped;
};

struct EmulatedNccl::World {
  World(int count, const EmulatedDelays& chosen) : delays(chosen), random(chosen.seed) {
    for (int r = 0; r < count; ++r) ranks.push_back(std::make_unique<EmulatedRank>());
  }

  EmulatedRank& rank(int r) { return *ranks[static_cast<std::size_t>(r)]; }
  [[nodiscard]] Time after(double milliseconds) const;
  [[nodiscard]] double random_milliseconds(double most);
  void violate(const std::string& what);

  Result init(int r, trainer::nccl::Comm* comm, int count, int id, int rank);
  Result split(EmulatedComm* comm, int color, int key, trainer::nccl::Comm* child);
  Result finalize(EmulatedComm* comm);
  Result destroy(EmulatedComm* comm);
  Result abort(EmulatedComm* comm);
  // What comm_get_async_error shows; whatever was in progress goes on here.
  Result progress(EmulatedComm* comm);
  Result call(const Op& op);
  Result group_end(int r);

  std::mutex mutex;
  std::condition_variable changed;
  EmulatedDelays delays;
  std::mt19937 random;
  bool has_ended = false;
  std::vector<std::string> violations;
  std::map<int, std::shared_ptr<Group>> groups;  // by unique id
  int last_id = 0;
  std::deque<EmulatedComm> comms;                    // kept, so that late calls are noticed
  std::vector<std::unique_ptr<EmulatedRank>> ranks;  // their streams use all of the above

 private:
  EmulatedComm* make_comm(std::shared_ptr<Group> group, int rank, int world_rank);
  [[nodiscard]] bool may_call(const EmulatedComm& comm);
  Result start(std::vector<Op> ops);
  void check_memory(const Op& op);
  void split_parts(const Group& parent, Group::Split* split);
  // On a stream's thread.
  void run(EmulatedComm* comm, const std::vector<Op>& ops);
  void give(const Op& op, Slot* slot);
  void take(const Op& op, const Slot& slot);
  [[nodiscard]] bool is_stuck(const EmulatedComm& comm) const;
};

}  // namespace regatta::tests
