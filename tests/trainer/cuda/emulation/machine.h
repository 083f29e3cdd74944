// The state behind the emulated runtime API: handles that exist, memory, the calls that fail.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/trainer/cuda/emulation/facts.h"
#include "tests/trainer/cuda/emulation/memory.h"

using Work = std::function<void()>;
// How much of each capturing stream's work lies before a point.
using Reached = std::map<cudaStream_t, std::size_t>;

struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
};

namespace regatta::emulation {

// One capture sequence: a stream that began it and those that joined through events.
struct Capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool valid = true;
  CUgraph_st* graph = nullptr;
  std::set<cudaStream_t> streams;
};

}  // namespace regatta::emulation

struct CUstream_st {
  regatta::emulation::Capture* capture = nullptr;
  Reached reached;       // while capturing
  bool blocking = true;  // with respect to the legacy stream
};
struct CUevent_st {
  bool recorded = false;
  bool timed = true;
  std::chrono::steady_clock::time_point time;
  std::uint64_t capture_number = 0;  // of the capture that recorded it last; 0: none did
  Reached reached;
};

namespace regatta::emulation {

class Machine {
 public:
  std::mutex mutex;  // guards all of the below; not held while work runs
  Facts facts;
  std::int64_t calls = 0;
  std::int64_t failing_call = -1;
  cudaError_t failure = cudaSuccess;
  cudaError_t fault = cudaSuccess;  // of every call
  Memory device_memory;
  Memory host_memory;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> executables;
  std::map<std::uint64_t, Capture> captures;  // that go on, by number
  std::uint64_t last_capture = 0;
  std::map<const void*, std::size_t> shared_limits;  // of kernels that asked for more than 48 KiB

  // The injected failure of this call, or that there is no device.
  [[nodiscard]] cudaError_t enter();
  // The same, for calls that a capture of mode global forbids; such a call spoils the capture.
  [[nodiscard]] cudaError_t enter_unsafe();
  [[nodiscard]] bool knows(cudaStream_t stream) const;
  [[nodiscard]] std::uint64_t number_of(const Capture* capture) const;
};
[[nodiscard]] Machine& machine();

// Keeps the error for cudaGetLastError and returns it.
cudaError_t result(cudaError_t error);
// Runs the work, or adds it to the stream's capture.
cudaError_t enqueue(cudaStream_t stream, Work work);

}  // namespace regatta::emulation
