#include "tests/trainer/nccl/emulated_nccl.h"

#include <cstring>
#include <utility>

#include "tests/trainer/nccl/emulated_world.h"

namespace regatta::tests {
namespace {

using trainer::nccl::Comm;
using trainer::nccl::NativeEvent;
using trainer::nccl::NativeStream;
using trainer::nccl::Table;
using trainer::nccl::UniqueId;

EmulatedComm* raw(Comm comm) { return reinterpret_cast<EmulatedComm*>(comm); }
EmulatedStream* raw(NativeStream stream) { return reinterpret_cast<EmulatedStream*>(stream); }
EmulatedEvent* raw(NativeEvent event) { return reinterpret_cast<EmulatedEvent*>(event); }

// Of each thread, as CUDA's current device.
thread_local int chosen_gpu = -1;

// A table's functions for one rank: counted, failing when a test asks for it, one at a time.
class Maker {
 public:
  Maker(EmulatedNccl::World& world, int rank) : world_(world), rank_(rank) {}

  template <typename... Args, typename Body>
  std::function<Result(Args...)> counted(const char* name, Body body) {
    return [&world = world_, r = rank_, name, body](Args... args) -> Result {
      const std::scoped_lock lock(world.mutex);
      EmulatedRank& mine = world.rank(r);
      ++mine.calls[name];
      const auto fault = mine.faults.find(name);
      if (fault == mine.faults.end()) return body(world, r, args...);
      const Result error = fault->second;
      mine.faults.erase(fault);
      return error;
    };
  }
  [[nodiscard]] Table make();

 private:
  void add_communicators(Table* table);
  void add_collectives(Table* table);
  void add_streams(Table* table);

