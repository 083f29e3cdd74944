// What benchmarks draw their random numbers from.
#pragma once

#include <cstdint>

namespace regatta::trainer::bench {

inline constexpr std::uint64_t kSeed = 1;

}  // namespace regatta::trainer::bench
