#include "trainer/step/weight_gatherer.h"

#include "base/error.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

}  // namespace

WeightGatherer::WeightGatherer(device::Device& device, ranks::Communicator& communicator,
                               const base::Clock& clock, const model::Bert& model,
                               const std::vector<topology::plan::Bucket>& buckets)
    : device_(device),
      communicator_(communicator),
      clock_(clock),
      model_(model),
      buckets_(buckets),
      slices_(slices_of(model.table(), buckets)),
      pending_(buckets.size()),
      under_way_(buckets.size(), false) {}

void WeightGatherer::launch() {
  base::check(left_ == 0, "the last gather is over");
  exposed_ = 0;
  for (std::size_t i = buckets_.size(); i-- > 0;) {
    pending_[i] = communicator_.all_gather(
        kCompute, model_.parameters().slice(slices_[i].begin, slices_[i].size));
    under_way_[i] = true;
  }
  left_ = buckets_.size();
}

void WeightGatherer::finish(int begin, int end) {
  if (left_ == 0) return;
  for (std::size_t i = buckets_.size(); i-- > 0;) {
    const bool wanted = buckets_[i].begin_tensor < end && buckets_[i].end_tensor > begin;
    if (!under_way_[i] || !wanted) continue;
    const double mark = clock_.monotonic_seconds();
    communicator_.finish(kCompute, pending_[i]);
    exposed_ += clock_.monotonic_seconds() - mark;
    under_way_[i] = false;
    --left_;
    if (model_.compute_copy().size > 0) {
      device_.convert(kCompute, model_.compute_copy().slice(slices_[i].begin, slices_[i].size),
                      model_.parameters().slice(slices_[i].begin, slices_[i].size));
    }
  }
}

void WeightGatherer::finish_all() { finish(0, buckets_.back().end_tensor); }

}  // namespace regatta::trainer::step
