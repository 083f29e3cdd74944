#include "trainer/samples/batch_prefetcher.h"

#include <chrono>
#include <utility>

namespace regatta::trainer::samples {

BatchPrefetcher::BatchPrefetcher(Collect collect) : collect_(std::move(collect)) {}

BatchPrefetcher::Taken BatchPrefetcher::take(const StepPlace& place,
                                             const std::optional<StepPlace>& next) {
  Taken taken;
  if (next_.valid() && next_place_ == place) {
    taken.stalled = next_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    taken.step = next_.get();
  } else {
    forget();  // one call at a time
    taken.step = collect_(place);
  }
  if (next) {
    next_place_ = *next;
    next_ = std::async(std::launch::async, [this, place = *next] { return collect_(place); });
  }
  return taken;
}

void BatchPrefetcher::forget() {
  if (next_.valid()) next_.wait();
  next_ = {};
}

}  // namespace regatta::trainer::samples
