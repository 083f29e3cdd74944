#include "trainer/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "trainer/nccl/done_times.h"
#include "trainer/nccl/session.h"
#include "trainer/ranks/rank_groups.h"

namespace regatta::trainer::nccl {
namespace {

using nccl::Comm;
using nccl::NativeStream;
using nccl::Result;

constexpr auto kDrainPause = std::chrono::microseconds(100);

// Host values of ranks whose collectives are alive: what a stream carries after an abort must not
// become a decision.
class GuardedHost final : public ranks::HostCollectives {
 public:
  GuardedHost(ranks::HostCollectives& values, nccl::Session& session)
      : values_(values), session_(session) {}
  [[nodiscard]] int rank() const override { return values_.rank(); }
  [[nodiscard]] int ranks() const override { return values_.ranks(); }
  void all_reduce_sum(double* values, int count) override {
    session_.check_alive();
    values_.all_reduce_sum(values, count);
  }
  void broadcast(void* bytes, std::int64_t count, int root) override {
    session_.check_alive();
    values_.broadcast(bytes, count, root);
  }
  void all_gather(const void* bytes, std::int64_t count, void* all) override {
    session_.check_alive();
    values_.all_gather(bytes, count, all);
  }
  [[nodiscard]] ranks::Parcels all_to_all(const ranks::Parcels& to) override {
    session_.check_alive();
    return values_.all_to_all(to);
  }
  void barrier() override {
    session_.check_alive();
    values_.barrier();
  }

 private:
  ranks::HostCollectives& values_;
  nccl::Session& session_;
};

// What the communicator of all ranks shares with its groups. Collectives of all of them are on one
// stream, so that no two of NCCL's kernels wait for each other's multiprocessors.
struct Shared {
  Shared(nccl::Table functions, ranks::HostCollectives& host, const NcclOptions& chosen)
      : table(std::move(functions)),
        options(chosen),
        session(table, host, base::system_clock(), options) {}

  const nccl::Table table;
  const NcclOptions options;
  const bool entered = (table.enter(), true);  // before the streams
  nccl::TableStream stream{table};
  std::list<nccl::TableStream> peer_streams;  // of all, then of groups
  nccl::TableEvent before{table};  // whoever waits for it waits for its last place before that
  nccl::DoneTimes times{table, base::system_clock()};
  ranks::Pending last = 0;
  nccl::Session session;
};

// Collectives of all ranks, or of a group.
class NcclRanks : public ranks::Communicator {
 public:
  // ranks_per_node: 0: flat. `shared` outlives this.
  NcclRanks(Shared& shared, NcclHost host, const nccl::CommSet& comms, int ranks_per_node)
      : shared_(shared),
        host_(std::move(host)),
        comms_(comms),
        ranks_per_node_(ranks_per_node),
        rank_(host_.values->rank()),
        ranks_(host_.values->ranks()) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return ranks_; }
  [[nodiscard]] int part() const override { return rank_ % parts(); }
  [[nodiscard]] int parts() const override {
    return ranks_per_node_ > 0 ? ranks_per_node_ : ranks_;
  }

  [[nodiscard]] ranks::Pending all_reduce_sum(device::Stream stream, device::View x) override {
    if (!begin(stream, stream_.get(), x)) return 0;
    const char* what = "an all-reduce";
    if (comms_.cross == nullptr) {
      all_reduce(comms_.world, what, x);
    } else {
      reduce_scatter(what, x);
      all_reduce(comms_.cross, what, own_part(x));
      gather(what, x);
    }
    return record();
  }
  [[nodiscard]] ranks::Pending reduce_scatter_sum(device::Stream stream, device::View x) override {
    if (!begin(stream, stream_.get(), x)) return 0;
    const char* what = "a reduce-scatter";
    reduce_scatter(what, x);
    if (comms_.cross != nullptr) all_reduce(comms_.cross, what, own_part(x));
    return record();
  }
  // What ranks of one place hold is the same, so it need not leave the node.
  [[nodiscard]] ranks::Pending all_gather(device::Stream stream, device::View x) override {
    if (!begin(stream, stream_.get(), x)) return 0;
    gather("an all-gather", x);
    return record();
  }
  [[nodiscard]] ranks::Pending broadcast(device::Stream stream, device::View x, int root) override {
    base::check(root >= 0 && root < ranks_, "the root is a rank");
    if (!begin(stream, stream_.get(), x)) return 0;
    session_.run(comms_.world, "a broadcast", [&] {
      return table_.broadcast(x.floats(), x.size, root, comms_.world, stream_.get());
    });
    return record();
  }
  [[nodiscard]] ranks::Pending send(device::Stream stream, device::View x, int to) override {
    return note(stream, {true, x, to, 0});
  }
  [[nodiscard]] ranks::Pending receive(device::Stream stream, device::View x, int from) override {
    return note(stream, {false, x, from, 0});
  }

