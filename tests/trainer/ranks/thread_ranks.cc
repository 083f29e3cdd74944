#include "tests/trainer/ranks/thread_ranks.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "trainer/ranks/rank_groups.h"

namespace regatta::tests {

using trainer::device::Stream;
using trainer::device::View;
using trainer::ranks::Communicator;
using trainer::ranks::HostCollectives;
using trainer::ranks::Parcels;
using trainer::ranks::Pending;

namespace {

// Ranks that wait longer than this for each other wait for ever.
constexpr auto kLongestWait = std::chrono::seconds(200);
constexpr std::size_t kRememberedTimes = 4096;  // trainer/ranks/communicator.h: done_at

std::vector<std::byte> bytes_of(const void* data, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  if (count != 0) std::memcpy(bytes.data(), data, bytes.size());
  return bytes;
}

// What every rank said at one call. The call is the same everywhere.
struct Meeting {
  std::string call;
  std::vector<Parcels> said;  // by rank
  std::vector<bool> is_there;
  int count = 0;
  int left = 0;  // ranks that have heard all
  double complete_at = 0;
};
// The meetings of one sequence of calls, by the calls' number.
using Meetings = std::map<std::int64_t, Meeting>;

}  // namespace

// What the ranks share. Sequence 0 is the collectives of views, c + 1 host channel c.
struct ThreadRanks::World {
  World(int rank_count, int node_rank_count)
      : ranks(rank_count), node_ranks(node_rank_count), gone(as_size(rank_count), false) {}

  static std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

  // Rank `rank` makes call `number` of a sequence.
  void say(std::size_t sequence, std::int64_t number, int rank, const std::string& call,
           Parcels parcels) {
    const std::scoped_lock lock(mutex);
    Meeting& meeting = sequences[sequence][number];
    if (meeting.count == 0) {
      meeting.call = call;
      meeting.said.resize(as_size(ranks));
      meeting.is_there.assign(as_size(ranks), false);
    }
    if (meeting.call != call) {
      throw base::Error(base::Code::Developer, "rank " + std::to_string(rank) + " calls " + call +
                                                   " where another calls " + meeting.call);
    }
    meeting.said[as_size(rank)] = std::move(parcels);
    meeting.is_there[as_size(rank)] = true;
    if (++meeting.count == ranks) meeting.complete_at = base::system_clock().monotonic_seconds();
    changed.notify_all();
  }
  // Waits for all ranks; `use` gets what they said, and when the last did. Once for each rank.
  void hear(std::size_t sequence, std::int64_t number,
            const std::function<void(const std::vector<Parcels>&, double at)>& use) {
    std::unique_lock lock(mutex);
    Meeting& meeting = sequences[sequence].at(number);  // a map's elements stay where they are
    wait(lock, meeting.call, [&] {
      if (meeting.count == ranks) return true;
      for (std::size_t r = 0; r < gone.size(); ++r) {
        if (!meeting.is_there[r] && gone[r]) lose(static_cast<int>(r), meeting.call);
      }
      return false;
    });
    lock.unlock();
    use(meeting.said, meeting.complete_at);
    lock.lock();
    if (++meeting.left == ranks) sequences[sequence].erase(number);
  }

  void send(int from, int to, std::vector<std::byte> bytes) {
    const std::scoped_lock lock(mutex);
    letters[{from, to}].push_back(std::move(bytes));
    changed.notify_all();
  }
  // The number-th letter from `from` to `to`, counted from 0.
  std::vector<std::byte> receive(int from, int to, std::size_t number) {
    std::unique_lock lock(mutex);
    std::deque<std::vector<std::byte>>& queue = letters[{from, to}];
    wait(lock, "receive", [&] {
      if (queue.size() > number) return true;
      if (gone[as_size(from)]) lose(from, "receive");
      return false;
    });
    return std::move(queue[number]);
  }

