#include "trainer/mpi/mpi_communicator.h"

#include <mpi.h>

#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/mpi/mpi_channel.h"
#include "trainer/mpi/mpi_library.h"
#include "trainer/mpi/progress.h"
#include "trainer/mpi/sum_stages.h"
#include "trainer/ranks/node_layout.h"

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

class MpiCommunicator final : public ranks::Communicator {
 public:
  explicit MpiCommunicator(const MpiOptions& options) : layout_(find_layout(library_, options)) {}
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) library_.lose();
    progress_.stop();
  }
  void abandon() noexcept override {
    library_.lose();
    progress_.stop();
  }

  [[nodiscard]] int rank() const override { return layout_.rank; }
  [[nodiscard]] int ranks() const override { return layout_.ranks; }
  [[nodiscard]] int part() const override { return layout_.part(); }
  [[nodiscard]] int parts() const override { return layout_.parts; }

  [[nodiscard]] ranks::Pending all_reduce_sum(device::Stream, device::View x) override {
    MpiJob job;
    add_sum(&job, x, all_reduce_comms_);
    job.push_back(make_gather_stage(all_reduce_gather_, x.floats(), x.size));
    return begin(all_reduce_lane_, std::move(job), x);
  }
  [[nodiscard]] ranks::Pending reduce_scatter_sum(device::Stream, device::View x) override {
    MpiJob job;
    add_sum(&job, x, reduce_scatter_comms_);
    return begin(reduce_scatter_lane_, std::move(job), x);
  }
  [[nodiscard]] ranks::Pending all_gather(device::Stream, device::View x) override {
    MpiJob job;
    job.push_back(make_gather_stage(all_gather_comm_, x.floats(), x.size));
    return begin(all_gather_lane_, std::move(job), x);
  }
  [[nodiscard]] ranks::Pending broadcast(device::Stream, device::View x, int root) override {
    base::check(root >= 0 && root < ranks(), "the root is a rank");
    return begin(broadcast_lane_, x, [this, x, root](MPI_Request* request) {
      check(MPI_Ibcast(x.data, static_cast<int>(x.size), MPI_FLOAT, root, broadcast_comm_.get(),
                       request),
            "a broadcast");
    });
  }
  [[nodiscard]] ranks::Pending send(device::Stream, device::View x, int to) override {
    base::check(to >= 0 && to < ranks() && to != rank(), "one sends to another rank");
    return begin(point_lane_, x, [this, x, to](MPI_Request* request) {
      check(
          MPI_Isend(x.data, static_cast<int>(x.size), MPI_FLOAT, to, 0, point_comm_.get(), request),
          "a send");
    });
  }
  [[nodiscard]] ranks::Pending receive(device::Stream, device::View x, int from) override {
    base::check(from >= 0 && from < ranks() && from != rank(), "one receives from another rank");
    return begin(point_lane_, x, [this, x, from](MPI_Request* request) {
      check(MPI_Irecv(x.data, static_cast<int>(x.size), MPI_FLOAT, from, 0, point_comm_.get(),
                      request),
            "a receive");
    });
  }
  [[nodiscard]] std::string library_version() const override { return mpi_library_name(); }
  void finish(device::Stream, ranks::Pending pending) override { progress_.wait(pending); }
  [[nodiscard]] double done_at(ranks::Pending pending) override {
    return progress_.done_at(pending);
  }

  [[nodiscard]] ranks::HostCollectives& host() override { return *host_; }
  [[nodiscard]] std::unique_ptr<ranks::HostCollectives> open_channel() override {
    const std::scoped_lock lock(opening_);
    MPI_Comm comm = MPI_COMM_NULL;
    MpiJob job;
    job.push_back(mpi_stage([&](MPI_Request* request) {
      check(MPI_Comm_idup(opening_comm_.get(), &comm, request), "opening a channel");
    }));
    // The rest are calls of MPI as well, so they are the progress thread's.
    std::unique_ptr<ranks::HostCollectives> channel;
    job.push_back(mpi_stage([&](MPI_Request*) {
      channels_.emplace_back(library_, comm);
      channel = make_mpi_channel(channels_.back(), progress_);
    }));
    progress_.run(opening_lane_, std::move(job));
    return channel;
  }

 private:
  [[nodiscard]] ranks::Pending begin(int lane, MpiJob job, device::View x) {
    base::check(x.dtype == device::Dtype::Float32 && x.size <= kMostElements,
                "collectives are of float32, and fit MPI's counts");
    return progress_.begin(lane, std::move(job));
  }
  template <typename Post>
  [[nodiscard]] ranks::Pending begin(int lane, device::View x, Post post) {
    MpiJob job;
    job.push_back(mpi_stage(std::move(post)));
    return begin(lane, std::move(job), x);
  }

  // The sum over all ranks in this rank's part of x.
  void add_sum(MpiJob* job, device::View x, const SumComms& comms) {
    job->push_back(make_sum_stage(comms.node_exchange, x.floats(), x.size, scratch_));
    if (layout_.nodes() == 1) return;
    float* mine = x.floats() + part_begin(x.size);
    const std::int64_t count = part_count(x.size);
    job->push_back(make_sum_stage(comms.across_exchange, mine, count, scratch_));
    job->push_back(make_gather_stage(comms.across_gather, mine, count));
  }

  [[nodiscard]] MpiComm copy_of(MPI_Comm other) const { return MpiComm::copy_of(library_, other); }

  MpiLibrary library_;
  Layout layout_;
  // The ranks of this node; and those with the same place in other nodes, in the nodes' order.
  MpiComm node_ = MpiComm::split(library_, MPI_COMM_WORLD, layout_.node());
  MpiComm across_ = MpiComm::split(library_, MPI_COMM_WORLD, layout_.part());
  SumComms all_reduce_comms_{library_, node_, across_};
  SumComms reduce_scatter_comms_{library_, node_, across_};
  MpiComm all_reduce_gather_ = copy_of(node_.get()), all_gather_comm_ = copy_of(node_.get());
  MpiComm broadcast_comm_ = copy_of(MPI_COMM_WORLD), point_comm_ = copy_of(MPI_COMM_WORLD),
          host_comm_ = copy_of(MPI_COMM_WORLD), opening_comm_ = copy_of(MPI_COMM_WORLD);
  // Of the channels, kept to the end: all ranks must free them in one order.
  std::deque<MpiComm> channels_;
  MpiScratch scratch_;
  std::mutex opening_;

  MpiProgress progress_{library_};
  int all_reduce_lane_ = progress_.open_lane(), reduce_scatter_lane_ = progress_.open_lane(),
      all_gather_lane_ = progress_.open_lane(), broadcast_lane_ = progress_.open_lane(),
      point_lane_ = progress_.open_lane(), opening_lane_ = progress_.open_lane();
  std::unique_ptr<ranks::HostCollectives> host_ = make_mpi_channel(host_comm_, progress_);
};

}  // namespace

std::unique_ptr<ranks::Communicator> make_mpi_communicator(const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(options);
}

}  // namespace regatta::trainer::mpi
