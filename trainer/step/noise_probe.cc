#include "trainer/step/noise_probe.h"

#include <numeric>
#include <utility>

#include "base/philox.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

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
      kept_(device, optimizer.second_moment().size, device::Dtype::Float32),
      sums_(device, 4, device::Dtype::Float32),
      host_sums_(device, 4 * 4) {}

void NoiseProbe::keep_half() {
  for (const StatePiece& piece : optimizer_.pieces()) {
    device_.copy(kCompute, kept_.view().slice(piece.state_begin, piece.size),
                 model_.gradients().slice(piece.arena_begin, piece.size));
  }
}

void NoiseProbe::measure(std::int64_t updates, double half_to_rest) {
  preconditions_ = updates >= kLeastUpdates;
  for (const StatePiece& piece : optimizer_.pieces()) {
    device_.add(kCompute, model_.gradients().slice(piece.arena_begin, piece.size),
                kept_.view().slice(piece.state_begin, piece.size));
  }
  optimizer_.sum_noise(model_, kept_.view(), half_to_rest, sums_.view());
  device_.copy_to_host(kCompute, host_sums_.floats(), sums_.view());
}

NoiseNorms NoiseProbe::norms() const {
  const auto sum = [this](int k) { return static_cast<double>(host_sums_.floats()[k]); };
  NoiseNorms norms{sum(0), sum(1), std::nullopt};
  if (preconditions_) norms.preconditioned = {sum(2), sum(3)};
  return norms;
}

}  // namespace regatta::trainer::step
