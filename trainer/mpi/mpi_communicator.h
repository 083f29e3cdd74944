// Collectives over MPI for ranks that train on CPUs: what moves lies in host memory, and operations
// of the CPU device are done when they return, so a collective may begin at once.
//
// Open MPI makes little progress by itself, so one thread owns MPI: it posts collectives and tests
// them with short sleeps, and the caller's thread computes meanwhile. An all-reduce is one exchange
// (every rank gets its part from all), a sum in rank order, and one gather: each element is added
// in the same order whatever the bucket or the number of elements, so neither changes a bit.
#pragma once

#include <memory>

#include "trainer/communicator.h"

namespace regatta::trainer {

// Abandoned, or destroyed while an exception is under way, it does not wait for the other ranks:
// the process ends without MPI_Finalize, and the launcher ends the others.
//
// Initialises MPI; one communicator per process, and none after it. Throws Code::Operator when MPI
// cannot be started or does not allow threads.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi_communicator();

}  // namespace regatta::trainer
