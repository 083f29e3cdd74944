#include "trainer/step/gradient_reducer.h"

#include <cmath>

#include "base/error.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

}  // namespace

std::vector<ArenaSlice> slices_of(const contract::TensorTable& table,
                                  const std::vector<topology::plan::Bucket>& buckets) {
  std::vector<ArenaSlice> slices;
  int end = 0;
  for (const topology::plan::Bucket& bucket : buckets) {
    base::check(bucket.begin_tensor >= end && bucket.end_tensor > bucket.begin_tensor &&
                    bucket.end_tensor <= static_cast<int>(table.tensors.size()),
                "buckets hold tensors of the table, in order");
    end = bucket.end_tensor;
    ArenaSlice slice;
    slice.begin = table.tensors[static_cast<std::size_t>(bucket.begin_tensor)].offset;
    for (int i = bucket.begin_tensor; i < bucket.end_tensor; ++i) {
      const contract::TensorEntry& tensor = table.tensors[static_cast<std::size_t>(i)];
      slice.size = tensor.offset + tensor.size - slice.begin;
      slice.parameters += tensor.size;
    }
    slices.push_back(slice);
  }
  return slices;
}

double bucket_limit(double clip_norm, std::int64_t bucket_parameters, std::int64_t parameters,
                    int ranks) {
  return clip_norm *
         std::sqrt(static_cast<double>(bucket_parameters) / static_cast<double>(parameters)) /
         ranks;
}

GradientReducer::GradientReducer(device::Device& device, ranks::Communicator& communicator,
                                 const base::Clock& clock, const model::Bert& model,
                                 const std::vector<topology::plan::Bucket>& buckets,
                                 const contract::RunConfig& config)
    : device_(device),
      communicator_(communicator),
      clock_(clock),
      model_(model),
      clip_(config.clip),
      clip_norm_(config.clip_norm),
      overlap_(config.buckets.overlap),
      sharded_(config.sharding.optimizer) {
  const auto most = static_cast<std::int64_t>(model.table().tensors.size()) + 1;
  limits_ = device::DeviceMemory(device, most, device::Dtype::Float32);
  local_norms_ = device::DeviceMemory(device, most, device::Dtype::Float32);
  host_limits_ = device::HostMemory(device, 4 * most);
  cut(buckets);
}

void GradientReducer::cut(const std::vector<topology::plan::Bucket>& buckets) {
  base::check(pending_.empty(), "no reduction is under way");
  buckets_ = buckets;
  slices_ = slices_of(model_.table(), buckets);
  limit_values_.clear();
  for (const ArenaSlice& slice : slices_) {
    limit_values_.push_back(bucket_limit(clip_norm_, slice.parameters,
                                         model_.table().parameter_count, communicator_.ranks()));
  }
  limit_values_.push_back(clip_norm_ / communicator_.ranks());
}

// Of this cut.
device::View GradientReducer::used(const device::DeviceMemory& memory) const {
  return memory.view().slice(0, static_cast<std::int64_t>(limit_values_.size()));
}

device::View GradientReducer::gradient(const ArenaSlice& slice) const {
  return model_.gradients().slice(slice.begin, slice.size);
}

bool GradientReducer::overlaps() const {
  return overlap_ && clip_ != contract::ClipMode::Rank && communicator_.ranks() > 1;
}

void GradientReducer::begin(double loss_scale, double start) {
  base::check(pending_.empty(), "the last step's reductions are over");
  start_ = start;
  exposed_ = 0;
  launched_.clear();
  finished_.clear();
  if (clip_ != contract::ClipMode::Bucket && clip_ != contract::ClipMode::Rank) return;
  float* limits = host_limits_.floats();
  for (std::size_t i = 0; i < limit_values_.size(); ++i) {
    limits[i] = static_cast<float>(limit_values_[i] * loss_scale);
  }
  device_.copy_to_device(kCompute, used(limits_), limits);
}

void GradientReducer::ready(int tensors) {
  while (pending_.size() < buckets_.size() && buckets_[pending_.size()].end_tensor <= tensors) {
    launch(pending_.size());
  }
}

void GradientReducer::launch(std::size_t bucket) {
  const device::View whole = gradient(slices_[bucket]);
  if (clip_ == contract::ClipMode::Bucket) {
    const auto index = static_cast<std::int64_t>(bucket);
    const device::View norm = local_norms_.view().slice(index, 1);
    device_.sum_of_squares(kCompute, whole, norm);
    device_.limit_norm(kCompute, whole, norm, limits_.view().slice(index, 1));
  }
  launched_.push_back(clock_.monotonic_seconds() - start_);
  pending_.push_back(sharded_ ? communicator_.reduce_scatter_sum(kCompute, whole)
                              : communicator_.all_reduce_sum(kCompute, whole));
}

void GradientReducer::finish() {
  if (clip_ == contract::ClipMode::Rank) {  // needs the norm of all of it before any of it may go
    const auto last = static_cast<std::int64_t>(limit_values_.size()) - 1;
    const device::View norm = local_norms_.view().slice(last, 1);
    device_.sum_of_squares(kCompute, model_.gradients(), norm);
    device_.limit_norm(kCompute, model_.gradients(), norm, limits_.view().slice(last, 1));
  }
  ready(static_cast<int>(model_.table().tensors.size()));
  const double mark = clock_.monotonic_seconds();
  for (const ranks::Pending pending : pending_) communicator_.finish(kCompute, pending);
  exposed_ = clock_.monotonic_seconds() - mark;
  finished_.swap(pending_);
  pending_.clear();
}

GradientReducer::Spans GradientReducer::spans() const {
  Spans spans;
  if (communicator_.ranks() == 1) return spans;
  spans.launched = launched_;
  for (const ranks::Pending pending : finished_) {
    spans.finished.push_back(communicator_.done_at(pending) - start_);
  }
  return spans;
}

}  // namespace regatta::trainer::step
