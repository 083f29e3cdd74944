// Between regatta-train and libregatta-mpi.so: as trainer/cuda/plugin.h.
#pragma once

#include "trainer/device/plugin_entry.h"
#include "trainer/mpi/mpi_communicator.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::mpi {

// Counts up with every change to Communicator, HostCollectives or these functions.
#define REGATTA_MPI_INTERFACE "3"
constexpr const char* kMpiPluginVersion =
    "regatta-mpi " REGATTA_MPI_INTERFACE " of " REGATTA_VERSION;
constexpr const char* kMpiPluginFile = "libregatta-mpi.so";
constexpr const char* kMpiVersionFunction = "regatta_mpi_plugin_version";
constexpr const char* kMpiMakeFunction = "regatta_make_mpi_communicator";

using MpiMakeFunction = ranks::Communicator*(const MpiOptions*, device::PluginError*);

}  // namespace regatta::trainer::mpi

extern "C" {
[[gnu::visibility("default")]] const char* regatta_mpi_plugin_version();
// A new communicator that the caller deletes, or null with the error filled in.
[[gnu::visibility("default")]] regatta::trainer::ranks::Communicator* regatta_make_mpi_communicator(
    const regatta::trainer::mpi::MpiOptions* options, regatta::trainer::device::PluginError* error);
}