  void finish(device::Stream stream, ranks::Pending pending) override {
    session_.check_alive();
    base::check(pending >= 0 && pending <= shared_.last,
                "a collective is begun before it is finished");
    table_.enter();
    const bool is_noted = std::any_of(noted_.begin(), noted_.end(), [&](const Message& message) {
      return message.number == pending;
    });
    if (is_noted) exchange();
    times_.wait(table_.native_stream(stream), pending);
  }
  [[nodiscard]] double done_at(ranks::Pending pending) override {
    session_.check_alive();
    if (pending == 0) return 0;
    table_.enter();
    return times_.at(pending);
  }
  void abandon() noexcept override { session_.give_up(); }
  [[nodiscard]] std::string library_version() const override {
    const int version = table_.version;
    return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }

  [[nodiscard]] ranks::HostCollectives& host() override { return guarded_; }
  [[nodiscard]] std::unique_ptr<ranks::HostCollectives> open_channel() override {
    session_.check_alive();
    return host_.open_channel();
  }
  [[nodiscard]] std::unique_ptr<ranks::Communicator> open_group(
      const std::vector<int>& members) override;

 private:
  struct Message {
    bool is_sent = false;
    device::View x;
    int other = 0;
    ranks::Pending number = 0;
  };

  // `own` waits for what `stream` has so far. False: there is nothing to move.
  [[nodiscard]] bool begin(device::Stream stream, NativeStream own, device::View x) {
    base::check(x.dtype == device::Dtype::Float32, "collectives are of float32");
    session_.check_alive();
    if (x.size == 0) return false;
    table_.enter();
    table_.event_record(shared_.before.get(), table_.native_stream(stream));
    table_.stream_wait_event(own, shared_.before.get());
    return true;
  }
  [[nodiscard]] ranks::Pending record() {
    times_.record(++shared_.last, stream_.get());
    return shared_.last;
  }

  [[nodiscard]] device::View own_part(device::View x) const {
    return x.slice(part_begin(x.size), part_count(x.size));
  }
  // Whether NCCL's own reduce-scatter and all-gather, which know equal parts only, stay inside x.
  [[nodiscard]] bool has_equal_parts(device::View x) const {
    return part_size(x.size) * parts() == x.size;
  }

  // May be of an empty part.
  void all_reduce(Comm comm, const char* what, device::View x) {
    if (x.size == 0) return;
    session_.run(comm, what,
                 [&] { return table_.all_reduce(x.floats(), x.size, comm, stream_.get()); });
  }
  void reduce_scatter(const char* what, device::View x) {
    const Comm comm = comms_.node;
    if (has_equal_parts(x)) {
      session_.run(comm, what, [&] {
        return table_.reduce_scatter(x.floats(), own_part(x).floats(), own_part(x).size, comm,
                                     stream_.get());
      });
    } else {
      for_each_part(what, x, table_.reduce);
    }
  }
  void gather(const char* what, device::View x) {
    const Comm comm = comms_.node;
    if (has_equal_parts(x)) {
      session_.run(comm, what, [&] {
        return table_.all_gather(own_part(x).floats(), x.floats(), own_part(x).size, comm,
                                 stream_.get());
      });
    } else {
      for_each_part(what, x, table_.broadcast);
    }
  }
  // One launch of a collective for each part that is not empty, its root the part's holder.
  template <typename Rooted>
  void for_each_part(const char* what, device::View x, const Rooted& rooted) {
    const std::int64_t part = part_size(x.size);
    session_.run_group(comms_.node, what, [&] {
      for (int root = 0; part * root < x.size; ++root) {
        const Result result = rooted(x.floats() + part * root, std::min(part, x.size - part * root),
                                     root, comms_.node, stream_.get());
        if (result != Result::Success) return result;
      }
      return Result::Success;
    });
  }

