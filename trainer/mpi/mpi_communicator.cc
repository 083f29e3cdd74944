#include "trainer/mpi/mpi_communicator.h"

#include <mpi.h>

#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/mpi/mpi_channel.h"
#include "trainer/mpi/mpi_library.h"
#include "trainer/mpi/progress.h"
#include "trainer/mpi/sum_stages.h"
#include "trainer/ranks/node_layout.h"
#include "trainer/ranks/rank_groups.h"

namespace regatta::trainer::mpi {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 30;  // MPI counts in int

// Who this rank is.
struct Layout {
  int rank = 0, ranks = 1;
  int parts = 1;  // ranks of a node; all of them, when flat
  [[nodiscard]] int node() const { return rank / parts; }
  [[nodiscard]] int nodes() const { return ranks / parts; }
  [[nodiscard]] int part() const { return rank % parts; }
};

int found_ranks_per_node(int ranks) {
  std::vector<ranks::HostName> names(static_cast<std::size_t>(ranks));
  const ranks::HostName mine = ranks::this_host_name();
  check(MPI_Allgather(mine.data(), sizeof mine, MPI_BYTE, names.data(), sizeof mine, MPI_BYTE,
                      MPI_COMM_WORLD),
        "a gather of host names");
  return ranks::ranks_per_node(names);
}

// The library is named to say that MPI runs.
Layout find_layout(const MpiLibrary&, const MpiOptions& options) {
  Layout layout;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &layout.rank), "finding the rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &layout.ranks), "counting the ranks");
  const bool find = options.ranks_per_node == kRanksPerNodeAsFound;
  const int per_node = find ? found_ranks_per_node(layout.ranks) : options.ranks_per_node;
  if (per_node < 0 || (per_node > 0 && layout.ranks % per_node != 0)) {
    throw base::Error(base::Code::User,
                      "ranks_per_node is " + std::to_string(per_node) + ", and " +
                          std::to_string(layout.ranks) +
                          " ranks are no multiple of it; give every node the same number of ranks, "
                          "or set hierarchical: false");
  }
  layout.parts = per_node == 0 ? layout.ranks : per_node;
  return layout;
}

// Communicators of one kind of sum, one for each stage (progress.h).
struct SumComms {
  SumComms(const MpiLibrary& library, const MpiComm& node, const MpiComm& across)
      : node_exchange(MpiComm::copy_of(library, node.get())),
        across_exchange(MpiComm::copy_of(library, across.get())),
        across_gather(MpiComm::copy_of(library, across.get())) {}
  MpiComm node_exchange, across_exchange, across_gather;
};

// MPI's communicators of the ranks of `all`. Made and freed by all of them, by the thread that may
// call MPI at the time.
struct RankComms {
  RankComms(const MpiLibrary& library, MPI_Comm all, const Layout& layout)
      : node(MpiComm::split(library, all, layout.node())),
        across(MpiComm::split(library, all, layout.part())),
        all_reduce(library, node, across),
        reduce_scatter(library, node, across),
        all_reduce_gather(MpiComm::copy_of(library, node.get())),
        all_gather(MpiComm::copy_of(library, node.get())),
        broadcast(MpiComm::copy_of(library, all)),
        point(MpiComm::copy_of(library, all)),
        host(MpiComm::copy_of(library, all)),
        opening(MpiComm::copy_of(library, all)) {}

  // The ranks of this node; and those with the same place in other nodes, in the nodes' order.
  MpiComm node, across;
  SumComms all_reduce, reduce_scatter;
  MpiComm all_reduce_gather, all_gather, broadcast, point, host, opening;
};

// What the communicator of all ranks shares with its groups.
struct Process {
  explicit Process(const MpiOptions& options) : layout(find_layout(mpi, options)) {
    comms.emplace_back(mpi, MPI_COMM_WORLD, layout);  // nothing calls MPI beside this yet
  }

  MpiLibrary mpi;
  Layout layout;
  // Of all ranks, then of groups and channels: kept to the end, since all ranks must free them in
  // one order. The progress thread adds to them.
  std::deque<RankComms> comms;
  std::deque<MpiComm> groups, channels;
  MpiScratch scratch;
  MpiProgress progress{mpi};  // last: it uses all of the above
};

