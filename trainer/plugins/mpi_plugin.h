// Loads the MPI communicator from its plug-in, so that one program runs with and without MPI.
#pragma once

#include <memory>

#include "trainer/mpi/mpi_communicator.h"
#include "trainer/plugins/plugin_loader.h"

namespace regatta::trainer::plugins {

// The communicator of make_mpi_communicator. Throws what that throws, and what Plugin throws.
[[nodiscard]] std::unique_ptr<ranks::Communicator> load_mpi_communicator(
    const PluginPlace& place, const mpi::MpiOptions& options);

}  // namespace regatta::trainer::plugins
