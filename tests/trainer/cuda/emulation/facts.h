// What the emulated machine has, for tests to choose.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/trainer/cuda/emulation/runtime_api.h"

namespace regatta::emulation {

struct Facts {
  int devices = 1;  // all alike
  int architecture = 90;
  std::size_t shared_bytes = 232448;  // that a block may ask for
  int multiprocessors = 4;            // few, so that small cases need several rounds
  std::size_t memory_bytes = std::size_t{16} << 30;
  int driver_version = 13000;
  int runtime_version = 13000;
  cudaError_t no_device = cudaSuccess;  // what cudaGetDeviceCount answers
};
// Compute capability 8.0 or 9.0 with its shared memory.
[[nodiscard]] Facts facts_of(int architecture);

// For all calls from now on; memory and streams that exist stay.
void configure(const Facts& facts);
[[nodiscard]] const Facts& facts();

// The n-th call of the runtime API from now that can fail (0: the next) returns `error` and does
// nothing; those after it work again. −1: none.
void fail_call(std::int64_t n, cudaError_t error);
// From now on every call that can fail returns `error` and does nothing, as after a kernel has made
// its context unusable. cudaSuccess: a new context.
void fault(cudaError_t error);
// Calls counted since the last fail_call.
[[nodiscard]] std::int64_t calls();

// What still exists, so that tests see leaks.
struct Live {
  std::size_t allocations = 0, host_allocations = 0, streams = 0, events = 0, graphs = 0;
  std::size_t bytes = 0;
};
[[nodiscard]] Live live();

}  // namespace regatta::emulation
