#include "trainer/numerics/update_ratio.h"

#include <algorithm>

#include "trainer/model/input_feed.h"

namespace regatta::trainer::numerics {
namespace {

using model::kCompute;

void add_runs(std::int64_t begin, std::int64_t size, std::size_t layer,
              std::vector<SampledRun>* runs) {
  constexpr std::int64_t kAll = WeightSample::kRuns * WeightSample::kRunElements;
  if (size <= kAll) {
    if (size > 0) runs->push_back({{begin, size}, layer, 1});
    return;
  }
  const double stands_for = static_cast<double>(size) / kAll;
  for (std::int64_t run = 0; run < WeightSample::kRuns; ++run) {
    // In the middle of its part of the tensor.
    const std::int64_t middle = size * (2 * run + 1) / (2 * WeightSample::kRuns);
    const std::int64_t from = middle - WeightSample::kRunElements / 2;
    runs->push_back({{begin + from, WeightSample::kRunElements}, layer, stands_for});
  }
}

}  // namespace

std::int64_t WeightSample::elements() const {
  std::int64_t all = 0;
  for (const SampledRun& run : runs) all += run.span.size;
  return all;
}

WeightSample sample_weights(const contract::TensorTable& table, const std::vector<Span>& spans) {
  WeightSample sample;
  for (const contract::TensorEntry& tensor : table.tensors) {
    const std::string layer = contract::layer_of(tensor.name);
    const auto known = std::find(sample.layers.begin(), sample.layers.end(), layer);
    const auto place = static_cast<std::size_t>(known - sample.layers.begin());
    if (known == sample.layers.end()) sample.layers.push_back(layer);
    for (const Span& span : spans) {
      const std::int64_t begin = std::max(tensor.offset, span.begin);
      const std::int64_t end = std::min(tensor.offset + tensor.size, span.begin + span.size);
      add_runs(begin, end - begin, place, &sample.runs);
    }
  }
  return sample;
}

UpdateRatio::UpdateRatio(device::Device& device, const contract::TensorTable& table,
                         const std::vector<Span>& spans)
    : device_(device),
      sample_(sample_weights(table, spans)),
      before_(device, 4 * std::max<std::int64_t>(1, sample_.elements())),
      after_(device, 4 * std::max<std::int64_t>(1, sample_.elements())) {}

void UpdateRatio::copy(device::View parameters, const device::HostMemory& to) {
  float* place = to.floats();
  for (const SampledRun& run : sample_.runs) {
    device_.copy_to_host(kCompute, place, parameters.slice(run.span.begin, run.span.size));
    place += run.span.size;
  }
}

std::vector<LayerUpdate> UpdateRatio::layers() const {
  std::vector<LayerUpdate> layers;
  for (const std::string& name : sample_.layers) layers.push_back({name, 0, 0});
  const float* old_weight = before_.floats();
  const float* new_weight = after_.floats();
  for (const SampledRun& run : sample_.runs) {
    double change = 0, weight = 0;
    for (std::int64_t i = 0; i < run.span.size; ++i) {
      const double was = old_weight[i], is = new_weight[i];
      change += (is - was) * (is - was);
      weight += was * was;
    }
    layers[run.layer].change += run.stands_for * change;
    layers[run.layer].weight += run.stands_for * weight;
    old_weight += run.span.size;
    new_weight += run.span.size;
  }
  return layers;
}

}  // namespace regatta::trainer::numerics
