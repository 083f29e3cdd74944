#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace regatta::base {

using Sha256 = std::array<std::uint8_t, 32>;

// SHA-256 (FIPS 180-4), for secrets of which only the hash is kept. Checksums: see digest.h.
[[nodiscard]] Sha256 sha256(std::string_view text);

// HMAC-SHA256 (RFC 2104): a signature that only who has the key can make or check.
[[nodiscard]] Sha256 hmac_sha256(std::string_view key, std::string_view text);

// How long it takes does not tell where the two differ.
[[nodiscard]] bool equal_in_constant_time(const Sha256& a, const Sha256& b);

}  // namespace regatta::base
