#include "trainer/mpi/mpi_channel.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"

namespace regatta::trainer::mpi {
namespace {

// MPI counts in int.
int as_count(std::int64_t size) {
  base::check(size >= 0 && size <= INT_MAX, "host values of one call are less than 2 GiB");
  return static_cast<int>(size);
}

// What goes to, or comes from, every rank, laid end to end. Nothing goes to this rank itself.
struct Freight {
  std::vector<std::byte> bytes;
  std::vector<int> counts, offsets;

  void lay_out(const std::vector<std::int64_t>& sizes) {
    std::int64_t offset = 0;
    for (const std::int64_t size : sizes) {
      counts.push_back(as_count(size));
      offsets.push_back(as_count(offset));
      offset += size;
    }
    bytes.resize(static_cast<std::size_t>(as_count(offset)));
  }
  [[nodiscard]] std::byte* at(std::size_t r) { return bytes.data() + offsets[r]; }
};

class MpiChannel final : public ranks::HostCollectives {
 public:
  MpiChannel(const MpiComm& comm, MpiProgress& progress)
      : comm_(comm), progress_(progress), lane_(progress.open_lane()) {}

  [[nodiscard]] int rank() const override { return comm_.rank(); }
  [[nodiscard]] int ranks() const override { return comm_.ranks(); }

  void all_reduce_sum(double* values, int count) override {
    const auto size = static_cast<std::size_t>(count);
    std::vector<double> all(size * static_cast<std::size_t>(comm_.ranks()));
    run([&](MPI_Request* request) {
      check(MPI_Iallgather(values, count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, comm_.get(),
                           request),
            "a sum of host values");
    });
    for (std::size_t i = 0; i < size; ++i) {
      values[i] = all[i];
      for (std::size_t at = i + size; at < all.size(); at += size) values[i] += all[at];
    }
  }

  void broadcast(void* bytes, std::int64_t count, int root) override {
    run([&, size = as_count(count)](MPI_Request* request) {
      check(MPI_Ibcast(bytes, size, MPI_BYTE, root, comm_.get(), request),
            "a broadcast of host values");
    });
  }

  void all_gather(const void* bytes, std::int64_t count, void* all) override {
    run([&, size = as_count(count)](MPI_Request* request) {
      check(MPI_Iallgather(bytes, size, MPI_BYTE, all, size, MPI_BYTE, comm_.get(), request),
            "a gather of host values");
    });
  }

  [[nodiscard]] ranks::Parcels all_to_all(const ranks::Parcels& to) override {
    const auto ranks = static_cast<std::size_t>(comm_.ranks());
    const auto me = static_cast<std::size_t>(comm_.rank());
    base::check(to.size() == ranks, "there is a parcel for each rank");
    std::vector<std::int64_t> sizes(ranks), sizes_in(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      sizes[r] = r == me ? 0 : static_cast<std::int64_t>(to[r].size());
    }
    Freight out;
    Freight in;
    out.lay_out(sizes);
    for (std::size_t r = 0; r < ranks; ++r) {
      if (r != me) std::copy(to[r].begin(), to[r].end(), out.at(r));
    }
    MpiJob job;
    job.push_back(mpi_stage([&](MPI_Request* request) {
      check(MPI_Ialltoall(sizes.data(), 1, MPI_INT64_T, sizes_in.data(), 1, MPI_INT64_T,
                          comm_.get(), request),
            "an exchange of sizes");
    }));
    job.push_back(mpi_stage([&](MPI_Request* request) {
      in.lay_out(sizes_in);
      check(MPI_Ialltoallv(out.bytes.data(), out.counts.data(), out.offsets.data(), MPI_BYTE,
                           in.bytes.data(), in.counts.data(), in.offsets.data(), MPI_BYTE,
                           comm_.get(), request),
            "an exchange of host values");
    }));
    progress_.run(lane_, std::move(job));
    ranks::Parcels from(ranks);
    for (std::size_t r = 0; r < ranks; ++r) from[r].assign(in.at(r), in.at(r) + in.counts[r]);
    from[me] = to[me];
    return from;
  }

  void barrier() override {
    run([&](MPI_Request* request) { check(MPI_Ibarrier(comm_.get(), request), "a barrier"); });
  }

 private:
  template <typename Post>
  void run(Post post) {
    MpiJob job;
    job.push_back(mpi_stage(std::move(post)));
    progress_.run(lane_, std::move(job));
  }

  const MpiComm& comm_;
  MpiProgress& progress_;
  int lane_;
};

}  // namespace

std::unique_ptr<ranks::HostCollectives> make_mpi_channel(const MpiComm& comm,
                                                         MpiProgress& progress) {
  return std::make_unique<MpiChannel>(comm, progress);
}

}  // namespace regatta::trainer::mpi
