// Sums of the gradient noise scale beside their formula in float64, and what they are for: halves
// of a step without any signal look like halves without any signal.
#include <array>
#include <limits>
#include <random>

#include "tests/trainer/device/op_cases.h"

namespace regatta::tests {
namespace {

using trainer::device::NoiseSums;
using trainer::device::View;
using Sums = std::array<double, 4>;

struct Arrays {
  std::vector<float> difference, mean, second_moment;
};
// Second moments of 0 among them, where words are new.
Arrays random_arrays(std::int64_t size, std::uint32_t seed) {
  Numbers numbers(seed);
  Arrays arrays{numbers.floats(size, 0.3F), numbers.floats(size), numbers.floats(size)};
  for (std::size_t i = 0; i < arrays.mean.size(); ++i) {
    float& v = arrays.second_moment[i];
    v = i % 3 == 0 ? 0 : v * v;
    if (i % 5 == 0) arrays.mean[i] = arrays.difference[i] = v = 0;
  }
  return arrays;
}

struct Step {
  float inverse_scale = 1, clip = 0, squared_norm = 9, part_to_rest = 1;
};
constexpr float kBeta2 = 0.999F, kEpsilon = 1e-6F, kCorrection = 0.25F;

std::vector<float> scalars_of(const Step& step) {
  std::vector<float> scalars(trainer::device::kStepScalars, 0.0F);
  scalars[trainer::device::kBiasCorrection2] = kCorrection;
  scalars[trainer::device::kClipNorm] = step.clip;
  scalars[trainer::device::kInverseLossScale] = step.inverse_scale;
  return scalars;
}

Sums exact_sums(const Arrays& arrays, const Step& step) {
  const auto real = [](float x) { return static_cast<double>(x); };
  const double norm = std::sqrt(real(step.squared_norm)) * real(step.inverse_scale);
  const double limit = step.clip > 0 && norm > real(step.clip) ? real(step.clip) / norm : 1;
  Sums sums{};
  for (std::size_t i = 0; i < arrays.mean.size(); ++i) {
    const double d = real(arrays.difference[i]) * real(step.inverse_scale);
    const double g = real(arrays.mean[i]) * real(step.inverse_scale);
    const double square = limit * limit * (g * g + real(step.part_to_rest) * d * d);
    const double v = real(kBeta2) * real(arrays.second_moment[i]) + (1 - real(kBeta2)) * square;
    const double root = std::sqrt(v / real(kCorrection)) + real(kEpsilon);
    const Sums x = {d, g, d / root, g / root};
    for (std::size_t k = 0; k < x.size(); ++k) sums[k] += x[k] * x[k];
  }
  return sums;
}

NoiseSums op_of(Harness& at, const View& difference, const View& mean, const View& second_moment,
                const Step& step) {
  NoiseSums op;
  op.difference = difference;
  op.mean = mean;
  op.second_moment = second_moment;
  op.part_to_rest = step.part_to_rest;
  op.beta2 = kBeta2;
  op.epsilon = kEpsilon;
  op.scalars = at.floats(scalars_of(step));
  op.squared_norm = at.floats({step.squared_norm});
  return op;
}

// Unclipped, clipped, below the limit, with a loss scale, and with halves of unlike sizes; each of
// the sums adds to what is there.
TEST_P(DeviceOps, NoiseSumsAreAsGoodAsFloat64) {
  const Step steps[] = {{},
                        {1, 1, 25, 1},
                        {1, 10, 25, 1},
                        {0.125F, 1, 400, 1},
                        {1, 0, 9, 0.4F},
                        {0.5F, 2, 400, 2.5F}};
  for (const std::int64_t size : {0, 1, 7, 129, 2048, 2049, 16385, 100001}) {
    const Arrays arrays = random_arrays(size, 7);
    for (const Step& step : steps) {
      NoiseSums op = op_of(at(), at().floats(arrays.difference), at().floats(arrays.mean),
                           at().floats(arrays.second_moment), step);
      const Sums exact = exact_sums(arrays, step);
      op.sums = at().floats({0, 0, 0, 0});
      for (const double times : {1.0, 2.0}) {
        device().add_noise_sums(0, op);
        const std::vector<float> sums = at().read(op.sums);
        for (std::size_t k = 0; k < exact.size(); ++k) {
          EXPECT_NEAR(static_cast<double>(sums[k]), times * exact[k], 1e-6 * times * exact[k])
              << size << ", sum " << k << ", clip " << step.clip;
        }
      }
    }
  }
}

// As pieces of a state lie: at any address, and nothing beside them counts.
TEST_P(DeviceOps, NoiseSumsAreOfTheirSlicesOnly) {
  constexpr std::int64_t kSize = 5000;
  const Arrays arrays = random_arrays(kSize, 9);
  const float nan = std::nanf("");
  const Sums exact = exact_sums(arrays, {});
  for (const std::int64_t skip : {1, 2, 3}) {
    const auto beside = [&](const std::vector<float>& x, std::int64_t before) {
      std::vector<float> all(static_cast<std::size_t>(before), nan);
      all.insert(all.end(), x.begin(), x.end());
      all.resize(all.size() + 4, nan);
      return at().floats(all).slice(before, kSize);
    };
    NoiseSums op = op_of(at(), beside(arrays.difference, skip), beside(arrays.mean, 4 - skip),
                         beside(arrays.second_moment, skip), {});
    op.sums = at().floats({0, 0, 0, 0});
    device().add_noise_sums(0, op);
    const std::vector<float> sums = at().read(op.sums);
    for (std::size_t k = 0; k < exact.size(); ++k) {
      EXPECT_NEAR(static_cast<double>(sums[k]), exact[k], 1e-6 * exact[k]) << skip << " sum " << k;
    }
  }
}

TEST_P(DeviceOps, NoiseSumsShowWhatIsNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Arrays arrays = random_arrays(3000, 4);
    arrays.mean[2900] = bad;
    NoiseSums op = op_of(at(), at().floats(arrays.difference), at().floats(arrays.mean),
                         at().floats(arrays.second_moment), {});
    op.sums = at().floats({0, 0, 0, 0});
    device().add_noise_sums(0, op);
    EXPECT_FALSE(std::isfinite(at().read(op.sums)[1]));
    EXPECT_FALSE(std::isfinite(at().read(op.sums)[3]));
  }
}

// Rows of rare words: most of them have no gradient in most steps, so that their second moments
// know little but the step's own gradient. Halves that are independent of each other and mean
// nothing have no signal, as Monte-Carlo tells within four standard errors, whichever share of the
// step the halves are; and no look weighs much more than others.
TEST_P(DeviceOps, HalvesWithoutSignalHaveNone) {
  constexpr std::size_t kWords = 400, kColumns = 8;
  constexpr int kSteps = 600;
  for (const auto& [m, n] : {std::pair{6.0, 6.0}, {4.0, 8.0}}) {
    std::mt19937_64 random(11);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    std::vector<float> v(kWords * kColumns, 0.0F);
    double sum = 0, squares = 0, most = 0, noises = 0;
    for (int step = 1; step <= kSteps; ++step) {
      Arrays arrays{{}, {}, v};
      for (std::size_t word = 0; word < kWords; ++word) {
        const double chance = 1.0 / (1.0 + static_cast<double>(word));  // as Zipf has it
        const bool in_half = uniform(random) < chance, in_rest = uniform(random) < chance;
        for (std::size_t column = 0; column < kColumns; ++column) {
          const double h = in_half ? normal(random) / std::sqrt(m) : 0;
          const double rest = in_rest ? normal(random) / std::sqrt(n) : 0;
          const double mean = (m * h + n * rest) / (m + n);
          arrays.mean.push_back(static_cast<float>(mean));
          arrays.difference.push_back(static_cast<float>(mean - h));
        }
      }
      Step by;
      by.part_to_rest = static_cast<float>(m / n);
      NoiseSums op = op_of(at(), at().floats(arrays.difference), at().floats(arrays.mean),
                           at().floats(arrays.second_moment), by);
      std::vector<float> scalars = scalars_of(by);
      scalars[trainer::device::kBiasCorrection2] =
          static_cast<float>(1 - std::pow(static_cast<double>(kBeta2), step));
      op.scalars = at().floats(scalars);
      op.sums = at().floats({0, 0, 0, 0});
      device().add_noise_sums(0, op);
      const std::vector<float> sums = at().read(op.sums);
      const double noise = static_cast<double>(sums[2]) * m / n;  // as contract::NoiseScale
      const double signal = static_cast<double>(sums[3]) - noise;
      sum += signal;
      squares += signal * signal;
      noises += noise;
      most = std::max(most, noise);
      for (std::size_t i = 0; i < v.size(); ++i) {
        v[i] = kBeta2 * v[i] + (1 - kBeta2) * arrays.mean[i] * arrays.mean[i];
      }
    }
    const double mean = sum / kSteps;
    const double error = std::sqrt((squares / kSteps - mean * mean) / kSteps);
    EXPECT_NEAR(mean, 0, 4 * error) << m << " beside " << n;
    EXPECT_LT(error, 0.02 * noises / kSteps) << "or that would say nothing";
    EXPECT_LT(most, 20 * noises / kSteps);
  }
}

}  // namespace
}  // namespace regatta::tests
