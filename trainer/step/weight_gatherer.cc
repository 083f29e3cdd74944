#include "trainer/step/weight_gatherer.h"

#include <utility>

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

void WeightGatherer::gather_ranges(std::vector<ArenaSlice> ranges) {
  base::check(
      left_ == 0 && model_.compute_copy().size == 0 && std::ssize(ranges) == communicator_.ranks(),
      "each rank has a range of float32 weights");
  ranges_ = std::move(ranges);
  pending_.assign(ranges_.size(), 0);
  under_way_.assign(ranges_.size(), false);
}

void WeightGatherer::launch() {
  base::check(left_ == 0, "the last gather is over");
  exposed_ = 0;
  for (std::size_t i = ranges_.size(); i-- > 0;) {
    if (ranges_[i].size == 0) continue;
    pending_[i] = communicator_.broadcast(
        kCompute, model_.parameters().slice(ranges_[i].begin, ranges_[i].size),
        static_cast<int>(i));
    under_way_[i] = true;
    ++left_;
  }
  if (!ranges_.empty()) return;
  for (std::size_t i = buckets_.size(); i-- > 0;) {
    pending_[i] = communicator_.all_gather(
        kCompute, model_.parameters().slice(slices_[i].begin, slices_[i].size));
    under_way_[i] = true;
  }
  left_ = buckets_.size();
}

bool WeightGatherer::is_read(std::size_t part, int begin, int end) const {
  if (ranges_.empty()) {
    return buckets_[part].begin_tensor < end && buckets_[part].end_tensor > begin;
  }
  const auto& tensors = model_.table().tensors;
  const std::int64_t first = tensors[static_cast<std::size_t>(begin)].offset;
  const contract::TensorEntry& last = tensors[static_cast<std::size_t>(end) - 1];
  const ArenaSlice& range = ranges_[part];
  return range.begin < last.offset + last.size && range.begin + range.size > first;
}

void WeightGatherer::finish(int begin, int end) {
  if (left_ == 0 || begin >= end) return;
  for (std::size_t i = under_way_.size(); i-- > 0;) {
    if (!under_way_[i] || !is_read(i, begin, end)) continue;
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

void WeightGatherer::finish_all() { finish(0, static_cast<int>(model_.table().tensors.size())); }

}  // namespace regatta::trainer::step
