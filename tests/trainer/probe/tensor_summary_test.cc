#include "trainer/probe/tensor_summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace regatta::tests {
namespace {

using trainer::probe::kSketchSize;
using trainer::probe::TensorSummary;

TensorSummary summary_of(const std::vector<float>& values) {
  TensorSummary summary;
  summary.add(values);
  return summary;
}

std::vector<float> normal_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(TensorSummary, HasTheNormAndSumsWithTheSignsOfPhilox) {
  EXPECT_DOUBLE_EQ(summary_of({3, -4}).norm(), 5);
  EXPECT_EQ(TensorSummary().norm(), 0);
  EXPECT_EQ(TensorSummary().digest(), base::digest_of(""));
  // The words of Philox4x32-10 for key 0 and counter 0 (Random123's known answers).
  const std::uint32_t words[] = {0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U};
  for (std::size_t i = 0; i < 128; ++i) {
    std::vector<float> values(i + 1, 0.0F);
    values[i] = 2.5F;
    const TensorSummary summary = summary_of(values);
    for (std::size_t lane = 0; lane < kSketchSize; ++lane) {
      const double sign = (words[i / 32] >> (i % 32) & 1U) == 0 ? 1 : -1;
      EXPECT_EQ(summary.sketch()[lane], lane == i % 32 ? sign * 2.5 : 0) << i << ", " << lane;
    }
  }
  // Element 128 is the first of counter 1.
  std::vector<float> values(129, 0.0F);
  values[128] = 1;
  EXPECT_EQ(std::abs(summary_of(values).sketch()[0]), 1);
}

TEST(TensorSummary, PiecesChangeNoBit) {
  const std::vector<float> values = normal_values(1000, 1);
  const TensorSummary whole = summary_of(values);
  for (const std::size_t piece : {1U, 7U, 32U, 128U, 999U}) {
    TensorSummary parts;
    for (std::size_t begin = 0; begin < values.size(); begin += piece) {
      const std::size_t count = std::min<std::size_t>(piece, values.size() - begin);
      parts.add(std::span(values).subspan(begin, count));
    }
    EXPECT_EQ(parts.digest(), whole.digest()) << piece;
    EXPECT_EQ(parts.norm(), whole.norm()) << piece;
    EXPECT_EQ(parts.sketch(), whole.sketch()) << piece;
    EXPECT_EQ(parts.size(), 1000);
  }
}

// Over many pairs the squared distances of sketches are on average those of the tensors; each is
// off by √(2 / 32) of it, the mean of 400 by 1.3 %: five times that is not exceeded.
TEST(TensorSummary, SketchesTellDistancesWithoutBias) {
  constexpr unsigned kPairs = 400;
  double sum = 0;
  for (unsigned pair = 0; pair < kPairs; ++pair) {
    const std::vector<float> a = normal_values(4096, 2 * pair);
    std::vector<float> b = normal_values(4096, 2 * pair + 1);
    double distance = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      b[i] = a[i] + 0.01F * b[i];
      const double apart = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      distance += apart * apart;
    }
    const TensorSummary of_a = summary_of(a), of_b = summary_of(b);
    double sketched = 0;
    for (std::size_t lane = 0; lane < kSketchSize; ++lane) {
      const double apart = of_a.sketch()[lane] - of_b.sketch()[lane];
      sketched += apart * apart;
    }
    sum += sketched / distance;
  }
  EXPECT_NEAR(sum / kPairs, 1, 5 * std::sqrt(2.0 / 32 / kPairs));
}

// Of a tensor whose elements are all alike, which signs that repeat would add up: a squared sketch
// is off by √(2 / 32), and five times that at most.
TEST(TensorSummary, SignsDoNotRepeat) {
  for (const std::size_t size : {4096U, 8192U, 65536U, 1000000U}) {
    const TensorSummary summary = summary_of(std::vector<float>(size, 1.0F));
    double sketched = 0;
    for (const double sum : summary.sketch()) sketched += sum * sum;
    EXPECT_NEAR(sketched / static_cast<double>(size), 1, 5 * std::sqrt(2.0 / 32)) << size;
    EXPECT_GT(sketched, 0) << size;
  }
}

TEST(TensorSummary, NumbersThatAreNotFiniteStay) {
  EXPECT_TRUE(std::isnan(summary_of({1, std::nanf("")}).norm()));
  EXPECT_TRUE(std::isinf(summary_of({1, -HUGE_VALF}).norm()));
}

}  // namespace
}  // namespace regatta::tests
