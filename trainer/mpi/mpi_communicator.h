// Collectives over MPI for ranks that train on CPUs: what moves lies in host memory, and operations
// of the CPU device are done when they return, so a collective may begin at once.
//
// Open MPI makes little progress by itself, so one thread owns MPI (progress.h), and callers'
// threads compute meanwhile. An all-reduce is one exchange (every rank gets its part from all), a
// sum in rank order, and one gather: each element is added in the same order whatever the bucket or
// the number of elements, so neither changes a bit. Hierarchical sums add in rank order within the
// node, then in the nodes' order.
#pragma once

#include <memory>

#include "trainer/ranks/communicator.h"

namespace regatta::trainer::mpi {

struct MpiOptions {
  // 0: flat. Else hierarchical: so many consecutive ranks are a node; kRanksPerNodeAsFound: as
  // ranks_per_node() of node_layout.h finds.
  int ranks_per_node = 0;
};
constexpr int kRanksPerNodeAsFound = -1;

// Abandoned, or destroyed while an exception is under way, it does not wait for the other ranks:
// the process ends without MPI_Finalize, and the launcher ends the others. Threads that wait in
// channels then get Code::Retry.
//
// Initialises MPI; one communicator per process, and none after it. Throws Code::Operator when MPI
// cannot be started or does not allow threads, Code::User when the ranks are no multiple of
// ranks_per_node.
[[nodiscard]] std::unique_ptr<ranks::Communicator> make_mpi_communicator(const MpiOptions& options);

}  // namespace regatta::trainer::mpi