  [[nodiscard]] ranks::Pending note(device::Stream stream, Message message) {
    base::check(message.other >= 0 && message.other < ranks_ && message.other != rank_,
                "messages go to and come from another rank");
    if (!begin(stream, peer_stream_.get(), message.x)) return 0;
    message.number = ++shared_.last;
    noted_.push_back(message);
    return shared_.last;
  }
  // Sends and receives of one launch do not wait for one another.
  void exchange() {
    const Comm comm = comms_.peers;
    session_.run_group(comm, "sending and receiving", [&] {
      for (const Message& message : noted_) {
        const device::View& x = message.x;
        const Result result =
            message.is_sent
                ? table_.send(x.floats(), x.size, message.other, comm, peer_stream_.get())
                : table_.receive(x.floats(), x.size, message.other, comm, peer_stream_.get());
        if (result != Result::Success) return result;
      }
      return Result::Success;
    });
    for (const Message& message : noted_) times_.record(message.number, peer_stream_.get());
    noted_.clear();
  }

  // NCCL splits only what has nothing under way.
  void drain();

  Shared& shared_;
  const nccl::Table& table_ = shared_.table;
  nccl::Session& session_ = shared_.session;
  nccl::TableStream& stream_ = shared_.stream;
  nccl::DoneTimes& times_ = shared_.times;
  const NcclHost host_;
  const nccl::CommSet comms_;
  const int ranks_per_node_;
  const int rank_;
  const int ranks_;
  nccl::TableStream& peer_stream_ = shared_.peer_streams.emplace_back(table_);
  std::vector<Message> noted_;
  GuardedHost guarded_{*host_.values, session_};
};

void NcclRanks::drain() {
  table_.enter();
  const nccl::TableEvent reached(table_);
  table_.event_record(reached.get(), stream_.get());
  const base::Clock& clock = base::system_clock();
  const double deadline = clock.monotonic_seconds() + shared_.options.init_seconds;
  while (!table_.event_is_done(reached.get())) {
    session_.check_alive();
    if (clock.monotonic_seconds() > deadline) {
      throw base::Error(base::Code::Retry,
                        "collectives did not end in time to make groups; a rank was lost");
    }
    std::this_thread::sleep_for(kDrainPause);
  }
  session_.check_alive();  // what an abort has ended did not end well
}

std::unique_ptr<ranks::Communicator> NcclRanks::open_group(const std::vector<int>& members) {
  base::check(host_.open_group != nullptr, "host values of groups have a way");
  const auto place = ranks::agree_on_groups(guarded_, members);
  const bool is_alone = !place || place->ranks == 1;
  NcclHost host = host_.open_group(members);
  drain();
  const nccl::CommSet comms = session_.open_group(
      comms_.world, is_alone ? nccl::kNoColor : place->first, is_alone ? 0 : place->rank);
  if (!place) return nullptr;
  if (is_alone) return std::make_unique<ranks::SingleCommunicator>();
  return std::make_unique<NcclRanks>(shared_, std::move(host), comms, 0);
}

// Goes after what uses it, as the first base.
struct OwnedShared {
  Shared owned;
};

// Of all ranks.
class NcclCommunicator final : private OwnedShared, public NcclRanks {
 public:
  NcclCommunicator(nccl::Table table, NcclHost host, const NcclOptions& options)
      : OwnedShared{Shared(std::move(table), *host.values, options)},
        NcclRanks(owned, std::move(host), owned.session.all(), options.ranks_per_node) {}
};

}  // namespace

std::unique_ptr<ranks::Communicator> make_nccl_communicator(nccl::Table table, NcclHost host,
                                                            const NcclOptions& options) {
  const int per_node = options.ranks_per_node;
  if (per_node < 0 || (per_node > 0 && host.values->ranks() % per_node != 0)) {
    throw base::Error(base::Code::User, std::to_string(host.values->ranks()) +
                                            " ranks are not on nodes of " +
                                            std::to_string(per_node) +
                                            " each; ask for equal numbers of ranks on all nodes");
  }
  if (options.before_first) options.before_first(*host.values, table.version);
  return std::make_unique<NcclCommunicator>(std::move(table), std::move(host), options);
}

}  // namespace regatta::trainer::nccl