  EmulatedNccl::World& world_;
  int rank_;
};

using World = EmulatedNccl::World;

void check_gpu(World& world, int rank) {
  if (chosen_gpu != rank) world.violate("a call without its GPU chosen");
}

void Maker::add_communicators(Table* table) {
  table->get_unique_id = counted<UniqueId*>("get_unique_id", [](World& world, int, UniqueId* id) {
    const int number = ++world.last_id;
    std::memcpy(id->data(), &number, sizeof number);
    return Result::Success;
  });
  table->comm_init_rank_config = counted<Comm*, int, const UniqueId&, int>(
      "comm_init_rank_config",
      [](World& world, int r, Comm* comm, int ranks, const UniqueId& id, int rank) {
        check_gpu(world, r);
        int number = 0;
        std::memcpy(&number, id.data(), sizeof number);
        return world.init(r, comm, ranks, number, rank);
      });
  table->comm_split = counted<Comm, int, int, Comm*>(
      "comm_split", [](World& world, int, Comm comm, int color, int key, Comm* child) {
        return world.split(raw(comm), color, key, child);
      });
  table->comm_get_async_error = counted<Comm, Result*>(
      "comm_get_async_error", [](World& world, int, Comm comm, Result* state) {
        if (comm == nullptr) return Result::InvalidArgument;
        *state = world.progress(raw(comm));
        return Result::Success;
      });
  table->comm_finalize = counted<Comm>(
      "comm_finalize", [](World& world, int, Comm comm) { return world.finalize(raw(comm)); });
  table->comm_destroy = counted<Comm>(
      "comm_destroy", [](World& world, int, Comm comm) { return world.destroy(raw(comm)); });
  table->comm_abort = counted<Comm>(
      "comm_abort", [](World& world, int, Comm comm) { return world.abort(raw(comm)); });
  table->get_error_string = [](Comm, Result result) {
    return "emulated error\n" + std::to_string(static_cast<int>(result));
  };
}

void Maker::add_collectives(Table* table) {
  table->group_start = counted<>("group_start", [](World& world, int r) {
    ++world.rank(r).open_groups;
    return Result::Success;
  });
  table->group_end = counted<>("group_end", [](World& world, int r) { return world.group_end(r); });
  table->all_reduce = counted<float*, std::int64_t, Comm, NativeStream>(
      "all_reduce", [](World& world, int, float* x, std::int64_t n, Comm comm, NativeStream s) {
        return world.call({Call::AllReduce, x, x, n, 0, raw(comm), raw(s)});
      });
  const auto scattered = [&](const char* name, Call kind) {
    return counted<const float*, float*, std::int64_t, Comm, NativeStream>(
        name, [kind](World& world, int, const float* from, float* to, std::int64_t n, Comm comm,
                     NativeStream s) {
          return world.call({kind, from, to, n, 0, raw(comm), raw(s)});
        });
  };
  table->reduce_scatter = scattered("reduce_scatter", Call::ReduceScatter);
  table->all_gather = scattered("all_gather", Call::AllGather);
  const auto rooted = [&](const char* name, Call kind) {
    return counted<float*, std::int64_t, int, Comm, NativeStream>(
        name,
        [kind](World& world, int, float* x, std::int64_t n, int root, Comm comm, NativeStream s) {
          return world.call({kind, x, x, n, root, raw(comm), raw(s)});
        });
  };
  table->broadcast = rooted("broadcast", Call::Broadcast);
  table->reduce = rooted("reduce", Call::Reduce);
  table->send = counted<const float*, std::int64_t, int, Comm, NativeStream>(
      "send",
      [](World& world, int, const float* x, std::int64_t n, int to, Comm comm, NativeStream s) {
        return world.call({Call::Message, x, nullptr, n, to, raw(comm), raw(s), raw(comm)->rank});
      });
  table->receive = counted<float*, std::int64_t, int, Comm, NativeStream>(
      "receive",
      [](World& world, int, float* x, std::int64_t n, int from, Comm comm, NativeStream s) {
        return world.call({Call::Message, nullptr, x, n, raw(comm)->rank, raw(comm), raw(s), from});
      });
}

void Maker::add_streams(Table* table) {
  World& world = world_;
  const int r = rank_;
  table->enter = [r] { chosen_gpu = r; };
  table->native_stream = [&world, r](trainer::device::Stream stream) {
    return reinterpret_cast<NativeStream>(
        &world.rank(r).device_streams.at(static_cast<std::size_t>(stream)));
  };
  table->stream_create = [&world, r] {
    const std::scoped_lock lock(world.mutex);
    check_gpu(world, r);
    auto stream = std::make_unique<EmulatedStream>();
    EmulatedStream* address = stream.get();
    world.rank(r).streams[address] = std::move(stream);
    return reinterpret_cast<NativeStream>(address);
  };
  // What it has runs on, as with CUDA.
  table->stream_destroy = [&world, r](NativeStream stream) {
    const std::scoped_lock lock(world.mutex);
    EmulatedRank& mine = world.rank(r);
    if (mine.streams.count(raw(stream)) == 0) return world.violate("a stream is destroyed twice");
    mine.old_streams.insert(mine.streams.extract(raw(stream)));
  };
  table->event_create = [&world, r] {
    const std::scoped_lock lock(world.mutex);
    check_gpu(world, r);
    auto event = std::make_unique<EmulatedEvent>();
    EmulatedEvent* address = event.get();
    world.rank(r).events[address] = std::move(event);
    return reinterpret_cast<NativeEvent>(address);
  };
  table->event_destroy = [&world, r](NativeEvent event) {
    const std::scoped_lock lock(world.mutex);
    EmulatedRank& mine = world.rank(r);
    if (mine.events.count(raw(event)) == 0) return world.violate("an event is destroyed twice");
    mine.old_events.insert(mine.events.extract(raw(event)));
  };
  table->stream_wait_event = [&world, r](NativeStream stream, NativeEvent event) {
    const std::scoped_lock lock(world.mutex);
    check_gpu(world, r);
    raw(stream)->wait(raw(event));
  };
  table->event_record = [&world, r](NativeEvent event, NativeStream stream) {
    const std::scoped_lock lock(world.mutex);
    check_gpu(world, r);
    raw(stream)->record(raw(event));
  };
  table->event_is_done = [](NativeEvent event) {
    const std::scoped_lock lock(raw(event)->mutex);
    if (raw(event)->last == nullptr) return true;
    const std::scoped_lock inner(raw(event)->last->mutex);
    return raw(event)->last->is_done;
  };
  table->event_elapsed_seconds = [](NativeEvent from, NativeEvent to) {
    const std::chrono::duration<double> elapsed = raw(to)->last->at - raw(from)->last->at;
    return elapsed.count();
  };
}

Table Maker::make() {
  Table table;
  table.version = 22809;
  add_communicators(&table);
  add_collectives(&table);
  add_streams(&table);
  return table;
}

}  // namespace

EmulatedNccl::EmulatedNccl(int ranks, const EmulatedDelays& delays)
    : world_(std::make_unique<World>(ranks, delays)) {}

EmulatedNccl::~EmulatedNccl() {
  {
    const std::scoped_lock lock(world_->mutex);
    world_->has_ended = true;
  }
  world_->changed.notify_all();
}

trainer::nccl::Table EmulatedNccl::table(int rank) { return Maker(*world_, rank).make(); }

void EmulatedNccl::enqueue(int rank, trainer::device::Stream stream, std::function<void()> work) {
  world_->rank(rank).device_streams.at(static_cast<std::size_t>(stream)).enqueue(std::move(work));
}

void EmulatedNccl::synchronize(int rank, trainer::device::Stream stream) {
  world_->rank(rank).device_streams.at(static_cast<std::size_t>(stream)).synchronize();
}

void EmulatedNccl::lend(int rank, const float* memory, std::int64_t count) {
  const std::scoped_lock lock(world_->mutex);
  world_->rank(rank).lent.emplace_back(memory, memory + count);
}

void EmulatedNccl::break_links(int rank, Result error) {
  const std::scoped_lock lock(world_->mutex);
  world_->rank(rank).is_broken = true;
  for (EmulatedComm& comm : world_->comms) {
    if (comm.world_rank == rank && !comm.is_gone) comm.error = error;
  }
}

void EmulatedNccl::fail_next(int rank, const std::string& call, Result error) {
  const std::scoped_lock lock(world_->mutex);
  world_->rank(rank).faults[call] = error;
}

int EmulatedNccl::calls(int rank, const std::string& call) {
  const std::scoped_lock lock(world_->mutex);
  return world_->rank(rank).calls[call];
}

int EmulatedNccl::open_handles(int rank) {
  const std::scoped_lock lock(world_->mutex);
  const EmulatedRank& mine = world_->rank(rank);
  std::size_t open = mine.streams.size() + mine.events.size();
  for (const EmulatedComm& comm : world_->comms) {
    if (comm.world_rank == rank && !comm.is_gone) ++open;
  }
  return static_cast<int>(open);
}

std::vector<std::string> EmulatedNccl::violations() {
  const std::scoped_lock lock(world_->mutex);
  return world_->violations;
}

}  // namespace regatta::tests
