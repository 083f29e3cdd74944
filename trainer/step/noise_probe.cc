#include "trainer/step/noise_probe.h"

#include <numeric>
#include <utility>

#include "base/philox.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

constexpr int kDifference = 0, kWhole = 1;

}  // namespace

std::vector<bool> half_of_step(std::uint64_t seed, std::int64_t step, int batch) {
  base::PhiloxStream random(seed, 0, static_cast<std::uint32_t>(step),
                            static_cast<std::uint32_t>(contract::RandomSite::Halves));
  std::vector<std::size_t> places(static_cast<std::size_t>(batch));
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::vector<bool> half(places.size(), false);
  for (std::size_t i = 0; i < places.size() / 2; ++i) {  // as far as needed of Fisher and Yates
    std::swap(places[i], places[i + random.below(static_cast<std::uint32_t>(places.size() - i))]);
    half[places[i]] = true;
  }
  return half;
}

NoiseProbe::NoiseProbe(device::Device& device, const model::Bert& model, Optimizer& optimizer)
    : device_(device),
      model_(model),
      optimizer_(optimizer),
      tensors_(static_cast<std::int64_t>(model.table().tensors.size())),
      kept_(device, optimizer.second_moment().size, device::Dtype::Float32),
      norms_(device, 2, device::Dtype::Float32),
      tensor_norms_(device, 4 * tensors_, device::Dtype::Float32),
      host_norms_(device, 4 * 2),
      host_tensor_norms_(device, 4 * 4 * tensors_) {
  device_.fill_zero(kCompute, kept_.view());  // between pieces, for good
}

void NoiseProbe::keep_gradients() {
  for (const StatePiece& piece : optimizer_.pieces()) {
    device_.copy(kCompute, kept_.view().slice(piece.state_begin, piece.size),
                 model_.gradients().slice(piece.arena_begin, piece.size));
  }
}

void NoiseProbe::keep_half() { keep_gradients(); }

device::View NoiseProbe::preconditioned_sums(int which) const {
  return tensor_norms_.view().slice(which * 2 * tensors_, 2 * tensors_);
}

void NoiseProbe::measure_kept(int which, std::int64_t updates) {
  const device::View norm = norms_.view().slice(which, 1);
  optimizer_.sum_squares(kept_.view(), norm);
  if (preconditions_) {
    optimizer_.add_preconditioned(model_, kept_.view(), norm, updates, preconditioned_sums(which));
  }
}

void NoiseProbe::measure(std::int64_t updates) {
  preconditions_ = updates >= kLeastUpdates;
  device_.fill_zero(kCompute, tensor_norms_.view());
  for (const StatePiece& piece : optimizer_.pieces()) {
    device_.add(kCompute, model_.gradients().slice(piece.arena_begin, piece.size),
                kept_.view().slice(piece.state_begin, piece.size));
  }
  measure_kept(kDifference, updates);
  keep_gradients();
  measure_kept(kWhole, updates);
  device_.copy_to_host(kCompute, host_norms_.floats(), norms_.view());
  device_.copy_to_host(kCompute, host_tensor_norms_.floats(), tensor_norms_.view());
}

NoiseNorms NoiseProbe::norms() const {
  NoiseNorms norms;
  norms.difference = static_cast<double>(host_norms_.floats()[kDifference]);
  norms.whole = static_cast<double>(host_norms_.floats()[kWhole]);
  if (!preconditions_) return norms;
  const auto sum = [this](int which) {
    const float* of_tensors = host_tensor_norms_.floats() + which * 2 * tensors_;
    double all = 0;
    for (std::int64_t n = 0; n < tensors_; ++n) all += static_cast<double>(of_tensors[2 * n + 1]);
    return all;
  };
  norms.preconditioned = {sum(kDifference), sum(kWhole)};
  return norms;
}

}  // namespace regatta::trainer::step