// Collectives of all ranks, or of a group. What is under way may outlive this, but not the process:
// stages know nothing of it.
class MpiRanks : public ranks::Communicator {
 public:
  // On the thread that may call MPI.
  MpiRanks(Process& process, const Layout& layout, const RankComms& comms)
      : process_(process), layout_(layout), comms_(comms) {}
  void abandon() noexcept override { leave(); }

  [[nodiscard]] int rank() const override { return layout_.rank; }
  [[nodiscard]] int ranks() const override { return layout_.ranks; }
  [[nodiscard]] int part() const override { return layout_.part(); }
  [[nodiscard]] int parts() const override { return layout_.parts; }

  [[nodiscard]] ranks::Pending all_reduce_sum(device::Stream, device::View x) override {
    MpiJob job;
    add_sum(&job, x, comms_.all_reduce);
    job.push_back(make_gather_stage(comms_.all_reduce_gather, x.floats(), x.size));
    return begin(all_reduce_lane_, std::move(job), x);
  }
  [[nodiscard]] ranks::Pending reduce_scatter_sum(device::Stream, device::View x) override {
    MpiJob job;
    add_sum(&job, x, comms_.reduce_scatter);
    return begin(reduce_scatter_lane_, std::move(job), x);
  }
  [[nodiscard]] ranks::Pending all_gather(device::Stream, device::View x) override {
    MpiJob job;
    job.push_back(make_gather_stage(comms_.all_gather, x.floats(), x.size));
    return begin(all_gather_lane_, std::move(job), x);
  }
  [[nodiscard]] ranks::Pending broadcast(device::Stream, device::View x, int root) override {
    base::check(root >= 0 && root < ranks(), "the root is a rank");
    return begin(
        broadcast_lane_, x, [comm = comms_.broadcast.get(), x, root](MPI_Request* request) {
          check(MPI_Ibcast(x.data, static_cast<int>(x.size), MPI_FLOAT, root, comm, request),
                "a broadcast");
        });
  }
  [[nodiscard]] ranks::Pending send(device::Stream, device::View x, int to) override {
    base::check(to >= 0 && to < ranks() && to != rank(), "one sends to another rank");
    return begin(point_lane_, x, [comm = comms_.point.get(), x, to](MPI_Request* request) {
      check(MPI_Isend(x.data, static_cast<int>(x.size), MPI_FLOAT, to, 0, comm, request), "a send");
    });
  }
  [[nodiscard]] ranks::Pending receive(device::Stream, device::View x, int from) override {
    base::check(from >= 0 && from < ranks() && from != rank(), "one receives from another rank");
    return begin(point_lane_, x, [comm = comms_.point.get(), x, from](MPI_Request* request) {
      check(MPI_Irecv(x.data, static_cast<int>(x.size), MPI_FLOAT, from, 0, comm, request),
            "a receive");
    });
  }
  [[nodiscard]] std::string library_version() const override { return mpi_library_name(); }
  void finish(device::Stream, ranks::Pending pending) override {
    progress_.wait(pending);
    unfinished_.erase(pending);
  }
  [[nodiscard]] double done_at(ranks::Pending pending) override {
    return progress_.done_at(pending);
  }

  [[nodiscard]] ranks::HostCollectives& host() override { return *host_; }
  [[nodiscard]] std::unique_ptr<ranks::HostCollectives> open_channel() override;
  [[nodiscard]] std::unique_ptr<ranks::Communicator> open_group(
      const std::vector<int>& members) override;

 protected:
  void leave() noexcept {
    process_.mpi.lose();
    progress_.stop();
  }
  // Waits for all that was begun here.
  void finish_all() {
    for (const ranks::Pending pending : unfinished_) progress_.wait(pending);
  }

 private:
  [[nodiscard]] ranks::Pending begin(int lane, MpiJob job, device::View x) {
    base::check(x.dtype == device::Dtype::Float32 && x.size <= kMostElements,
                "collectives are of float32, and fit MPI's counts");
    const ranks::Pending pending = progress_.begin(lane, std::move(job));
    unfinished_.insert(pending);
    return pending;
  }
  template <typename Post>
  [[nodiscard]] ranks::Pending begin(int lane, device::View x, Post post) {
    MpiJob job;
    job.push_back(mpi_stage(std::move(post)));
    return begin(lane, std::move(job), x);
  }

