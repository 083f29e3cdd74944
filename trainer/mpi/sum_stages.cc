#include "trainer/mpi/sum_stages.h"

#include <algorithm>
#include <utility>

#include "trainer/ranks/communicator.h"

namespace regatta::trainer::mpi {
namespace {

constexpr std::size_t kBlock = 1024;  // elements whose sums stay in the nearest cache

class SumStage final : public MpiStage {
 public:
  SumStage(const MpiComm& comm, float* data, std::int64_t size, MpiScratch& scratch)
      : comm_(comm), data_(data), cuts_(size, comm.ranks()), scratch_(scratch) {}

  void post(MPI_Request* request) override {
    if (comm_.ranks() == 1) return;
    const auto me = static_cast<std::size_t>(comm_.rank());
    // Nothing goes to this rank itself: its own part is read where it lies.
    count_ = std::exchange(cuts_.counts[me], 0);
    for (int r = 0; r < comm_.ranks(); ++r) {
      receive_counts_.push_back(r == comm_.rank() ? 0 : count_);
      receive_offsets_.push_back(count_ * (r < comm_.rank() ? r : r - 1));
    }
    receive_offsets_[0] = 0;  // of rank 0's own nothing
    received_ = scratch_.take(static_cast<std::size_t>(count_) *
                              static_cast<std::size_t>(comm_.ranks() - 1));
    check(MPI_Ialltoallv(data_, cuts_.counts.data(), cuts_.offsets.data(), MPI_FLOAT,
                         received_.data.get(), receive_counts_.data(), receive_offsets_.data(),
                         MPI_FLOAT, comm_.get(), request),
          "an exchange");
  }

  void over() override {
    if (comm_.ranks() == 1) return;
    const auto count = static_cast<std::size_t>(count_);
    float* mine = data_ + cuts_.offsets[static_cast<std::size_t>(comm_.rank())];
    float sums[kBlock];
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t size = std::min(kBlock, count - begin);
      const float* received = received_.data.get() + begin;
      for (int r = 0; r < comm_.ranks(); ++r) {
        const float* from = r == comm_.rank() ? mine + begin : received;
        if (r != comm_.rank()) received += count;
        if (r == 0) {
          std::copy_n(from, size, sums);
        } else {
          for (std::size_t i = 0; i < size; ++i) sums[i] += from[i];
        }
      }
      std::copy_n(sums, size, mine + begin);
    }
    scratch_.give(std::move(received_));
  }

 private:
  const MpiComm& comm_;
  float* data_;
  MpiCuts cuts_;
  std::vector<int> receive_counts_, receive_offsets_;
  int count_ = 0;  // of this rank's part
  MpiScratch& scratch_;
  MpiScratch::Piece received_;
};

class GatherStage final : public MpiStage {
 public:
  GatherStage(const MpiComm& comm, float* data, std::int64_t size)
      : comm_(comm), data_(data), cuts_(size, comm.ranks()) {}
  void post(MPI_Request* request) override {
    if (comm_.ranks() == 1) return;
    check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data_, cuts_.counts.data(),
                          cuts_.offsets.data(), MPI_FLOAT, comm_.get(), request),
          "a gather");
  }

 private:
  const MpiComm& comm_;
  float* data_;
  MpiCuts cuts_;
};

}  // namespace

MpiCuts::MpiCuts(std::int64_t size, int ranks) {
  const std::int64_t even = (size + ranks - 1) / ranks;
  const std::int64_t part =
      (even + ranks::kPartAlignment - 1) / ranks::kPartAlignment * ranks::kPartAlignment;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t begin = std::min(size, part * r);
    offsets.push_back(static_cast<int>(begin));
    counts.push_back(static_cast<int>(std::min(size, begin + part) - begin));
  }
}

MpiScratch::Piece MpiScratch::take(std::size_t size) {
  const auto fits = [size](const Piece& piece) { return piece.size >= size; };
  const auto found = std::find_if(kept_.begin(), kept_.end(), fits);
  if (found == kept_.end()) return {std::make_unique_for_overwrite<float[]>(size), size};
  Piece piece = std::move(*found);
  kept_.erase(found);
  return piece;
}

// The largest are kept, the smallest first, so that each goes to where it fits best.
void MpiScratch::give(Piece piece) {
  const auto before = [](const Piece& a, const Piece& b) { return a.size < b.size; };
  kept_.insert(std::upper_bound(kept_.begin(), kept_.end(), piece, before), std::move(piece));
  if (kept_.size() > kMostKept) kept_.erase(kept_.begin());
}

std::unique_ptr<MpiStage> make_sum_stage(const MpiComm& comm, float* data, std::int64_t size,
                                         MpiScratch& scratch) {
  return std::make_unique<SumStage>(comm, data, size, scratch);
}

std::unique_ptr<MpiStage> make_gather_stage(const MpiComm& comm, float* data, std::int64_t size) {
  return std::make_unique<GatherStage>(comm, data, size);
}

}  // namespace regatta::trainer::mpi