  // Everywhere: who leaves a group leaves what it is of.
  void leave(int rank) {
    if (parent != nullptr) return parent->leave(members[as_size(rank)]);
    lose_in_groups(rank);
  }
  void lose_in_groups(int rank) {
    const std::scoped_lock lock(mutex);  // parents before their groups
    gone[as_size(rank)] = true;
    changed.notify_all();
    for (const auto& [name, group] : groups) {
      const auto at = std::find(group->members.begin(), group->members.end(), rank);
      if (at != group->members.end()) {
        group->lose_in_groups(static_cast<int>(at - group->members.begin()));
      }
    }
  }
  // What the members of the number-th group share; made by who comes first.
  World& group(std::int64_t number, const std::vector<int>& of) {
    const std::scoped_lock lock(mutex);
    std::unique_ptr<World>& made = groups[{number, of[0]}];
    if (made == nullptr) {
      made = std::make_unique<World>(static_cast<int>(of.size()), 0);
      made->parent = this;
      made->members = of;
      for (std::size_t r = 0; r < of.size(); ++r) made->gone[r] = gone[as_size(of[r])];
    }
    return *made;
  }

  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, const std::string& call, Ready ready) {
    if (!changed.wait_for(lock, kLongestWait, ready)) {
      throw base::Error(base::Code::Developer, "the ranks do not meet at " + call);
    }
  }
  [[noreturn]] static void lose(int rank, const std::string& call) {
    throw base::Error(base::Code::Retry,
                      "rank " + std::to_string(rank) + " was lost before " + call);
  }

  const int ranks;
  const int node_ranks;  // 0: flat
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::size_t, Meetings> sequences;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters;
  std::vector<bool> gone;
  World* parent = nullptr;   // of a group
  std::vector<int> members;  // of a group, in the parent
  std::map<std::pair<std::int64_t, int>, std::unique_ptr<World>> groups;
};

namespace {

using World = ThreadRanks::World;

class ThreadHost final : public HostCollectives {
 public:
  ThreadHost(World& world, int rank, std::size_t channel)
      : world_(world), rank_(rank), sequence_(channel + 1) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return world_.ranks; }

  void all_reduce_sum(double* values, int count) override {
    const std::int64_t bytes = std::int64_t{count} * std::int64_t{sizeof(double)};
    const Parcels all = to_all("a sum of " + std::to_string(count), bytes_of(values, bytes));
    std::fill(values, values + count, 0.0);
    for (const std::vector<std::byte>& one : all) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        double value = 0;
        std::memcpy(&value, &one[i * sizeof value], sizeof value);
        values[i] += value;
      }
    }
  }
  void broadcast(void* bytes, std::int64_t count, int root) override {
    base::check(root >= 0 && root < ranks(), "the root is a rank");
    const Parcels all =
        to_all("a broadcast of " + std::to_string(count) + " bytes from " + std::to_string(root),
               rank_ == root ? bytes_of(bytes, count) : std::vector<std::byte>{});
    if (count != 0) {
      std::memcpy(bytes, all[static_cast<std::size_t>(root)].data(),
                  static_cast<std::size_t>(count));
    }
  }
  void all_gather(const void* bytes, std::int64_t count, void* all) override {
    auto* to = static_cast<std::byte*>(all);
    const Parcels parcels =
        to_all("a gather of " + std::to_string(count) + " bytes", bytes_of(bytes, count));
    for (const std::vector<std::byte>& one : parcels) to = std::copy(one.begin(), one.end(), to);
  }
  [[nodiscard]] Parcels all_to_all(const Parcels& to) override {
    base::check(to.size() == static_cast<std::size_t>(ranks()), "there is a parcel for every rank");
    Parcels mine;
    meet("an exchange of parcels", to, [&](const std::vector<Parcels>& said, double) {
      for (const Parcels& one : said) mine.push_back(one[static_cast<std::size_t>(rank_)]);
    });
    return mine;
  }
  void barrier() override { to_all("a barrier", {}); }

 private:
  void meet(const std::string& call, Parcels parcels,
            const std::function<void(const std::vector<Parcels>&, double)>& use) {
    const std::int64_t number = next_++;
    world_.say(sequence_, number, rank_, call, std::move(parcels));
    world_.hear(sequence_, number, use);
  }
  // What every rank gave, in rank order.
  Parcels to_all(const std::string& call, std::vector<std::byte> bytes) {
    Parcels all;
    meet(call, {std::move(bytes)}, [&](const std::vector<Parcels>& said, double) {
      for (const Parcels& one : said) all.push_back(one[0]);
    });
    return all;
  }

  World& world_;
  const int rank_;
  const std::size_t sequence_;
  std::int64_t next_ = 0;
};

