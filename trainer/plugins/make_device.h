// The device that a run file asks for.
#pragma once

#include <memory>
#include <string>

#include "base/file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/device/device.h"

namespace regatta::trainer::plugins {

// What the machine, rather than the run, decides.
struct DevicePlace {
  base::Path program;           // of regatta-train: plug-ins lie near it
  base::Path plugin_directory;  // where they lie instead; may be empty
  std::string products_file;    // remembers timed matrix products between runs; empty: not kept
  std::string instruction_set;  // of a CPU device (REGATTA_ISA); empty: the best of this machine
};

struct DeviceRequest {
  contract::DeviceKind kind = contract::DeviceKind::Cpu;
  contract::Precision precision = contract::Precision::Float32;
  contract::AttentionKind attention = contract::AttentionKind::Automatic;
  int threads = 1;     // of the CPU device
  int local_rank = 0;  // among the ranks of this machine: which GPU
  contract::Determinism determinism = contract::Determinism::Run;  // Portable: of the CPU device
};

// Bytes a device keeps for its own products and sums, for memory_needs.
[[nodiscard]] std::int64_t workspace_bytes(contract::DeviceKind kind,
                                           contract::AttentionKind attention);

// Throws what the plug-in says when a GPU was asked for and cannot be had; for Auto that is a line
// in the log, and the CPU it is.
[[nodiscard]] std::unique_ptr<device::Device> make_device(const DeviceRequest& request,
                                                          const DevicePlace& place);

}  // namespace regatta::trainer::plugins
