#include "trainer/cuda/event_pool.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace regatta::trainer::cuda {

device::Event EventPool::record(cudaStream_t stream) {
  if (pending_.size() >= kPending) recycle_done();
  if (idle_.empty()) idle_.emplace_back();
  OwnEvent event = std::move(idle_.back());
  idle_.pop_back();
  check(cudaEventRecord(event.get(), stream), "recording an event");
  pending_.push_back({++last_, std::move(event)});
  return last_;
}

void EventPool::wait(cudaStream_t stream, device::Event event) {
  const auto found = find(event);
  if (found == pending_.end()) return;
  check(cudaStreamWaitEvent(stream, found->event.get(), 0), "waiting for an event");
}

void EventPool::wait_host(device::Event event) {
  const auto found = find(event);
  if (found == pending_.end()) return;
  check(cudaEventSynchronize(found->event.get()), "waiting for the GPU");
  idle_.push_back(std::move(found->event));
  pending_.erase(found);
}

void EventPool::all_done() {
  for (Pending& pending : pending_) idle_.push_back(std::move(pending.event));
  pending_.clear();
}

std::deque<EventPool::Pending>::iterator EventPool::find(device::Event event) {
  base::check(event >= 1 && event <= last_, "an event is recorded before it is waited for");
  const auto found = std::lower_bound(
      pending_.begin(), pending_.end(), event,
      [](const Pending& pending, device::Event number) { return pending.number < number; });
  return found != pending_.end() && found->number == event ? found : pending_.end();
}

// The oldest are done first, but for streams that are behind others.
void EventPool::recycle_done() {
  while (!pending_.empty()) {
    const cudaError_t status = cudaEventQuery(pending_.front().event.get());
    if (status == cudaErrorNotReady) return;
    check(status, "asking for an event");
    idle_.push_back(std::move(pending_.front().event));
    pending_.pop_front();
  }
}

}  // namespace regatta::trainer::cuda