  // The sum over all ranks in this rank's part of x.
  void add_sum(MpiJob* job, device::View x, const SumComms& comms) {
    job->push_back(make_sum_stage(comms.node_exchange, x.floats(), x.size, process_.scratch));
    if (layout_.nodes() == 1) return;
    float* mine = x.floats() + part_begin(x.size);
    const std::int64_t count = part_count(x.size);
    job->push_back(make_sum_stage(comms.across_exchange, mine, count, process_.scratch));
    job->push_back(make_gather_stage(comms.across_gather, mine, count));
  }

  Process& process_;
  MpiProgress& progress_ = process_.progress;
  const Layout layout_;
  const RankComms& comms_;
  std::mutex opening_;
  std::set<ranks::Pending> unfinished_;
  int all_reduce_lane_ = progress_.open_lane(), reduce_scatter_lane_ = progress_.open_lane(),
      all_gather_lane_ = progress_.open_lane(), broadcast_lane_ = progress_.open_lane(),
      point_lane_ = progress_.open_lane(), opening_lane_ = progress_.open_lane(),
      group_lane_ = progress_.open_lane();
  std::unique_ptr<ranks::HostCollectives> host_ = make_mpi_channel(comms_.host, progress_);
};

// Goes after what uses it, as the first base.
struct OwnedProcess {
  Process owned;
};

// Of all ranks. MPI ends with it.
class MpiCommunicator final : private OwnedProcess, public MpiRanks {
 public:
  explicit MpiCommunicator(const MpiOptions& options)
      : OwnedProcess{Process(options)}, MpiRanks(owned, owned.layout, owned.comms.front()) {}
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) owned.mpi.lose();
    owned.progress.stop();
  }
};

// Some ranks of another one, which outlives it.
class MpiGroup final : public MpiRanks {
 public:
  using MpiRanks::MpiRanks;
  // What is under way may still use its views.
  ~MpiGroup() override {
    try {
      if (std::uncaught_exceptions() > 0) {
        leave();
      } else {
        finish_all();
      }
    } catch (const base::Error&) {  // a lost rank: the next call of the other one throws it
    }
  }
};

std::unique_ptr<ranks::HostCollectives> MpiRanks::open_channel() {
  const std::scoped_lock lock(opening_);
  MPI_Comm comm = MPI_COMM_NULL;
  MpiJob job;
  job.push_back(mpi_stage([&](MPI_Request* request) {
    check(MPI_Comm_idup(comms_.opening.get(), &comm, request), "opening a channel");
  }));
  // The rest are calls of MPI as well, so they are the progress thread's.
  std::unique_ptr<ranks::HostCollectives> channel;
  job.push_back(mpi_stage([&](MPI_Request*) {
    process_.channels.emplace_back(process_.mpi, comm);
    channel = make_mpi_channel(process_.channels.back(), progress_);
  }));
  progress_.run(opening_lane_, std::move(job));
  return channel;
}

// MPI has no way to split that does not wait for the other ranks. All of them have come to this
// when they have agreed on the groups, so it is short, and no other thread's call on this rank is
// what another rank waits for. The host's communicator serves, since no host values are under way.
std::unique_ptr<ranks::Communicator> MpiRanks::open_group(const std::vector<int>& members) {
  const auto place = ranks::agree_on_groups(*host_, members);
  const bool is_alone = !place || place->ranks == 1;
  const RankComms* comms = nullptr;
  MpiJob job;
  job.push_back(mpi_stage([&](MPI_Request*) {
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_split(comms_.host.get(), is_alone ? MPI_UNDEFINED : place->first,
                         is_alone ? 0 : place->rank, &comm),
          "making a group");
    if (is_alone) return;
    process_.groups.emplace_back(process_.mpi, comm);
    comms = &process_.comms.emplace_back(process_.mpi, comm,
                                         Layout{place->rank, place->ranks, place->ranks});
  }));
  progress_.run(group_lane_, std::move(job));
  if (!place) return nullptr;
  if (is_alone) return std::make_unique<ranks::SingleCommunicator>();
  return std::make_unique<MpiGroup>(process_, Layout{place->rank, place->ranks, place->ranks},
                                    *comms);
}

}  // namespace

std::unique_ptr<ranks::Communicator> make_mpi_communicator(const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(options);
}

}  // namespace regatta::trainer::mpi
