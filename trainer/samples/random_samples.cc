#include "trainer/samples/random_samples.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/philox.h"
#include "trainer/samples/permutation.h"

namespace regatta::trainer::samples {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::uint32_t kBenchSite = 1000;
constexpr double kMaskFraction = 0.15;

Sample random_sample(std::int32_t length, std::int64_t number, const contract::ModelShape& shape) {
  base::PhiloxStream random(kSeed, static_cast<std::uint32_t>(number), 0, kBenchSite);
  const auto pieces = static_cast<std::uint32_t>(shape.vocabulary);
  Sample sample;
  for (std::int32_t i = 0; i < length; ++i) {
    sample.ids.push_back(static_cast<std::int32_t>(random.below(pieces)));
    sample.types.push_back(i < length / 2 ? 0 : 1);
  }
  const auto masked = std::max<std::int64_t>(1, std::llround(kMaskFraction * length));
  for (std::int64_t i = 0; i < masked; ++i) {
    sample.masked_positions.push_back(static_cast<std::int32_t>(i * length / masked));
    sample.masked_labels.push_back(static_cast<std::int32_t>(random.below(pieces)));
  }
  sample.sample_label = static_cast<std::int32_t>(random.below(2));
  return sample;
}

}  // namespace

SampleStream random_samples(const contract::LengthTable& lengths, const contract::ModelShape& shape,
                            std::int64_t period) {
  const Permutation order(static_cast<std::uint64_t>(period), kSeed, 0);
  const auto length = [lengths, order, period, longest = shape.max_positions](std::int64_t number) {
    const auto place = order(static_cast<std::uint64_t>(number % period));
    const double u = (static_cast<double>(place) + 0.5) / static_cast<double>(period);
    return static_cast<std::int32_t>(std::min<std::int64_t>(lengths.quantile(u), longest));
  };
  SampleStream stream;
  stream.at = [length, shape, period](std::int64_t number) {
    return random_sample(length(number), number % period, shape);
  };
  stream.length = length;
  return stream;
}

SampleStream padded_samples(SampleStream samples, std::int32_t length) {
  SampleStream stream;
  stream.at = [samples = std::move(samples), length](std::int64_t number) {
    Sample sample = samples.at(number);
    const auto size = std::max(sample.ids.size(), static_cast<std::size_t>(length));
    sample.ids.resize(size, 0);
    sample.types.resize(size, 0);
    return sample;
  };
  stream.length = [length](std::int64_t) { return length; };
  return stream;
}

}  // namespace regatta::trainer::samples
