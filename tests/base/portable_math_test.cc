// Against long double, whose 64 bits of mantissa decide a double's last bit in nearly every case;
// and a digest of many results, which is the same on every machine or the promise is broken.
#include "base/portable_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/digest.h"

namespace regatta::base {
namespace {

// Of `value` from the truth, in units of the truth's last place.
double units_off(double value, long double truth) {
  const double nearest = static_cast<double>(truth);
  const double unit = std::nextafter(std::abs(nearest), INFINITY) - std::abs(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(value) - truth) / unit);
}

double uniform(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11U) * 0x1p-53;
}

TEST(PortableMath, IsWithinTwoUnitsInTheLastPlace) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const double x = uniform(random, -700, 700);
    ASSERT_LE(units_off(portable_exp(x), std::exp(static_cast<long double>(x))), 2) << x;
    const double near = uniform(random, -1, 1);
    ASSERT_LE(units_off(portable_exp(near), std::exp(static_cast<long double>(near))), 2) << near;
    const double size = std::exp(uniform(random, -700, 700));
    ASSERT_LE(units_off(portable_log(size), std::log(static_cast<long double>(size))), 2) << size;
    const double one = uniform(random, 0.5, 2);
    ASSERT_LE(units_off(portable_log(one), std::log(static_cast<long double>(one))), 2) << one;
    const double angle = uniform(random, -7, 7);
    ASSERT_LE(std::abs(static_cast<long double>(portable_cos(angle)) -
                       std::cos(static_cast<long double>(angle))),
              2.3e-16L)
        << angle;
  }
}

TEST(PortableMath, PowersOfWholeAndOtherExponents) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 20'000; ++i) {
    const double x = uniform(random, 0, 1);
    ASSERT_EQ(portable_power(x, 1), x);
    ASSERT_EQ(portable_power(x, 2), x * x);
    ASSERT_EQ(portable_power(x, 0), 1);
    const auto n = static_cast<double>(random() % 1000);
    const double beta = uniform(random, 0.9, 0.9999);
    ASSERT_LE(units_off(portable_power(beta, n),
                        std::pow(static_cast<long double>(beta), static_cast<long double>(n))),
              1000)
        << beta << " " << n;
    const double y = uniform(random, 0, 100);
    const double wide = uniform(random, 0.5, 1);
    ASSERT_LE(units_off(portable_power(wide, y),
                        std::pow(static_cast<long double>(wide), static_cast<long double>(y))),
              150)
        << wide << " " << y;
  }
  EXPECT_EQ(portable_power(0, 0.5), 0);
  EXPECT_EQ(portable_power(2, -2), 0.25);
}

TEST(PortableMath, EndsOfTheRange) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(portable_exp(0), 1);
  EXPECT_EQ(portable_exp(710), kInfinity);
  EXPECT_EQ(portable_exp(-746), 0);
  EXPECT_EQ(portable_exp(-kInfinity), 0);
  EXPECT_GT(portable_exp(-744), 0) << "a subnormal number";
  EXPECT_TRUE(std::isnan(portable_exp(NAN)));
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_EQ(portable_log(0), -kInfinity);
  EXPECT_EQ(portable_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(portable_log(-1)));
  EXPECT_TRUE(std::isnan(portable_log(NAN)));
  EXPECT_NEAR(portable_log(5e-324), -744.4400719213812, 1e-12);
  EXPECT_EQ(portable_cos(0), 1);
}

TEST(PortableMath, HasTheSameBitsEverywhere) {
  std::mt19937_64 random(9);
  std::string bytes;
  for (int i = 0; i < 10'000; ++i) {
    const double x = uniform(random, 0, 5);
    for (const double value : {portable_exp(x), portable_log(x), portable_cos(x),
                               portable_power(x, 3), portable_power(x, 0.7)}) {
      const auto bits = std::bit_cast<std::uint64_t>(value);
      for (int shift = 0; shift < 64; shift += 8) {
        bytes.push_back(static_cast<char>(bits >> static_cast<unsigned>(shift)));
      }
    }
  }
  EXPECT_EQ(digest_of(bytes), "8f14c1deee896d44ce6bc6ee315089fb");
}

}  // namespace
}  // namespace regatta::base
