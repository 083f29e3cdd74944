// Host values over MPI, beside the collectives of views.
#pragma once

#include <memory>

#include "trainer/mpi/mpi_library.h"
#include "trainer/mpi/progress.h"
#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::mpi {

// On a communicator and in a lane that nothing else uses. A call carries less than 2 GiB to or from
// one rank. Both outlive it.
[[nodiscard]] std::unique_ptr<ranks::HostCollectives> make_mpi_channel(const MpiComm& comm,
                                                                       MpiProgress& progress);

}  // namespace regatta::trainer::mpi
