#include "checkpoint/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace regatta::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes are read as one number");

// kTables[n][b]: what byte b does to the checksum when n more bytes follow it, so that eight bytes
// take eight independent look-ups.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t n = 1; n < tables.size(); ++n) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[n - 1][byte];
      tables[n][byte] = (before >> 8U) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t extend_crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint32_t state = ~crc;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data() + i, 8);
    eight ^= state;
    const auto look_up = [eight](std::size_t n) {
      return kTables[7 - n][(eight >> (8 * n)) & 0xFFU];
    };
    // Written out, because as a loop gcc keeps it a loop, which takes a quarter longer.
    state = look_up(0) ^ look_up(1) ^ look_up(2) ^ look_up(3) ^ look_up(4) ^ look_up(5) ^
            look_up(6) ^ look_up(7);
  }
  for (; i < bytes.size(); ++i) {
    state = (state >> 8U) ^ kTables[0][(state ^ std::to_integer<std::uint32_t>(bytes[i])) & 0xFFU];
  }
  return ~state;
}

std::uint32_t crc32c(std::string_view bytes) {
  return extend_crc32c(0, std::as_bytes(std::span(bytes)));
}

}  // namespace regatta::checkpoint
