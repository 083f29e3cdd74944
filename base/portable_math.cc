// Only +, −, ×, ÷ of doubles and their bits, in the order in which they stand here: this file is
// compiled without fused multiply-add (CMakeLists.txt).
#include "base/portable_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace regatta::base {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ln 2 and π/2 as sums of a number with 32 zero bits at its end, so that small multiples of it are
// exact, and the rest.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kHalfPiHigh = 1.57079632673412561417e+00;
constexpr double kHalfPiMiddle = 6.07710050630396597660e-11;
constexpr double kHalfPiLow = 2.02226624879595063154e-21;

constexpr double kMagic = 6755399441055744.0;  // 1.5·2⁵²: adding it rounds to a whole number

// x·2ⁿ of a normal x and |n| ≤ 1023.
double scaled(double x, std::int64_t n) {
  return x * std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52U);
}

// Σ cᵢ·xⁱ, the highest coefficient first.
template <std::size_t N>
double polynomial(double x, const double (&coefficients)[N]) {
  double sum = coefficients[0];
  for (std::size_t i = 1; i < N; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// Taylor's, of |x| ≤ π/4: the first term left out is below 2⁻⁵⁸ of the value.
constexpr double kSine[] = {
    1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
    1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
constexpr double kCosine[] = {
    1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
    1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0};

double sine_near(double x) {
  const double square = x * x;
  return x + x * square * polynomial(square, kSine);
}
double cosine_near(double x) {
  const double square = x * x;
  return 1.0 - (0.5 * square - square * square * polynomial(square, kCosine));
}

// eʳ − 1 − r over r², of |r| ≤ ln 2 / 2; the first term left out is below 2⁻⁵⁶.
constexpr double kExponential[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                   1.0 / 3628800.0,    1.0 / 362880.0,    1.0 / 40320.0,
                                   1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,
                                   1.0 / 24.0,         1.0 / 6.0,         1.0 / 2.0};

// (artanh s − s) over s³ as a series in s², of |s| ≤ 0.1716; the first left out is below 2⁻⁵⁸.
constexpr double kArea[] = {1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0,
                            1.0 / 11.0, 1.0 / 9.0,  1.0 / 7.0,  1.0 / 5.0,  1.0 / 3.0};

}  // namespace

double portable_exp(double x) {
  if (x != x) return x;
  if (x > 709.79) return kInfinity;
  if (x < -745.2) return 0;
  const double n = (x * 1.44269504088896340736 + kMagic) - kMagic;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  const double value = 1.0 + (r + r * r * polynomial(r, kExponential));
  // In two steps: 2ⁿ alone may be no normal number.
  const auto whole = static_cast<std::int64_t>(n);
  return scaled(scaled(value, whole / 2), whole - whole / 2);
}

double portable_log(double x) {
  if (x != x || x < 0) return kNaN;
  if (x == 0) return -kInfinity;
  if (x == kInfinity) return x;
  std::int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<std::int64_t>(bits >> 52U) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double f = m - 1.0;  // exact
  const double s = f / (m + 1.0);
  const double square = s * s;
  const auto n = static_cast<double>(exponent);
  // ln m = 2·artanh s; f − s·f is 2·s with less rounding (fdlibm).
  const double rest = 2.0 * square * polynomial(square, kArea);
  return n * kLn2High + (f - (s * (f - rest) - n * kLn2Low));
}

double portable_cos(double x) {
  const double n = (x * 6.36619772367581382433e-01 + kMagic) - kMagic;
  const double r = ((x - n * kHalfPiHigh) - n * kHalfPiMiddle) - n * kHalfPiLow;
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0:
      return cosine_near(r);
    case 1:
      return -sine_near(r);
    case 2:
      return -cosine_near(r);
    default:
      return sine_near(r);
  }
}

double portable_power(double x, double y) {
  if (y == 0) return 1;
  if (std::abs(y) < 0x1p31 && y == std::trunc(y)) {
    auto left = static_cast<std::uint64_t>(std::abs(y));
    double product = 1, square = x;
    for (;; square *= square) {
      if ((left & 1U) != 0) product *= square;
      left >>= 1U;
      if (left == 0) break;
    }
    return y < 0 ? 1.0 / product : product;
  }
  if (x == 0) return y > 0 ? 0 : kInfinity;
  return portable_exp(y * portable_log(x));
}

}  // namespace regatta::base
