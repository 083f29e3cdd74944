// The communicator of a test program that mpirun starts on several ranks.
#pragma once

#include "trainer/communicator.h"

namespace regatta::tests {

// Made by main() (mpi_main.cc); MPI can be started once per process.
[[nodiscard]] trainer::Communicator& ranks();

}  // namespace regatta::tests
