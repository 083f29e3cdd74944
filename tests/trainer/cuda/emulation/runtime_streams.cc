// Streams, events, captures and graphs of the emulated runtime API.
#include <algorithm>

#include "tests/trainer/cuda/emulation/machine.h"
#include "tests/trainer/cuda/emulation/runtime_api.h"

using regatta::emulation::Capture;
using regatta::emulation::enqueue;
using regatta::emulation::Machine;
using regatta::emulation::machine;
using regatta::emulation::result;

namespace {

// Calls body() under the lock, unless the call itself fails.
template <typename Body>
cudaError_t guarded(Body body) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  if (const cudaError_t error = all.enter(); error != cudaSuccess) return result(error);
  return result(body(all));
}
template <typename Body>
cudaError_t guarded_unsafe(Body body) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  if (const cudaError_t error = all.enter_unsafe(); error != cudaSuccess) return result(error);
  return result(body(all));
}

cudaError_t invalidate(Capture* capture, cudaError_t error) {
  capture->valid = false;
  return error;
}

void join(Machine& all, std::uint64_t number, cudaStream_t stream) {
  Capture& capture = all.captures.at(number);
  stream->capture = &capture;
  stream->reached.clear();
  capture.streams.insert(stream);
}

void leave_all(Capture& capture) {
  for (const cudaStream_t stream : capture.streams) {
    stream->capture = nullptr;
    stream->reached.clear();
  }
}

void merge(Reached& into, const Reached& from) {
  for (const auto& [stream, count] : from) into[stream] = std::max(into[stream], count);
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return guarded([&](Machine& all) {
    if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = new CUstream_st;
    (*stream)->blocking = flags == cudaStreamDefault;
    all.streams.insert(*stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return guarded([&](Machine&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return guarded([&](Machine& all) {
    if (all.streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      stream->capture->valid = false;
      stream->capture->streams.erase(stream);
    }
    delete stream;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return guarded_unsafe([&](Machine& all) {
    if (!all.knows(stream)) return cudaErrorInvalidResourceHandle;
    if (stream != nullptr && stream->capture != nullptr) {
      return invalidate(stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
  });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user) {
  return result(enqueue(stream, [=] { function(user); }));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return guarded([&](Machine& all) {
    if (!all.knows(stream) || all.events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    if (!event->recorded) return cudaSuccess;
    Capture* const mine = stream != nullptr ? stream->capture : nullptr;
    const bool open = all.captures.count(event->capture_number) != 0;
    if (event->capture_number != 0 && !open) return cudaErrorCapturedEvent;
    if (event->capture_number == 0) {
      return mine == nullptr ? cudaSuccess : invalidate(mine, cudaErrorStreamCaptureIsolation);
    }
    if (stream == nullptr) return cudaErrorStreamCaptureImplicit;
    if (mine == nullptr) {
      join(all, event->capture_number, stream);
    } else if (mine != &all.captures.at(event->capture_number)) {
      return invalidate(mine, cudaErrorStreamCaptureMerge);
    }
    merge(stream->reached, event->reached);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return guarded([&](Machine& all) {
    if (event == nullptr || flags > 7) return cudaErrorInvalidValue;
    *event = new CUevent_st;
    (*event)->timed = (flags & cudaEventDisableTiming) == 0;
    all.events.insert(*event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return guarded([&](Machine& all) {
    if (all.events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return guarded([&](Machine& all) {
    if (!all.knows(stream) || all.events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    Capture* const capture = stream != nullptr ? stream->capture : nullptr;
    if (capture != nullptr && !capture->valid) return cudaErrorStreamCaptureInvalidated;
    event->recorded = true;
    event->time = std::chrono::steady_clock::now();
    event->capture_number = all.number_of(capture);
    event->reached = capture != nullptr ? stream->reached : Reached{};
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return guarded_unsafe([&](Machine& all) {
    if (all.events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    return event->capture_number != 0 ? cudaErrorCapturedEvent : cudaSuccess;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return guarded([&](Machine& all) {
    for (const cudaEvent_t event : {start, end}) {
      if (all.events.count(event) == 0 || !event->recorded || !event->timed) {
        return cudaErrorInvalidResourceHandle;
      }
      if (event->capture_number != 0) return cudaErrorCapturedEvent;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return guarded([&](Machine& all) {
    if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
    if (!all.knows(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) return cudaErrorInvalidValue;
    Capture& capture = all.captures[++all.last_capture];
    capture.origin = stream;
    capture.mode = mode;
    capture.thread = std::this_thread::get_id();
    capture.graph = new CUgraph_st;
    join(all, all.last_capture, stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return guarded([&](Machine& all) {
    if (stream == nullptr || !all.knows(stream)) return cudaErrorInvalidResourceHandle;
    Capture* const capture = stream->capture;
    if (capture == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    if (capture->origin != stream) return invalidate(capture, cudaErrorStreamCaptureUnmatched);
    cudaError_t outcome = capture->valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
    for (const cudaStream_t joined : capture->streams) {
      if (outcome == cudaSuccess && stream->reached[joined] < joined->reached[joined]) {
        outcome = cudaErrorStreamCaptureUnjoined;
      }
    }
    if (outcome == cudaSuccess) {
      *graph = capture->graph;
      all.graphs.insert(capture->graph);
    } else {
      delete capture->graph;
    }
    leave_all(*capture);
    all.captures.erase(all.number_of(capture));
    return outcome;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return guarded([&](Machine& all) {
    if (!all.knows(stream)) return cudaErrorInvalidResourceHandle;
    *status = cudaStreamCaptureStatusNone;
    if (stream != nullptr && stream->capture != nullptr) {
      *status = stream->capture->valid ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return guarded([&](Machine& all) {
    if (executable == nullptr || all.graphs.count(graph) == 0) return cudaErrorInvalidValue;
    *executable = new CUgraphExec_st{graph->work};
    all.executables.insert(*executable);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return guarded([&](Machine& all) {
    const bool known = all.executables.count(executable) != 0 && all.knows(stream);
    return known ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  {
    const std::lock_guard lock(machine().mutex);
    if (machine().executables.count(executable) == 0) return result(cudaErrorInvalidValue);
  }
  return result(enqueue(stream, [work = executable->work] {
    for (const Work& step : work) step();
  }));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return guarded([&](Machine& all) {
    if (all.executables.erase(executable) == 0) return cudaErrorInvalidValue;
    delete executable;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return guarded([&](Machine& all) {
    if (all.graphs.erase(graph) == 0) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}