enum class Kind { AllReduce, ReduceScatter, AllGather, Broadcast, Send, Receive };
constexpr const char* kNames[] = {
    "all_reduce_sum", "reduce_scatter_sum", "all_gather", "broadcast", "send", "receive"};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(World& world, int rank) : world_(world), rank_(rank), host_(world, rank, 0) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return world_.ranks; }
  [[nodiscard]] int part() const override { return rank_ % parts(); }
  [[nodiscard]] int parts() const override {
    return world_.node_ranks == 0 ? world_.ranks : world_.node_ranks;
  }

  [[nodiscard]] Pending all_reduce_sum(Stream, View x) override {
    return meet(Kind::AllReduce, x, 0);
  }
  [[nodiscard]] Pending reduce_scatter_sum(Stream, View x) override {
    return meet(Kind::ReduceScatter, x, 0);
  }
  [[nodiscard]] Pending all_gather(Stream, View x) override { return meet(Kind::AllGather, x, 0); }
  [[nodiscard]] Pending broadcast(Stream, View x, int root) override {
    return meet(Kind::Broadcast, x, root);
  }
  [[nodiscard]] Pending send(Stream, View x, int to) override {
    const Pending pending = begin({Kind::Send, x, to, 0}, to);
    world_.send(rank_, to, bytes_of(x.data, x.bytes()));
    return pending;
  }
  [[nodiscard]] Pending receive(Stream, View x, int from) override {
    const std::int64_t number = received_[from]++;
    const Pending pending = begin({Kind::Receive, x, from, number}, from);
    poison(x);
    return pending;
  }
  void finish(Stream, Pending pending) override;
  [[nodiscard]] double done_at(Pending pending) override {
    base::check(done_.count(pending) != 0, "a collective is finished before its time is asked for");
    return done_.at(pending);
  }
  void abandon() noexcept override { world_.leave(rank_); }

  [[nodiscard]] HostCollectives& host() override { return host_; }
  [[nodiscard]] std::unique_ptr<HostCollectives> open_channel() override {
    return std::make_unique<ThreadHost>(world_, rank_, ++channels_);
  }
  [[nodiscard]] std::unique_ptr<Communicator> open_group(const std::vector<int>& members) override {
    const auto place = trainer::ranks::agree_on_groups(host_, members);
    const std::int64_t number = groups_++;
    if (!place) return nullptr;
    if (place->ranks == 1) return std::make_unique<trainer::ranks::SingleCommunicator>();
    return std::make_unique<ThreadCommunicator>(world_.group(number, members), place->rank);
  }

 private:
  struct Job {
    Kind kind = Kind::AllReduce;
    View x;
    int other = 0;            // root, receiver or sender
    std::int64_t number = 0;  // of the collective, or of the letter
  };

  static void poison(const View& x) {
    std::fill(x.floats(), x.floats() + x.size, std::numeric_limits<float>::quiet_NaN());
  }
  Pending begin(const Job& job, int other) {
    base::check(job.x.dtype == trainer::device::Dtype::Float32, "collectives are of float32");
    base::check(other >= 0 && other < ranks(), "the other rank exists");
    jobs_[++last_] = job;
    return last_;
  }
  Pending meet(Kind kind, const View& x, int root) {
    const Pending pending = begin({kind, x, root, collectives_++}, root);
    const std::string call = std::string(kNames[static_cast<int>(kind)]) + " of " +
                             std::to_string(x.size) + ", root " + std::to_string(root);
    world_.say(0, jobs_[pending].number, rank_, call, {bytes_of(x.data, x.bytes())});
    poison(x);
    return pending;
  }

  [[nodiscard]] static const float* floats_of(const Parcels& said) {
    return reinterpret_cast<const float*>(said[0].data());
  }
  // Elements [begin, end) of x become sums over all ranks.
  void sum(const std::vector<Parcels>& said, const View& x, std::int64_t begin,
           std::int64_t end) const {
    const auto node = static_cast<std::size_t>(parts());
    for (std::int64_t i = begin; i < end; ++i) {
      float total = 0;
      for (std::size_t first = 0; first < said.size(); first += node) {
        float one = floats_of(said[first])[i];
        for (std::size_t r = first + 1; r < first + node; ++r) one += floats_of(said[r])[i];
        total = first == 0 ? one : total + one;
      }
      x.floats()[i] = total;
    }
  }
  void copy_part(const std::vector<Parcels>& said, const View& x, int part) const {
    const std::int64_t begin = std::min(x.size, part_size(x.size) * part);
    const std::int64_t end = std::min(x.size, part_size(x.size) * (part + 1));
    const auto owner = static_cast<std::size_t>(rank_ / parts() * parts() + part);
    if (begin < end) std::copy_n(floats_of(said[owner]) + begin, end - begin, x.floats() + begin);
  }
  void take(const Job& job, const std::vector<Parcels>& said) const {
    const View& x = job.x;
    switch (job.kind) {
      case Kind::AllReduce:
        sum(said, x, 0, x.size);
        return;
      case Kind::ReduceScatter:
        sum(said, x, part_begin(x.size), part_begin(x.size) + part_count(x.size));
        return;
      case Kind::AllGather:
        for (int part = 0; part < parts(); ++part) copy_part(said, x, part);
        return;
      case Kind::Broadcast:
        std::copy_n(floats_of(said[static_cast<std::size_t>(job.other)]), x.size, x.floats());
        return;
      case Kind::Send:
      case Kind::Receive:
        return;
    }
  }

  World& world_;
  const int rank_;
  ThreadHost host_;
  std::size_t channels_ = 0;
  std::int64_t groups_ = 0;
  std::int64_t collectives_ = 0;
  std::map<int, std::int64_t> received_;  // begun, by sender
  std::map<Pending, Job> jobs_;           // under way
  std::map<Pending, double> done_;
  Pending last_ = 0;
};

