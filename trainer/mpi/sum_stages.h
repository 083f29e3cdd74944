// The two halves of an all-reduce whose sums have the same bits whatever the bucket: every rank
// gets its part from all and adds in rank order, then the parts are gathered.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/mpi/progress.h"

namespace regatta::trainer::mpi {

// Where each rank's part of `size` elements lies: as Communicator::part_size.
struct MpiCuts {
  MpiCuts(std::int64_t size, int ranks);
  std::vector<int> counts, offsets;
};

// Memory for what arrives, kept for the next time: fresh pages cost more than the sum itself. Used
// by the progress thread only.
class MpiScratch {
 public:
  struct Piece {
    std::unique_ptr<float[]> data;
    std::size_t size = 0;
  };
  [[nodiscard]] Piece take(std::size_t size);
  void give(Piece piece);

 private:
  static constexpr std::size_t kMostKept = 8;  // pieces
  std::vector<Piece> kept_;
};

// This rank's part of `data` becomes the sum over the communicator's ranks; the rest is left as it
// was. `data` has less than 2^31 elements and lives until the stage is over; the communicator and
// the scratch outlive the stage.
[[nodiscard]] std::unique_ptr<MpiStage> make_sum_stage(const MpiComm& comm, float* data,
                                                       std::int64_t size, MpiScratch& scratch);
// Every part becomes what the rank that holds it has there.
[[nodiscard]] std::unique_ptr<MpiStage> make_gather_stage(const MpiComm& comm, float* data,
                                                          std::int64_t size);

}  // namespace regatta::trainer::mpi
