// What the NCCL communicator is made from.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::nccl {

struct NcclOptions {
  // Ranks r·n to r·n + n − 1 share a node: sums go through the node first. 0: flat.
  int ranks_per_node = 0;
  // For all ranks to have joined, and for any one call to be enqueued.
  double init_seconds = 120;
  // Between two looks at NCCL's asynchronous errors.
  double poll_seconds = 0.1;
  // For all ranks to say goodbye, at the end; past it this rank goes without.
  double farewell_seconds = 10;
  // Called by make_nccl_communicator before NCCL's first communicator, on all ranks; may talk to
  // the other ranks, and set variables that NCCL reads. The version is NCCL's: 22809 for 2.28.9.
  std::function<void(ranks::HostCollectives& host, int nccl_version)> before_first{};
};

// How ranks meet, and where host values go: of MPI or TCP, NCCL does not care.
struct NcclHost {
  std::unique_ptr<ranks::HostCollectives> values;
  // For Communicator::open_channel.
  std::function<std::unique_ptr<ranks::HostCollectives>()> open_channel;
  // The same of some ranks, for Communicator::open_group: called on all ranks with members that
  // they have agreed on; members[p] is rank p. Of none or one, nothing.
  std::function<NcclHost(const std::vector<int>& members)> open_group{};
};

}  // namespace regatta::trainer::nccl
