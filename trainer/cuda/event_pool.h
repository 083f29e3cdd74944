// Numbers for events, and CUDA's events behind them, which are used again once their work is done.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <vector>

#include "trainer/cuda/handles.h"
#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

class EventPool {
 public:
  // Events known to be done are looked for when so many are pending; a host that runs further
  // ahead than that makes more of them.
  static constexpr std::size_t kPending = 64;

  [[nodiscard]] device::Event record(cudaStream_t stream);
  // Waiting for one that is done costs nothing, however old it is.
  void wait(cudaStream_t stream, device::Event event);
  void wait_host(device::Event event);
  // Everything recorded is done: the host has synchronised with the GPU.
  void all_done();

 private:
  struct Pending {
    device::Event number;
    OwnEvent event;
  };
  // The end for one that is done.
  [[nodiscard]] std::deque<Pending>::iterator find(device::Event event);
  void recycle_done();

  std::deque<Pending> pending_;  // in the order of their numbers
  std::vector<OwnEvent> idle_;
  device::Event last_ = 0;
};

}  // namespace regatta::trainer::cuda
