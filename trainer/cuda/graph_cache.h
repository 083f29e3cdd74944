// Device::repeat: sequences of operations captured into CUDA graphs. The first call with a key runs
// plainly (products are timed, scratch memory and tables are made, none of which can be captured),
// the second captures, later ones replay. What cannot be captured runs plainly forever.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

namespace regatta::trainer::cuda {

class GraphCache {
 public:
  // Keeps the `most` last used keys; 0: every call runs plainly.
  explicit GraphCache(int most) : most_(most) {}

  void repeat(cudaStream_t stream, std::uint64_t key, const std::function<void()>& enqueue);
  // Waits for the GPU, then drops all graphs.
  void forget();

  [[nodiscard]] bool capturing() const { return capturing_; }
  // Throws unless nothing is captured right now: `what` cannot be part of a graph. repeat() then
  // runs plainly.
  void refuse_capture(const char* what) const;
  // Keys that run plainly because capturing failed, and why the first did.
  [[nodiscard]] std::int64_t failures() const { return failures_; }
  [[nodiscard]] const std::string& first_failure() const { return first_failure_; }

 private:
  struct DestroyGraph {
    void operator()(CUgraphExec_st* graph) const { static_cast<void>(cudaGraphExecDestroy(graph)); }
  };
  using Graph = std::unique_ptr<CUgraphExec_st, DestroyGraph>;
  struct Entry {
    cudaStream_t stream = nullptr;
    std::uint64_t key = 0;
    Graph graph;          // null before the second call
    bool failed = false;  // not to be tried again
  };

  [[nodiscard]] Graph capture(cudaStream_t stream, const std::function<void()>& enqueue);
  void make_room();

  int most_;
  std::list<Entry> entries_;  // the last used first
  bool capturing_ = false;
  std::int64_t failures_ = 0;
  std::string first_failure_;
};

}  // namespace regatta::trainer::cuda
