#include "tests/trainer/cuda/emulation/machine.h"

namespace regatta::emulation {
namespace {
thread_local cudaError_t last_error = cudaSuccess;
}  // namespace

Machine& machine() {
  static Machine& instance = *new Machine;  // outlives every static device of a test
  return instance;
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t Machine::enter() {
  const std::int64_t call = calls++;
  if (fault != cudaSuccess) return fault;
  if (call == failing_call) return failure;
  return facts.no_device;
}

cudaError_t Machine::enter_unsafe() {
  if (const cudaError_t error = enter(); error != cudaSuccess) return error;
  bool forbidden = false;
  for (auto& [number, capture] : captures) {
    if (capture.mode == cudaStreamCaptureModeGlobal ||
        (capture.mode == cudaStreamCaptureModeThreadLocal &&
         capture.thread == std::this_thread::get_id())) {
      capture.valid = false;
      forbidden = true;
    }
  }
  return forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

bool Machine::knows(cudaStream_t stream) const {
  return stream == nullptr || streams.count(stream) != 0;
}

std::uint64_t Machine::number_of(const Capture* capture) const {
  for (const auto& [number, known] : captures) {
    if (&known == capture) return number;
  }
  return 0;
}

cudaError_t enqueue(cudaStream_t stream, Work work) {
  Machine& all = machine();
  std::unique_lock lock(all.mutex);
  if (const cudaError_t error = all.enter(); error != cudaSuccess) return error;
  if (!all.knows(stream)) return cudaErrorInvalidResourceHandle;
  if (stream == nullptr) {
    for (auto& [number, capture] : all.captures) {
      for (const cudaStream_t captured : capture.streams) {
        if (!captured->blocking) continue;
        capture.valid = false;
        return cudaErrorStreamCaptureImplicit;
      }
    }
  } else if (Capture* capture = stream->capture) {
    if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
    capture->graph->work.push_back(std::move(work));
    ++stream->reached[stream];
    return cudaSuccess;
  }
  lock.unlock();
  work();
  return cudaSuccess;
}

Facts facts_of(int architecture) {
  Facts facts;
  facts.architecture = architecture;
  facts.shared_bytes = architecture >= 90 ? 232448 : 166912;
  return facts;
}
void configure(const Facts& facts) {
  const std::lock_guard lock(machine().mutex);
  machine().facts = facts;
}
const Facts& facts() { return machine().facts; }

void fail_call(std::int64_t n, cudaError_t error) {
  const std::lock_guard lock(machine().mutex);
  machine().calls = 0;
  machine().failing_call = n;
  machine().failure = error;
}
void fault(cudaError_t error) {
  const std::lock_guard lock(machine().mutex);
  machine().fault = error;
}
std::int64_t calls() {
  const std::lock_guard lock(machine().mutex);
  return machine().calls;
}

Live live() {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  return {all.device_memory.count(),
          all.host_memory.count(),
          all.streams.size(),
          all.events.size(),
          all.graphs.size() + all.executables.size(),
          all.device_memory.bytes()};
}

}  // namespace regatta::emulation

cudaError_t cudaGetLastError() {
  return std::exchange(regatta::emulation::last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() { return regatta::emulation::last_error; }
