#include "trainer/cuda/graph_cache.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "trainer/cuda/check.h"

namespace regatta::trainer::cuda {

void GraphCache::refuse_capture(const char* what) const {
  if (!capturing_) return;
  throw base::Error(
      base::Code::Developer,
      std::string(what) + " cannot be captured into a graph; do it outside of repeat");
}

void GraphCache::repeat(cudaStream_t stream, std::uint64_t key,
                        const std::function<void()>& enqueue) {
  if (most_ <= 0 || capturing_) {
    enqueue();
    return;
  }
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.stream == stream && entry.key == key;
  });
  if (found == entries_.end()) {
    enqueue();
    make_room();
    entries_.push_front({stream, key, nullptr, false});
    return;
  }
  entries_.splice(entries_.begin(), entries_, found);
  Entry& entry = entries_.front();
  if (entry.graph == nullptr && !entry.failed) {
    entry.graph = capture(stream, enqueue);
    entry.failed = entry.graph == nullptr;
  }
  if (entry.failed) {
    enqueue();
  } else {
    check(cudaGraphLaunch(entry.graph.get(), stream), "launching a graph");
  }
}

void GraphCache::forget() {
  if (entries_.empty()) return;
  check(cudaDeviceSynchronize(), "waiting for the GPU");
  entries_.clear();
}

void GraphCache::make_room() {
  while (entries_.size() >= static_cast<std::size_t>(most_)) {
    // Its last launch may still run; a graph is dropped too rarely for the wait to matter.
    if (entries_.back().graph != nullptr) {
      check(cudaStreamSynchronize(entries_.back().stream), "waiting for a graph");
    }
    entries_.pop_back();
  }
}

// Null, with the reason noted, if it fails. Thread-local: another thread may allocate meanwhile.
GraphCache::Graph GraphCache::capture(cudaStream_t stream, const std::function<void()>& enqueue) {
  std::string failure;
  cudaGraph_t graph = nullptr;
  cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (status == cudaSuccess) {
    capturing_ = true;
    try {
      enqueue();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    capturing_ = false;
    status = cudaStreamEndCapture(stream, &graph);  // also ends a capture that went wrong
    // A stream that is left capturing would refuse all that follows.
    if (status != cudaSuccess) static_cast<void>(cudaStreamEndCapture(stream, &graph));
  }
  cudaGraphExec_t executable = nullptr;
  if (failure.empty() && status == cudaSuccess) {
    status = cudaGraphInstantiate(&executable, graph, 0);
  }
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  if (failure.empty() && status == cudaSuccess) status = cudaGraphUpload(executable, stream);
  Graph result(executable);
  if (failure.empty() && status == cudaSuccess) return result;
  static_cast<void>(cudaGetLastError());  // so that no later call reports it
  if (failure.empty()) failure = cudaGetErrorString(status);
  if (++failures_ == 1) first_failure_ = failure;
  return nullptr;
}

}  // namespace regatta::trainer::cuda
