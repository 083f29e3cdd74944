#include "trainer/step/granule_sums.h"

#include <algorithm>

#include "base/error.h"
#include "trainer/model/bert.h"
#include "trainer/step/shard_sums.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

constexpr std::int64_t kMostWidth = 4;

std::int64_t granules_of(std::int64_t size) { return (size + kGranule - 1) / kGranule; }

}  // namespace

GranuleSums::GranuleSums(device::Device& device, ranks::Communicator& communicator,
                         const contract::TensorTable& table, const Held& held, bool lamb)
    : device_(device),
      communicator_(communicator),
      arena_size_(table.arena_size),
      held_(held),
      sums_(device, kMostWidth * granules_of(table.arena_size), device::Dtype::Float32) {
  const std::int64_t held_end = held.begin + held.size;
  base::check(held.begin % kGranule == 0 && (held_end % kGranule == 0 || held_end == arena_size_),
              "whole granules are held");
  if (!lamb) return;
  std::int64_t number = 0;
  for (const contract::TensorEntry& tensor : table.tensors) {
    first_cell_.push_back(number);
    const std::int64_t end = tensor.offset + tensor.size;
    for (std::int64_t begin = tensor.offset; begin < end; ++number) {
      const std::int64_t next = std::min(end, (begin / kGranule + 1) * kGranule);
      if (begin >= held.begin && begin < held_end) {
        const auto index = static_cast<std::int64_t>(first_cell_.size()) - 1;
        cells_.push_back({index, begin, next - begin, number});
      }
      begin = next;
    }
  }
  first_cell_.push_back(number);
  cell_sums_ = device::DeviceMemory(device, 2 * number, device::Dtype::Float32);
}

// Every sum is one rank's, and 0 on the others, so that their order is none.
void GranuleSums::share(device::View sums) {
  if (is_whole()) return;
  communicator_.finish(kCompute, communicator_.all_reduce_sum(kCompute, sums));
}

void GranuleSums::sum(int width, const Body& body, device::View result) {
  base::check(width >= 1 && width <= kMostWidth, "one to four sums");
  const device::View sums = sums_.view().slice(0, width * granules_of(arena_size_));
  device_.fill_zero(kCompute, sums);
  const std::int64_t end = held_.begin + held_.size;
  for (std::int64_t begin = held_.begin; begin < end; begin += kGranule) {
    body(begin, std::min(kGranule, end - begin), sums.slice(begin / kGranule * width, width));
  }
  share(sums);
  device_.fill_zero(kCompute, result);
  device_.add_column_sums(kCompute, sums, width, result);
}

device::View GranuleSums::begin_cells() {
  device_.fill_zero(kCompute, cell_sums_.view());
  return cell_sums_.view();
}

void GranuleSums::sum_cells(device::View result) {
  share(cell_sums_.view());
  device_.fill_zero(kCompute, result);
  for (std::size_t t = 0; t + 1 < first_cell_.size(); ++t) {
    const std::int64_t first = first_cell_[t], count = first_cell_[t + 1] - first;
    device_.add_column_sums(kCompute, cell_sums_.view().slice(2 * first, 2 * count), 2,
                            result.slice(2 * static_cast<std::int64_t>(t), 2));
  }
}

}  // namespace regatta::trainer::step