void ThreadCommunicator::finish(Stream, Pending pending) {
  const auto found = jobs_.find(pending);
  if (found == jobs_.end()) {
    base::check(pending == 0 || done_.count(pending) != 0, "what is finished was begun");
    return;
  }
  const Job job = found->second;
  double at = 0;
  if (job.kind == Kind::Send || job.kind == Kind::Receive) {
    if (job.kind == Kind::Receive) {
      const std::vector<std::byte> bytes =
          world_.receive(job.other, rank_, static_cast<std::size_t>(job.number));
      if (bytes.size() != static_cast<std::size_t>(job.x.bytes())) {
        throw base::Error(base::Code::Developer,
                          "rank " + std::to_string(rank_) + " receives " +
                              std::to_string(job.x.bytes()) + " bytes where rank " +
                              std::to_string(job.other) + " sent " + std::to_string(bytes.size()));
      }
      if (!bytes.empty()) std::memcpy(job.x.data, bytes.data(), bytes.size());
    }
    at = base::system_clock().monotonic_seconds();
  } else {
    world_.hear(0, job.number, [&](const std::vector<Parcels>& said, double complete_at) {
      take(job, said);
      at = complete_at;
    });
  }
  jobs_.erase(found);
  done_[pending] = at;
  if (done_.size() > kRememberedTimes) done_.erase(done_.begin());
}

}  // namespace

ThreadRanks::ThreadRanks(int ranks, int node_ranks)
    : world_(std::make_unique<World>(ranks, node_ranks)) {
  base::check(ranks >= 1 && node_ranks >= 0 && (node_ranks == 0 || ranks % node_ranks == 0),
              "there are ranks, as many on each node");
}
ThreadRanks::~ThreadRanks() = default;

void ThreadRanks::run(const Body& body) {
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_->ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ThreadCommunicator communicator(*world_, rank);
          body(communicator);
        } catch (...) {
          const std::scoped_lock lock(mutex);
          if (first == nullptr) first = std::current_exception();
        }
        world_->leave(rank);
      });
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace regatta::tests
