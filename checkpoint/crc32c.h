// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78; RFC 3720, appendix B.4): the check of
// LevelDB's tables and of TensorFlow's tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace regatta::checkpoint {

// The checksum of what `crc` covers followed by `bytes`; 0 is the checksum of nothing.
[[nodiscard]] std::uint32_t extend_crc32c(std::uint32_t crc, std::span<const std::byte> bytes);
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

// As LevelDB stores it, so that the checksum of bytes that hold a checksum stays a good one.
[[nodiscard]] constexpr std::uint32_t masked_crc32c(std::uint32_t crc) {
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

}  // namespace regatta::checkpoint
