// The communicator of a test program that mpirun starts on several ranks.
#pragma once

#include "trainer/ranks/communicator.h"

namespace regatta::tests {

// Made by main() (mpi_main.cc); MPI can be started once per process.
[[nodiscard]] trainer::ranks::Communicator& ranks();

// REGATTA_TEST_RANKS_PER_NODE, as MpiOptions::ranks_per_node.
[[nodiscard]] int ranks_per_node();

}  // namespace regatta::tests
