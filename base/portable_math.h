// Elementary functions of doubles that have the same bits on every machine: a library's choose
// their code by the processor, and the last bit with it. Within two units in the last place, but
// for power() of large exponents; none sets errno.
#pragma once

namespace regatta::base {

// eˣ. 0 below −745.2, +∞ above 709.8; NaN stays.
[[nodiscard]] double portable_exp(double x);
// ln x of a number ≥ 0, with ln 0 = −∞; NaN below.
[[nodiscard]] double portable_log(double x);
// Of |x| ≤ 1,000 radians.
[[nodiscard]] double portable_cos(double x);
// xʸ of x ≥ 0. A whole y of |y| < 2³¹ by squaring, whose relative error grows to |y| units in the
// last place: x¹ is x exactly. Others by logarithm.
[[nodiscard]] double portable_power(double x, double y);

}  // namespace regatta::base
