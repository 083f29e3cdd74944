#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace regatta::base {

using Sha256 = std::array<std::uint8_t, 32>;

// FIPS 180-4. For secrets that are kept only as their hash; digest.h is the one for damage.
[[nodiscard]] Sha256 sha256(std::string_view text);

// Takes the same time whatever differs.
[[nodiscard]] bool equal_in_constant_time(const Sha256& a, const Sha256& b);

}  // namespace regatta::base
