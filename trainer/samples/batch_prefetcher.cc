#include "trainer/samples/batch_prefetcher.h"

#include <chrono>
#include <utility>

namespace regatta::trainer::samples {

BatchPrefetcher::BatchPrefetcher(Collect collect, std::int64_t last_step)
    : collect_(std::move(collect)), last_step_(last_step) {}

BatchPrefetcher::Taken BatchPrefetcher::take(std::int64_t step) {
  Taken taken;
  if (next_.valid() && next_step_ == step) {
    taken.stalled = next_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    taken.step = next_.get();
  } else {
    forget();  // one call at a time
    taken.step = collect_(step);
  }
  next_step_ = step + 1;
  if (next_step_ <= last_step_) {
    next_ = std::async(std::launch::async, [this, next = next_step_] { return collect_(next); });
  }
  return taken;
}

void BatchPrefetcher::forget() {
  if (next_.valid()) next_.wait();
  next_ = {};
}

}  // namespace regatta::trainer::samples
